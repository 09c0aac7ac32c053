package win

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/win/scm"
)

// Start implements hostapi.Services.
func (s *services) Start(ctx context.Context, name string) error {
	if err := s.start(ctx, name, nil); err != nil {
		return fmt.Errorf("starting service %s: %w", name, err)
	}
	return nil
}

// start starts a service on which the services in above depend.
func (s *services) start(ctx context.Context, name string, above []string) error {
	if isNamed(name, above) {
		return errors.New("it depends on itself")
	}
	m, err := connect(0)
	if err != nil {
		return err
	}
	defer m.Close()
	status, config, err := m.query(name)
	if err != nil || status.CurrentState == windows.SERVICE_RUNNING {
		return err
	}
	// The SCM would start the dependencies, too, but not report which of them fails.
	for _, dependency := range config.dependsOn {
		if strings.HasPrefix(dependency, "+") {
			continue // a group of services: left to the SCM
		}
		err := s.start(ctx, dependency, append(above, name))
		if errors.Is(err, hostapi.ErrNotFound) {
			return fmt.Errorf("it depends on service %s, which does not exist", dependency)
		}
		if err != nil {
			return fmt.Errorf("it depends on service %s: %w", dependency, err)
		}
	}
	if err := s.retryWhileBusy(ctx, func() error { return m.begin(ctx, name, config.command) }); err != nil {
		return err
	}
	return s.started(ctx, m, name)
}

// query returns the state and the declaration of a service.
func (m manager) query(name string) (status windows.SERVICE_STATUS_PROCESS, c config, err error) {
	svc, err := m.open(name, windows.SERVICE_QUERY_STATUS|windows.SERVICE_QUERY_CONFIG)
	if err != nil {
		return status, c, err
	}
	defer svc.Close()
	if status, err = svc.Status(); err != nil {
		return status, c, err
	}
	c, err = svc.config(name)
	return status, c, err
}

// begin makes the SCM start a service. If it is stopping, begin waits until it has stopped. The SCM returns when the process is connected.
func (m manager) begin(ctx context.Context, name, command string) error {
	svc, err := m.open(name, windows.SERVICE_START|windows.SERVICE_QUERY_STATUS)
	if err != nil {
		return err
	}
	defer svc.Close()
	for {
		status, err := svc.Status()
		if err != nil {
			return err
		}
		if status.CurrentState == windows.SERVICE_STOPPED {
			if err := endLeftovers(ctx, command); err != nil {
				return err
			}
		}
		if status.CurrentState != windows.SERVICE_STOP_PENDING {
			break
		}
		if err := backoff.Sleep(ctx, tick); err != nil {
			return fmt.Errorf("waiting until it has stopped: %w", err)
		}
	}
	err = windows.StartService(svc.Handle, 0, nil)
	var code syscall.Errno
	switch {
	case err == nil, errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING):
		return nil
	case errors.Is(err, windows.ERROR_SERVICE_DATABASE_LOCKED), errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE):
		return err
	case errors.As(err, &code):
		// Not wrapped: a missing program is not a missing service.
		err = fmt.Errorf("the service control manager returned error %s", numbered(code))
		if busy := asBusy(code); busy != nil {
			err = fmt.Errorf("%w (%w)", err, busy)
		}
		if status, statusErr := svc.Status(); statusErr == nil && status.Win32ExitCode == uint32(windows.ERROR_SERVICE_SPECIFIC_ERROR) {
			err = fmt.Errorf("%w; %s", err, ended(status))
		}
	}
	return err
}

// errNotStarted means that Windows was too busy to start the program of a service.
var errNotStarted = fmt.Errorf("%w: the program was not started", hostapi.ErrBusy)

// asBusy returns what an error of the SCM says about the current state of the computer, or nil: a program could not be started because of insufficient
// memory and the like, or did not connect within 30 seconds, which a broken program does not, either. Their meanings are in winerror.h.
func asBusy(code syscall.Errno) error {
	switch code {
	case windows.ERROR_INTERNAL_ERROR, windows.ERROR_NO_SYSTEM_RESOURCES, windows.ERROR_NOT_ENOUGH_MEMORY, windows.ERROR_COMMITMENT_LIMIT:
		return errNotStarted
	case windows.ERROR_SERVICE_REQUEST_TIMEOUT:
		return hostapi.ErrBusy
	}
	return nil
}

// started waits until a service runs.
func (s *services) started(ctx context.Context, m manager, name string) error {
	svc, err := m.open(name, windows.SERVICE_QUERY_STATUS)
	if err != nil {
		return err
	}
	defer svc.Close()
	var checkPoint uint32
	progress := time.Now()
	for {
		status, err := svc.Status()
		if err != nil {
			return err
		}
		switch status.CurrentState {
		case windows.SERVICE_RUNNING:
			return nil
		case windows.SERVICE_STOPPED:
			return errors.New(ended(status))
		case windows.SERVICE_START_PENDING, windows.SERVICE_CONTINUE_PENDING:
		default:
			return fmt.Errorf("it is %s", state(status))
		}
		if status.CheckPoint != checkPoint {
			checkPoint, progress = status.CheckPoint, time.Now()
		}
		allowed := max(s.silence, time.Duration(status.WaitHint)*time.Millisecond)
		if silent := time.Since(progress); silent > allowed {
			return fmt.Errorf("it is starting, without progress for %v", silent.Round(time.Second))
		}
		if err := backoff.Sleep(ctx, tick); err != nil {
			return fmt.Errorf("it is starting: %w", err)
		}
	}
}

