package configure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/daemon/supervisor"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// services manages the node's services.
type services struct {
	work
	launches launches
	networks networks
	kubelet  kubeletState
	restarts restarts
	wanted   []desired.Service
}

// check refuses a host that has a foreign service with one of the operator's names.
func (s services) check(ctx context.Context) error {
	found, err := s.Services.List(ctx, desired.NamesOf(s.wanted))
	if err != nil {
		return fmt.Errorf("listing services: %w", err)
	}
	for _, f := range found {
		isWanted := slices.ContainsFunc(s.wanted, func(w desired.Service) bool { return strings.EqualFold(w.Name, f.Name) })
		if isWanted && !supervisor.IsManaged(f) {
			return &wicdapi.Error{Code: wicdapi.CodeServiceConflict, Message: fmt.Sprintf(
				"service %q already exists and was not created by the operator (description %q, command %q); if it is not needed, stop it and remove it with: sc.exe delete %s",
				f.Name, f.Description, f.Command, f.Name)}
		}
	}
	return nil
}

// startAll declares and starts all services, WICD's own last.
func (s services) startAll(ctx context.Context) error {
	wanted := slices.Clone(s.wanted)
	slices.SortStableFunc(wanted, func(a, b desired.Service) int { return ownLast(a) - ownLast(b) })
	return s.start(ctx, wanted)
}

// startOthers does the same for all but WICD's own service: stopping that one would stop the caller.
func (s services) startOthers(ctx context.Context) error {
	return s.start(ctx, supervisor.WithoutOwn(s.wanted))
}

func (s services) start(ctx context.Context, wanted []desired.Service) error {
	release, err := state.LockServices(ctx, s.System)
	if err != nil {
		return err
	}
	defer release()
	m := supervisor.Manager{Host: s.Host, Wanted: wanted, Changed: s.recordChange}
	launches, outdated, err := s.launches.read(wanted)
	if err != nil {
		return err
	}
	found, err := m.List(ctx)
	if err != nil {
		return err
	}
	stale, err := s.kubelet.isOutdated()
	if err != nil {
		return err
	}
	if stale {
		s.restarts.mark(desired.KubeletService, "its resource settings changed")
	}
	commit, err := s.launches.prepare(launches)
	if err != nil {
		return err
	}
	if err := s.removeOthers(ctx); err != nil {
		return err
	}
	if _, err := m.Stop(ctx, found, s.restarts); err != nil {
		return err
	}
	if err := errors.Join(s.launches.drop(outdated), s.networks.removeFormer(ctx)); err != nil {
		return err
	}
	if stale {
		if err := s.kubelet.drop(); err != nil {
			return err
		}
	}
	if err := commit(); err != nil {
		return fmt.Errorf("writing %s: %w", launchesFile, err)
	}
	for _, w := range wanted {
		if err := m.Declare(ctx, w); err != nil {
			return err
		}
	}
	return m.StartAll(ctx)
}

// removeOthers removes services that are marked as the operator's and no longer wanted, whether the previous request or the original operator
// declared them.
func (s services) removeOthers(ctx context.Context) error {
	wanted := append(desired.NamesOf(s.wanted), api.WICDUpdateService)
	found, err := s.Services.List(ctx, nil)
	if err != nil {
		return fmt.Errorf("listing services: %w", err)
	}
	for _, f := range found {
		if slices.ContainsFunc(wanted, func(name string) bool { return strings.EqualFold(name, f.Name) }) {
			continue
		}
		if err := s.Services.Delete(ctx, f.Name); err != nil {
			return err
		}
		s.recordChange("service %s removed", f.Name)
	}
	return nil
}

func ownLast(s desired.Service) int {
	if s.Name == api.WICDService {
		return 1
	}
	return 0
}
