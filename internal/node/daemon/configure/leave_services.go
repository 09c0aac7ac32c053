package configure

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/daemon/supervisor"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// leavingServices removes the operator's services from a leaving host.
type leavingServices struct{ *leaving }

// remove removes the operator's services: first those that would restore the others, then each service after those that depend on it.
func (s leavingServices) remove(ctx context.Context) error {
	release, err := state.LockServices(ctx, s.System)
	if err != nil {
		return err
	}
	defer release()
	rest, err := operatorServices(ctx, s.Services)
	if err != nil {
		return err
	}
	for len(rest) > 0 {
		next := max(0, slices.IndexFunc(rest, func(s hostapi.Service) bool { return !isNeeded(s, rest) }))
		if at := slices.IndexFunc(rest, isDaemon); at >= 0 {
			next = at
		}
		name := rest[next].Name
		if err := s.Services.Delete(ctx, name); err != nil {
			return err
		}
		s.recordChange("service %s removed", name)
		rest = slices.Delete(rest, next, next+1)
	}
	return s.waitForDeletion(ctx)
}

func isNeeded(s hostapi.Service, others []hostapi.Service) bool {
	return slices.ContainsFunc(others, func(o hostapi.Service) bool {
		return slices.ContainsFunc(o.DependsOn, func(name string) bool { return strings.EqualFold(name, s.Name) })
	})
}

func isDaemon(s hostapi.Service) bool {
	return s.Name == api.WICDUpdateService || s.Name == api.WICDService
}

// deletionTimeout is how long a leave waits for deleted services to disappear: they remain as long as a program has a handle open.
const deletionTimeout = 10 * time.Second

func (s leavingServices) waitForDeletion(ctx context.Context) error {
	for end := time.Now().Add(deletionTimeout); ; {
		rest, err := operatorServices(ctx, s.Services)
		if err != nil || len(rest) == 0 {
			return err
		}
		if time.Now().After(end) {
			for _, r := range rest {
				s.remains.note("service %s: it is marked for deletion, and disappears when the last program closes its handle, or at a restart", r.Name)
			}
			return nil
		}
		if err := backoff.Sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// operatorServices returns the services that are marked as the operator's.
func operatorServices(ctx context.Context, all hostapi.Services) ([]hostapi.Service, error) {
	found, err := all.List(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("listing services: %w", err)
	}
	return slices.DeleteFunc(found, func(s hostapi.Service) bool { return !supervisor.IsManaged(s) }), nil
}