// Stop implements hostapi.Services. A process that does not exit in time (two minutes, or three quarters of the time until ctx
// ends if that is less) is killed, which is logged and is not an error.
func (s *services) Stop(ctx context.Context, name string) error {
	m, err := connect(windows.SC_MANAGER_ENUMERATE_SERVICE)
	if err != nil {
		return fmt.Errorf("stopping service %s: %w", name, err)
	}
	defer m.Close()
	order, err := m.dependants(name)
	if err != nil {
		return fmt.Errorf("stopping service %s: %w", name, err)
	}
	for _, n := range order {
		if err := s.stop(ctx, m, n); err != nil && !errors.Is(err, hostapi.ErrNotFound) {
			return fmt.Errorf("stopping service %s: %w", n, err)
		}
	}
	return nil
}

// dependants lists the active services that depend on a service, directly or not, in the order in which they can be stopped; the
// service itself is last. It reads their declarations: Wine's EnumDependentServices always returns none.
func (m manager) dependants(name string) ([]string, error) {
	all, err := m.Services()
	if err != nil {
		return nil, err
	}
	needs := map[string][]string{}
	for _, e := range all {
		if e.Status.CurrentState == windows.SERVICE_STOPPED {
			continue
		}
		_, config, err := m.query(e.Name)
		if err != nil {
			continue // gone, or no permission to stop it
		}
		for _, dependency := range config.dependsOn {
			dependency = strings.ToLower(dependency)
			needs[dependency] = append(needs[dependency], e.Name)
		}
	}
	var order []string
	seen := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		key := strings.ToLower(name)
		if seen[key] {
			return
		}
		seen[key] = true
		for _, n := range needs[key] {
			visit(n)
		}
		order = append(order, name)
	}
	visit(name)
	return order, nil
}

// stop stops one service, on which no running service depends, with all programs of its command line.
func (s *services) stop(ctx context.Context, m manager, name string) error {
	_, config, err := m.query(name)
	if err != nil {
		return err
	}
	if err := s.halt(ctx, m, name); err != nil {
		return err
	}
	return endLeftovers(ctx, config.command)
}

// halt stops the process of a service.
func (s *services) halt(ctx context.Context, m manager, name string) error {
	const access = windows.SERVICE_QUERY_STATUS | windows.SERVICE_STOP
	svc, err := m.open(name, access)
	if err != nil {
		return err
	}
	defer svc.Close()
	p, err := svc.Process()
	if err != nil {
		return err
	}
	defer p.Close()
	grace := s.grace
	if end, limited := ctx.Deadline(); limited {
		grace = min(grace, time.Until(end)*3/4)
	}
	sent := false
	for end := time.Now().Add(grace); ; {
		status, err := svc.Status()
		switch {
		case err != nil:
			return err
		case status.CurrentState == windows.SERVICE_STOPPED && p.Ended():
			return nil
		case time.Now().After(end):
			slog.Warn("Ending the process of a service that does not stop", "service", name, "pid", status.ProcessId, "after", grace)
			return m.kill(ctx, name, p)
		case !sent && status.CurrentState != windows.SERVICE_STOPPED && status.CurrentState != windows.SERVICE_STOP_PENDING:
			if sent, err = svc.sendStop(); err != nil {
				return err
			}
		}
		if err := backoff.Sleep(ctx, tick); err != nil {
			return fmt.Errorf("it is %s: %w", state(status), err)
		}
	}
}

// sendStop sends a service the stop control. sent is false if the service cannot accept it now, for example while it starts.
func (s service) sendStop() (sent bool, err error) {
	var status windows.SERVICE_STATUS
	err = windows.ControlService(s.Handle, windows.SERVICE_CONTROL_STOP, &status)
	switch {
	case err == nil, errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE):
		return true, nil
	case errors.Is(err, windows.ERROR_BROKEN_PIPE), errors.Is(err, windows.ERROR_SERVICE_REQUEST_TIMEOUT):
		return true, nil // its process has exited, or is too busy to answer
	case errors.Is(err, windows.ERROR_SERVICE_CANNOT_ACCEPT_CTRL), errors.Is(err, windows.ERROR_INVALID_SERVICE_CONTROL),
		errors.Is(err, windows.ERROR_DEPENDENT_SERVICES_RUNNING):
		return false, nil
	}
	return false, err
}

// kill kills the process of a service. The SCM would treat that as a failure and start the service again, so recovery is disabled
// until the SCM has noticed that the service has stopped.
func (m manager) kill(ctx context.Context, name string, p scm.Process) error {
	const access = windows.SERVICE_QUERY_STATUS | windows.SERVICE_QUERY_CONFIG | windows.SERVICE_CHANGE_CONFIG | windows.SERVICE_START
	svc, err := m.open(name, access)
	if err != nil {
		return err
	}
	defer svc.Close()
	if recovery, err := svc.setting(windows.SERVICE_CONFIG_FAILURE_ACTIONS); err == nil {
		none := windows.SERVICE_FAILURE_ACTIONS{Actions: &windows.SC_ACTION{}}
		if err := windows.ChangeServiceConfig2(svc.Handle, windows.SERVICE_CONFIG_FAILURE_ACTIONS, (*byte)(unsafe.Pointer(&none))); err != nil {
			return err
		}
		defer func() {
			_ = windows.ChangeServiceConfig2(svc.Handle, windows.SERVICE_CONFIG_FAILURE_ACTIONS, &recovery[0])
		}()
	}
	if err := p.End(); err != nil {
		return fmt.Errorf("it does not stop, and ending its process: %w", err)
	}
	for {
		status, err := svc.Status()
		if err != nil || status.CurrentState == windows.SERVICE_STOPPED && p.Ended() {
			return err
		}
		if err := backoff.Sleep(ctx, tick); err != nil {
			return fmt.Errorf("its process was ended by force, but it is %s: %w", state(status), err)
		}
	}
}
