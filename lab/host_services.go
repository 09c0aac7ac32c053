//go:build linux

package lab

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
)

// Changes of services as an administrator of the host makes them. They wait only for the service manager's answer.

// Service returns one of the host's services; found is false if it does not exist.
func (h *Host) Service(ctx context.Context, name string) (s guestapi.Service, found bool, err error) {
	all, err := h.Services(ctx)
	n := slices.IndexFunc(all, func(s guestapi.Service) bool { return strings.EqualFold(s.Name, name) })
	if err != nil || n < 0 {
		return guestapi.Service{}, false, err
	}
	return all[n], true, nil
}

// KillService kills the process of a service.
func (h *Host) KillService(ctx context.Context, name string) error {
	s, _, err := h.Service(ctx, name)
	if err != nil {
		return err
	}
	return h.must(ctx, "taskkill.exe /f /pid "+strconv.FormatUint(uint64(s.PID), 10))
}

// StopService sends the stop control to a service.
func (h *Host) StopService(ctx context.Context, name string) error {
	return h.must(ctx, "sc.exe stop "+name)
}

// StartService starts a service.
func (h *Host) StartService(ctx context.Context, name string) error {
	return h.must(ctx, "sc.exe start "+name)
}

// DeleteService deletes a service; a running one is deleted once it has stopped.
func (h *Host) DeleteService(ctx context.Context, name string) error {
	return h.must(ctx, "sc.exe delete "+name)
}

// EditService changes the configuration of a service.
func (h *Host) EditService(ctx context.Context, e guestapi.ServiceEdit) error {
	return h.call(ctx, guestapi.ServiceEditPath, e, &guestapi.Nothing{})
}

// must runs a command line that must succeed.
func (h *Host) must(ctx context.Context, commandLine string) error {
	result, err := h.Exec(ctx, commandLine)
	if err == nil && result.ExitCode != 0 {
		err = fmt.Errorf("exit code %d: %s%s", result.ExitCode, result.Stdout, result.Stderr)
	}
	if err != nil {
		return fmt.Errorf("running %s on %s: %w", commandLine, h.name, err)
	}
	return nil
}
