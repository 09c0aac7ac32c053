package win

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/win/scm"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Settings of each of the product's services. The SCM uses milliseconds, and seconds for the reset period.
const (
	account = "LocalSystem"
	// resetSeconds is how long a service must run without a failure to reset the count of failures.
	resetSeconds = 300
	// preShutdown is how long Windows waits for a service that handles PRESHUTDOWN. A longer time is kept: the kubelet sets one for the grace periods
	// of its pods.
	preShutdown = 3 * time.Minute
)

// restarts are the delays before the first, the second, and every further restart of a failed service.
func restarts() []time.Duration {
	return []time.Duration{5 * time.Second, 10 * time.Second, time.Minute}
}

// Put implements hostapi.Services. Some settings cannot be read (Wine returns only a few). They are written when the service is
// created and with any other change, so that the result changed is accurate.
func (s *services) Put(ctx context.Context, d desired.Service) (changed bool, err error) {
	if err := hostapi.CheckVariables(d.Environment); err != nil {
		return false, fmt.Errorf("declaring service %s: %w", d.Name, err)
	}
	err = s.retryWhileBusy(ctx, func() error {
		now, err := put(d)
		changed = changed || now
		return err
	})
	if err != nil {
		return changed, fmt.Errorf("declaring service %s: %w", d.Name, err)
	}
	return changed, nil
}

func put(d desired.Service) (changed bool, err error) {
	m, err := connect(windows.SC_MANAGER_CREATE_SERVICE)
	if err != nil {
		return false, err
	}
	defer m.Close()
	// Restarting as recovery action requires the right to start.
	const access = windows.SERVICE_QUERY_CONFIG | windows.SERVICE_QUERY_STATUS | windows.SERVICE_CHANGE_CONFIG | windows.SERVICE_START
	s, err := m.open(d.Name, access)
	created := errors.Is(err, hostapi.ErrNotFound)
	if created {
		s, err = m.create(d, access)
	}
	if err != nil {
		return false, err
	}
	defer s.Close()
	if err := closeKey(d.Name); err != nil && !errors.Is(err, registry.ErrNotExist) { // then the service is being deleted
		return created, err
	}
	changed, err = s.configure(d)
	changed = changed || created
	if errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE) && s.runs() {
		return changed, hostapi.ErrDeleted // waiting does not help
	}
	if err != nil {
		return changed, err
	}
	changed, err = s.set(settings(d), changed)
	if err != nil {
		return changed, err
	}
	more, err := setOwnVariables(d.Name, d.Environment)
	return changed || more, err
}

func (m manager) create(d desired.Service, access uint32) (service, error) {
	name, err := windows.UTF16PtrFromString(d.Name)
	if err != nil {
		return service{}, err
	}
	command, err := windows.UTF16PtrFromString(d.Command)
	if err != nil {
		return service{}, err
	}
	h, err := windows.CreateService(m.Handle, name, name, access, windows.SERVICE_WIN32_OWN_PROCESS,
		windows.SERVICE_AUTO_START, windows.SERVICE_ERROR_NORMAL, command, nil, nil, &block(d.DependsOn)[0], nil, nil)
	return service{scm.Service{Handle: h}}, err
}

// configure writes the settings of QueryServiceConfig that differ from a declaration.
func (s service) configure(d desired.Service) (changed bool, err error) {
	now, err := s.config(d.Name)
	if err != nil {
		return false, err
	}
	const keep = windows.SERVICE_NO_CHANGE
	kind, start := uint32(keep), uint32(keep)
	var command, user *uint16
	if now.kind != windows.SERVICE_WIN32_OWN_PROCESS {
		kind, changed = windows.SERVICE_WIN32_OWN_PROCESS, true
	}
	if now.start != windows.SERVICE_AUTO_START {
		start, changed = windows.SERVICE_AUTO_START, true
	}
	if now.command != d.Command {
		if command, err = windows.UTF16PtrFromString(d.Command); err != nil {
			return false, err
		}
		changed = true
	}
	if !desired.SameNames(now.dependsOn, d.DependsOn) {
		changed = true
	}
	if !strings.EqualFold(now.account, account) {
		if user, err = windows.UTF16PtrFromString(account); err != nil {
			return false, err
		}
		changed = true
	}
	// Without a change the call still fails if the service is being deleted. It always includes the dependencies, because Wine's
	// SCM removes them otherwise.
	return changed, windows.ChangeServiceConfig(s.Handle, kind, start, keep, command, nil, nil,
		&block(d.DependsOn)[0], user, nil, nil)
}

