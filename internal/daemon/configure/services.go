package configure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/daemon/supervisor"
	"github.com/windows-machine-config/wmco/internal/desired"
)

// checkServices refuses a host on which somebody else has a service with one of our names.
func (c *configurator) checkServices(ctx context.Context) error {
	wanted := c.wanted.Services
	found, err := c.Services.List(ctx, desired.NamesOf(wanted))
	if err != nil {
		return fmt.Errorf("listing services: %w", err)
	}
	for _, s := range found {
		isWanted := slices.ContainsFunc(wanted, func(w desired.Service) bool { return strings.EqualFold(w.Name, s.Name) })
		if isWanted && !supervisor.IsOurs(s) {
			return &agent.Error{Code: agent.CodeServiceConflict, Message: fmt.Sprintf(
				"service %q is there already and not ours (description %q, command %q); if nothing needs it, stop it and remove it with: sc.exe delete %s",
				s.Name, s.Description, s.Command, s.Name)}
		}
	}
	return nil
}

// startServices makes all services as declared and running, WICD's own last.
func (c *configurator) startServices(ctx context.Context) error {
	services := slices.Clone(c.wanted.Services)
	slices.SortStableFunc(services, func(a, b desired.Service) int { return ownLast(a) - ownLast(b) })
	return c.start(ctx, services)
}

// startOthers does the same for all but WICD's own: stopping that one means to stop ourselves.
func (c *configurator) startOthers(ctx context.Context) error {
	return c.start(ctx, supervisor.WithoutOwn(c.wanted.Services))
}

func (c *configurator) start(ctx context.Context, services []desired.Service) error {
	release, err := state.LockServices(ctx, c.System)
	if err != nil {
		return err
	}
	defer release()
	m := supervisor.Manager{Host: c.Host, Wanted: services, Changed: c.recordChange}
	launches, err := c.launches(m.Wanted)
	if err != nil {
		return err
	}
	found, err := m.List(ctx)
	if err != nil {
		return err
	}
	commit, err := prepareLaunches(c.Disk, launches)
	if err != nil {
		return err
	}
	if err := c.removeOthers(ctx); err != nil {
		return err
	}
	if _, err := m.Stop(ctx, found, c.restart); err != nil {
		return err
	}
	if err := errors.Join(c.dropOutdated(), c.removeFormerNetwork(ctx)); err != nil {
		return err
	}
	if err := commit(); err != nil {
		return fmt.Errorf("writing %s: %w", launchesFile, err)
	}
	for _, s := range m.Wanted {
		if err := m.Declare(ctx, s); err != nil {
			return err
		}
	}
	return m.StartAll(ctx)
}

// removeOthers removes services that are marked as ours and are wanted no more. That they were declared by the request before
// this one, or by the original operator, makes no difference.
func (c *configurator) removeOthers(ctx context.Context) error {
	wanted := append(desired.NamesOf(c.wanted.Services), api.WICDUpdateService)
	found, err := c.Services.List(ctx, nil)
	if err != nil {
		return fmt.Errorf("listing services: %w", err)
	}
	for _, s := range found {
		if slices.ContainsFunc(wanted, func(name string) bool { return strings.EqualFold(name, s.Name) }) {
			continue
		}
		if err := c.Services.Delete(ctx, s.Name); err != nil {
			return err
		}
		c.recordChange("service %s removed", s.Name)
	}
	return nil
}

func ownLast(s desired.Service) int {
	if s.Name == api.WICDService {
		return 1
	}
	return 0
}
