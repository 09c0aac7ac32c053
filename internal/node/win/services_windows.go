package win

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/win/scm"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// services are the services of this Windows. Each call connects to the SCM and closes all handles: an open handle prevents the
// removal of a deleted service.
type services struct {
	// timeout is how long a call waits for a busy SCM, or for a service that is being deleted.
	timeout time.Duration
	// silence is how long a service may be starting without progress, unless it requests more.
	silence time.Duration
	// grace is how long a service may take to stop, and its process to exit, before the process is killed.
	grace time.Duration
}

// tick is how often a service that is starting or stopping is polled.
const tick = 100 * time.Millisecond

// List implements hostapi.Services. Without names it reads the description of each service, for most of which Windows has to load texts.
func (s *services) List(ctx context.Context, names []string) ([]hostapi.Service, error) {
	m, err := connect(windows.SC_MANAGER_ENUMERATE_SERVICE)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	requested := names
	if len(names) == 0 {
		all, err := m.Services()
		if err != nil {
			return nil, fmt.Errorf("listing services: %w", err)
		}
		for _, e := range all {
			requested = append(requested, e.Name)
		}
	}
	var found []hostapi.Service
	for i, name := range requested {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("listing services: %w", err)
		}
		if isNamed(name, requested[:i]) {
			continue
		}
		service, listed, err := m.read(name, len(names) > 0)
		if err != nil && len(names) > 0 && !isDeleted(err) {
			return nil, fmt.Errorf("reading service %s: %w", name, err)
		}
		if err == nil && listed {
			found = append(found, service)
		}
	}
	return found, nil
}

// read reads a service. If it is neither requested nor managed, listed is false and only its description is read.
func (m manager) read(name string, requested bool) (found hostapi.Service, listed bool, err error) {
	s, err := m.open(name, windows.SERVICE_QUERY_CONFIG|windows.SERVICE_QUERY_STATUS)
	if err != nil {
		return found, false, err
	}
	defer s.Close()
	description, err := s.description()
	if err != nil || !requested && !strings.HasPrefix(description, desired.ServiceDescription("")) {
		return found, false, err
	}
	config, err := s.config(name)
	if err != nil {
		return found, false, err
	}
	variables, err := ownVariables(name)
	if err != nil {
		return found, false, err
	}
	status, err := s.Status()
	declared := desired.Service{
		Name: name, Description: description, Command: config.command, DependsOn: config.dependsOn, Environment: variables,
	}
	return observed(declared, status), true, err
}

// isNamed reports whether a list contains a name, compared as Windows does.
func isNamed(name string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// observed returns a service with the process state that the SCM reports.
func observed(declaration desired.Service, status windows.SERVICE_STATUS_PROCESS) hostapi.Service {
	s := hostapi.Service{Service: declaration, State: state(status), PID: status.ProcessId, ExitCode: status.Win32ExitCode}
	if s.State == hostapi.Stopped {
		s.PID = 0
	}
	switch syscall.Errno(s.ExitCode) {
	case windows.ERROR_SERVICE_NEVER_STARTED: // no process yet
		s.ExitCode = 0
	case windows.ERROR_SERVICE_SPECIFIC_ERROR:
		s.ExitCode = status.ServiceSpecificExitCode
	}
	return s
}

func state(status windows.SERVICE_STATUS_PROCESS) hostapi.ServiceState {
	switch status.CurrentState {
	case windows.SERVICE_START_PENDING, windows.SERVICE_CONTINUE_PENDING:
		return hostapi.Starting
	case windows.SERVICE_RUNNING:
		return hostapi.Running
	case windows.SERVICE_STOP_PENDING:
		return hostapi.Stopping
	case windows.SERVICE_PAUSE_PENDING, windows.SERVICE_PAUSED:
		return hostapi.Paused
	}
	return hostapi.Stopped
}

// isDeleted reports whether a service does not exist or is being deleted.
func isDeleted(err error) bool {
	return errors.Is(err, hostapi.ErrNotFound) || errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE)
}

// retryWhileBusy repeats a call while Windows is busy: the SCM's database is locked right after the start of Windows, no program can be
// started for a moment, and a deleted service exists until the last handle to it is closed. The call must not keep a handle open. A program
// that was started and did not connect is not restarted here: it may be broken.
func (s *services) retryWhileBusy(ctx context.Context, call func() error) error {
	for end := time.Now().Add(s.timeout); ; {
		err := call()
		marked := errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE)
		if !marked && !errors.Is(err, windows.ERROR_SERVICE_DATABASE_LOCKED) && !errors.Is(err, errNotStarted) {
			return err
		}
		if marked {
			err = fmt.Errorf("%w (a program holds it open, often the Services console: close it, or restart the host)", err)
		}
		if time.Now().After(end) {
			return err
		}
		if pauseErr := backoff.Sleep(ctx, tick); pauseErr != nil {
			return fmt.Errorf("%w: %w", pauseErr, err)
		}
	}
}

// manager is a connection to the SCM.
type manager struct{ scm.Manager }

func connect(access uint32) (manager, error) {
	m, err := scm.Connect(access)
	return manager{m}, err
}

// open opens a service. A missing one is hostapi.ErrNotFound.
func (m manager) open(name string, access uint32) (service, error) {
	s, err := m.Open(name, access)
	return service{s}, err
}

// statusOf returns the status of a service. Without the service, the error is hostapi.ErrNotFound.
func statusOf(name string) (windows.SERVICE_STATUS_PROCESS, error) {
	m, err := connect(0)
	if err != nil {
		return windows.SERVICE_STATUS_PROCESS{}, err
	}
	defer m.Close()
	s, err := m.open(name, windows.SERVICE_QUERY_STATUS)
	if err != nil {
		return windows.SERVICE_STATUS_PROCESS{}, err
	}
	defer s.Close()
	return s.Status()
}

// isRunning reports whether a service of Windows runs. Without it, the error is hostapi.ErrNotFound.
func isRunning(name string) (bool, error) {
	status, err := statusOf(name)
	return err == nil && status.CurrentState == windows.SERVICE_RUNNING, err
}
