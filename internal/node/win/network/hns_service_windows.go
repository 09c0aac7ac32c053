package network

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/win/scm"
)

const (
	// startInterval is the pause between attempts to start the service, startPoll how often its state is polled, and startTimeout for how long.
	startInterval = 10 * time.Second
	startPoll     = 200 * time.Millisecond
	startTimeout  = 20 * time.Second
)

// starter starts service hns if it is installed and stopped, until it has run once: on Windows Server 2019, it is stopped after the feature
// Containers was enabled, and not every first call starts it. After it has run, it is not started again: then an administrator has stopped it.
type starter struct {
	mu      sync.Mutex
	hasRun  bool
	triedAt time.Time
	failure error
}

// start returns why the service could not be started.
func (s *starter) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hasRun || time.Since(s.triedAt) < startInterval {
		return s.failure
	}
	s.triedAt, s.failure = time.Now(), nil
	state, err := startService(hnsService)
	s.hasRun = state == windows.SERVICE_RUNNING
	if err != nil {
		s.failure = fmt.Errorf("starting the service %s: %w", hnsService, err)
	}
	return s.failure
}

// ran records that the service has answered a call.
func (s *starter) ran() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hasRun, s.failure = true, nil
}

// startService starts a stopped service and returns its state. If it is not installed, the state is 0 and the error nil.
func startService(name string) (state uint32, err error) {
	m, err := scm.Connect(0)
	if err != nil {
		return 0, nil //nolint:nilerr // nothing is known of the service; its calls will show
	}
	defer m.Close()
	s, err := m.Open(name, windows.SERVICE_QUERY_STATUS|windows.SERVICE_START)
	if err != nil {
		return 0, nil //nolint:nilerr // it is not installed
	}
	defer s.Close()
	status, err := s.Status()
	if err != nil || status.CurrentState == windows.SERVICE_RUNNING {
		return status.CurrentState, err
	}
	if status.CurrentState == windows.SERVICE_STOPPED {
		if err := windows.StartService(s.Handle, 0, nil); err != nil && !errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING) {
			return status.CurrentState, err
		}
	}
	for began := time.Now(); time.Since(began) < startTimeout; time.Sleep(startPoll) {
		if status, err = s.Status(); err != nil || status.CurrentState != windows.SERVICE_START_PENDING {
			break
		}
	}
	return status.CurrentState, err
}

// needsOf describes which services that the Host Network Service needs do not run, if its error can mean that: a service is not active, although the
// Host Network Service itself runs.
func needsOf(code syscall.Errno) string {
	if code != windows.ERROR_SERVICE_NOT_ACTIVE {
		return ""
	}
	m, err := scm.Connect(0)
	if err != nil {
		return ""
	}
	defer m.Close()
	return needs(func(name string) string { return described(m, name) })
}

// described returns why a service does not run; empty if it runs, or if that is unknown.
func described(m scm.Manager, name string) string {
	s, err := m.Open(name, windows.SERVICE_QUERY_STATUS|windows.SERVICE_QUERY_CONFIG)
	if errors.Is(err, fs.ErrNotExist) {
		return "is not installed"
	}
	if err != nil {
		return ""
	}
	defer s.Close()
	status, err := s.Status()
	switch {
	case err != nil || status.CurrentState == windows.SERVICE_RUNNING:
		return ""
	case isDisabled(s):
		return "is disabled"
	}
	return "is stopped"
}

func isDisabled(s scm.Service) bool {
	config, err := scm.Answer(func(buffer *byte, size uint32, needed *uint32) error {
		return windows.QueryServiceConfig(s.Handle, (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(buffer)), size, needed)
	})
	return err == nil && (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&config[0])).StartType == windows.SERVICE_DISABLED
}