// runs reports whether a service is in any state except stopped.
func (s service) runs() bool {
	status, err := s.Status()
	return err == nil && status.CurrentState != windows.SERVICE_STOPPED
}

// setting is one of the SCM's further settings of a service, SERVICE_CONFIG_* in winsvc.h.
type setting struct {
	level uint32
	// value is the structure for ChangeServiceConfig2.
	value unsafe.Pointer
	// holds reports whether a result of QueryServiceConfig2 is as declared.
	holds func(answer unsafe.Pointer) bool
}

func settings(d desired.Service) []setting {
	description, _ := windows.UTF16PtrFromString(strings.ReplaceAll(d.Description, "\x00", ""))
	var actions []windows.SC_ACTION
	for _, delay := range restarts() {
		actions = append(actions, windows.SC_ACTION{Type: windows.SC_ACTION_RESTART, Delay: uint32(delay.Milliseconds())})
	}
	longest := uint32(preShutdown.Milliseconds())
	return []setting{{
		level: windows.SERVICE_CONFIG_DESCRIPTION,
		value: unsafe.Pointer(&windows.SERVICE_DESCRIPTION{Description: description}),
		holds: func(a unsafe.Pointer) bool {
			return windows.UTF16PtrToString((*windows.SERVICE_DESCRIPTION)(a).Description) == d.Description
		},
	}, {
		level: windows.SERVICE_CONFIG_FAILURE_ACTIONS,
		value: unsafe.Pointer(&windows.SERVICE_FAILURE_ACTIONS{
			ResetPeriod: resetSeconds, ActionsCount: uint32(len(actions)), Actions: &actions[0],
		}),
		holds: func(a unsafe.Pointer) bool {
			now := (*windows.SERVICE_FAILURE_ACTIONS)(a)
			return now.ResetPeriod == resetSeconds && slices.Equal(unsafe.Slice(now.Actions, now.ActionsCount), actions)
		},
	}, {
		// Also if the service stops on its own and reports an error, not only if its process dies. According to Microsoft's documentation, this takes
		// effect at the next start of Windows; until then WICD starts the service.
		level: windows.SERVICE_CONFIG_FAILURE_ACTIONS_FLAG,
		value: unsafe.Pointer(&windows.SERVICE_FAILURE_ACTIONS_FLAG{FailureActionsOnNonCrashFailures: 1}),
		holds: func(a unsafe.Pointer) bool {
			return (*windows.SERVICE_FAILURE_ACTIONS_FLAG)(a).FailureActionsOnNonCrashFailures != 0
		},
	}, {
		level: windows.SERVICE_CONFIG_DELAYED_AUTO_START_INFO,
		value: unsafe.Pointer(&windows.SERVICE_DELAYED_AUTO_START_INFO{IsDelayedAutoStartUp: 0}),
		holds: func(a unsafe.Pointer) bool {
			return (*windows.SERVICE_DELAYED_AUTO_START_INFO)(a).IsDelayedAutoStartUp == 0
		},
	}, {
		// SERVICE_PRESHUTDOWN_INFO, which golang.org/x/sys lacks, is one number of milliseconds.
		level: windows.SERVICE_CONFIG_PRESHUTDOWN_INFO,
		value: unsafe.Pointer(&longest),
		holds: func(a unsafe.Pointer) bool { return *(*uint32)(a) >= longest },
	}}
}

// set writes the settings that differ and, with them or after another change, those that cannot be read. Every Windows supports
// all levels; Wine's SCM rejects some (ERROR_INVALID_LEVEL).
func (s service) set(all []setting, changed bool) (bool, error) {
	var unknown []setting
	for _, one := range all {
		buffer, err := s.setting(one.level)
		switch {
		case errors.Is(err, windows.ERROR_INVALID_LEVEL):
			unknown = append(unknown, one)
			continue
		case err != nil:
			return changed, err
		case one.holds(unsafe.Pointer(&buffer[0])):
			continue
		}
		changed = true
		if err := s.change(one); err != nil {
			return changed, err
		}
	}
	if !changed {
		return false, nil
	}
	for _, one := range unknown {
		if err := s.change(one); err != nil && !errors.Is(err, windows.ERROR_INVALID_LEVEL) {
			return changed, err
		}
	}
	return changed, nil
}

func (s service) change(one setting) error {
	if err := windows.ChangeServiceConfig2(s.Handle, one.level, (*byte)(one.value)); err != nil {
		return fmt.Errorf("changing its setting %d (SERVICE_CONFIG_*): %w", one.level, err)
	}
	return nil
}
