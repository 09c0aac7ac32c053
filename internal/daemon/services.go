package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/desired"
)

// checkServices refuses a host on which somebody else has a service with one of our names.
func (a *applying) checkServices(ctx context.Context) error {
	wanted := a.wanted.Services
	found, err := a.Services.List(ctx, desired.NamesOf(wanted))
	if err != nil {
		return fmt.Errorf("listing services: %w", err)
	}
	for _, s := range found {
		isWanted := slices.ContainsFunc(wanted, func(w desired.Service) bool { return strings.EqualFold(w.Name, s.Name) })
		if isWanted && !isOurs(s) {
			return &agent.Error{Code: agent.CodeServiceConflict, Message: fmt.Sprintf(
				"service %q is there already and not ours (description %q, command %q); if nothing needs it, stop it and remove it with: sc.exe delete %s",
				s.Name, s.Description, s.Command, s.Name)}
		}
	}
	return nil
}

// startServices makes all services as declared and running, WICD's own last.
func (a *applying) startServices(ctx context.Context) error {
	services := slices.Clone(a.wanted.Services)
	slices.SortStableFunc(services, func(a, b desired.Service) int { return ownLast(a) - ownLast(b) })
	return a.start(ctx, services)
}

// startOthers does the same for all but WICD's own: stopping that one means to stop ourselves.
func (a *applying) startOthers(ctx context.Context) error {
	return a.start(ctx, withoutOwn(a.wanted.Services))
}

func withoutOwn(services []desired.Service) []desired.Service {
	return slices.DeleteFunc(slices.Clone(services), func(s desired.Service) bool { return s.Name == api.WICDService })
}

func (a *applying) start(ctx context.Context, services []desired.Service) error {
	release, err := state.LockServices(ctx, a.System)
	if err != nil {
		return err
	}
	defer release()
	k := keeper{host: a.Host, wanted: services, did: a.did}
	launches, err := a.launches(k.wanted)
	if err != nil {
		return err
	}
	found, err := k.list(ctx)
	if err != nil {
		return err
	}
	commit, err := prepareLaunches(a.Disk, launches)
	if err != nil {
		return err
	}
	if err := a.removeOthers(ctx); err != nil {
		return err
	}
	if _, err := k.stop(ctx, found, a.restart); err != nil {
		return err
	}
	if err := errors.Join(a.dropOutdated(), a.removeFormerNetwork(ctx)); err != nil {
		return err
	}
	if err := commit(); err != nil {
		return fmt.Errorf("writing %s: %w", launchesFile, err)
	}
	for _, s := range k.wanted {
		if err := k.declare(ctx, s); err != nil {
			return err
		}
	}
	return k.startAll(ctx)
}

// removeOthers removes services that are marked as ours and are wanted no more. That they were declared by the request before
// this one, or by the original operator, makes no difference.
func (a *applying) removeOthers(ctx context.Context) error {
	wanted := append(desired.NamesOf(a.wanted.Services), api.WICDUpdateService)
	found, err := a.Services.List(ctx, nil)
	if err != nil {
		return fmt.Errorf("listing services: %w", err)
	}
	for _, s := range found {
		if slices.ContainsFunc(wanted, func(name string) bool { return strings.EqualFold(name, s.Name) }) {
			continue
		}
		if err := a.Services.Delete(ctx, s.Name); err != nil {
			return err
		}
		a.did("service %s removed", s.Name)
	}
	return nil
}

func ownLast(s desired.Service) int {
	if s.Name == api.WICDService {
		return 1
	}
	return 0
}
