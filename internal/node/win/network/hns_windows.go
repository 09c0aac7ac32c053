package network

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/Microsoft/hcsshim"
	"github.com/Microsoft/hcsshim/hcn"
	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/win/scm"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// HNS is the Host Network Service of this Windows, called with hcsshim's package hcn. It implements the ports of the daemon and
// of the overlay.
//
// Calls of hcn cannot be canceled. A call that outlasts its context continues in the background, and its result is lost; the next call of its kind
// waits for it, so that a hanging service occupies at most three threads. hcn logs its calls (logrus) only at level Debug, which is off.
type HNS struct {
	services *scm.Changes
	// reads, objectReads and changes limit running calls to one of each kind.
	reads, objectReads, changes chan struct{}
	// readTimeout and changeTimeout are the timeouts of reads and changes: creating the first overlay cuts the host's connections for
	// up to a minute.
	readTimeout, changeTimeout time.Duration
	starter                    starter
}

// NewHNS returns the Host Network Service of this Windows; services is a watch of services. Call it once per process.
func NewHNS(services *scm.Changes) *HNS {
	return &HNS{
		services: services, reads: make(chan struct{}, 1), objectReads: make(chan struct{}, 1), changes: make(chan struct{}, 1),
		readTimeout: 30 * time.Second, changeTimeout: 3 * time.Minute,
	}
}

// errNoHNS means that this Windows has no Host Network Service because the feature Containers is not enabled. Then there are no
// objects.
var errNoHNS = fmt.Errorf("%w: it does not exist, because Windows feature Containers is not enabled", hns.ErrUnavailable)

// Watch sends a message when the service stopped or started, until ctx is done; then it closes the channel.
func (h *HNS) Watch(ctx context.Context) (<-chan struct{}, error) {
	return h.services.Watch(ctx, []string{hnsService})
}

// runRead runs calls that change nothing.
func (h *HNS) runRead(ctx context.Context, what string, call func() error) error {
	ctx, cancel := context.WithTimeout(ctx, h.readTimeout)
	defer cancel()
	return h.run(ctx, h.reads, what, call)
}

// read returns the result of calls that change nothing; the zero value if this Windows has no such service.
func read[T any](ctx context.Context, h *HNS, what string, call func() (T, error)) (T, error) {
	var found, none T
	err := h.runRead(ctx, what, func() (err error) {
		found, err = call()
		return err
	})
	if err != nil {
		return none, ignoreNoHNS(err)
	}
	return found, nil
}

// ignoreNoHNS drops the error of a Windows without the service: it has no objects.
func ignoreNoHNS(err error) error {
	if errors.Is(err, errNoHNS) {
		return nil
	}
	return err
}

// change runs calls that change something.
func (h *HNS) change(ctx context.Context, what string, call func() error) error {
	ctx, cancel := context.WithTimeout(ctx, h.changeTimeout)
	defer cancel()
	return h.run(ctx, h.changes, what, call)
}

// run runs calls of hcn until they end or ctx does. Variables that call sets may be read only if run returns nil.
func (h *HNS) run(ctx context.Context, turn chan struct{}, what string, call func() error) error {
	if windows.NewLazySystemDLL("computenetwork.dll").Load() != nil { // hcn panics then
		return fmt.Errorf("%s: %w", what, errNoHNS)
	}
	if ctx.Err() != nil {
		return late(ctx, what)
	}
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return late(ctx, what)
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-turn }()
		failed := h.starter.start()
		err := call()
		if err != nil {
			err = errors.Join(asHNSError(err), failed)
		} else {
			h.starter.ran()
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	case <-ctx.Done():
		return late(ctx, what)
	}
}

// late is the error of a call that timed out.
func late(ctx context.Context, what string) error {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w: %w", what, hns.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// asHNSError adds the matching error of package hns to an error of hcsshim.
func asHNSError(err error) error {
	code := codeOf(err)
	switch {
	case errors.Is(err, hns.ErrNotFound) || errors.Is(err, hns.ErrExists) || errors.Is(err, hns.ErrUnavailable) || errors.Is(err, hns.ErrAdapter) ||
		errors.Is(err, hns.ErrPolicy):
		return err
	case code == syscall.Errno(windows.HCN_E_INVALID_POLICY):
		return fmt.Errorf("%w: %w", hns.ErrPolicy, err)
	case code == syscall.Errno(windows.HCN_E_ADAPTER_NOT_FOUND):
		return fmt.Errorf("%w: %w", hns.ErrAdapter, err)
	case slices.Contains(codesOfAbsence(), code) || hcn.IsNotFoundError(err):
		return fmt.Errorf("%w: %w", hns.ErrNotFound, err)
	case slices.Contains(codesOfPresence(), code):
		return fmt.Errorf("%w: %w", hns.ErrExists, err)
	case slices.Contains(codesOfUnavailability(), code) && !isInstalled(hnsService):
		return fmt.Errorf("%w: %w", errNoHNS, err)
	case slices.Contains(codesOfUnavailability(), code):
		return fmt.Errorf("%w: %w%s", hns.ErrUnavailable, err, needsOf(code))
	}
	return err
}

// codeOf returns the code of an error of either generation of the API, neither of which can be unwrapped; 0 if it has none.
func codeOf(err error) syscall.Errno {
	var cause error
	if failure, ok := errors.AsType[*hcn.HcnError](err); ok {
		cause = failure.Err
	} else if failure, ok := errors.AsType[*hcsshim.HcsError](err); ok {
		cause = failure.Err
	}
	code, _ := errors.AsType[syscall.Errno](cause)
	return code
}

// codesOfAbsence returns the codes that mean that an object does not exist.
func codesOfAbsence() []syscall.Errno {
	return []syscall.Errno{
		windows.ERROR_NOT_FOUND, syscall.Errno(windows.HCN_E_NETWORK_NOT_FOUND), syscall.Errno(windows.HCN_E_ENDPOINT_NOT_FOUND),
		syscall.Errno(windows.HCN_E_POLICY_NOT_FOUND),
	}
}

// codesOfPresence returns the codes that mean that another object conflicts.
func codesOfPresence() []syscall.Errno {
	return []syscall.Errno{
		windows.ERROR_ALREADY_EXISTS, windows.ERROR_OBJECT_ALREADY_EXISTS, syscall.Errno(windows.HCN_E_NETWORK_ALREADY_EXISTS),
		syscall.Errno(windows.HCN_E_POLICY_ALREADY_EXISTS), syscall.Errno(windows.HCN_E_PORT_ALREADY_EXISTS),
	}
}

// codesOfUnavailability returns the codes that mean that the service is stopped or stopping. Calls to it are RPCs; hcn returns Win32 codes
// unchanged and others as HRESULTs.
func codesOfUnavailability() []syscall.Errno {
	const (
		unknownInterface    = syscall.Errno(1717) // RPC_S_UNKNOWN_IF
		unavailable         = syscall.Errno(1722) // RPC_S_SERVER_UNAVAILABLE, 0x800706ba
		tooBusy             = syscall.Errno(1723) // RPC_S_SERVER_TOO_BUSY
		failed              = syscall.Errno(1726) // RPC_S_CALL_FAILED, 0x800706be
		failedDidNotExecute = syscall.Errno(1727) // RPC_S_CALL_FAILED_DNE
		noEndpoint          = syscall.Errno(1753) // EPT_S_NOT_REGISTERED, 0x800706d9
		disconnected        = syscall.Errno(0x80010108)
		noCompute           = syscall.Errno(0x80370114) // HCS_E_SERVICE_NOT_AVAILABLE
	)
	return []syscall.Errno{
		unknownInterface, unavailable, tooBusy, failed, failedDidNotExecute, noEndpoint, disconnected, noCompute,
		windows.ERROR_SERVICE_NOT_ACTIVE, windows.ERROR_SERVICE_DISABLED, windows.ERROR_SERVICE_DOES_NOT_EXIST,
		windows.ERROR_SERVICE_REQUEST_TIMEOUT, windows.ERROR_SHUTDOWN_IN_PROGRESS, syscall.Errno(windows.HCN_E_MANAGER_STOPPED),
	}
}

// isInstalled reports whether there is a service of this name. If that cannot be determined, it is true.
func isInstalled(name string) bool {
	m, err := scm.Connect(0)
	if err != nil {
		return true
	}
	defer m.Close()
	s, err := m.Open(name, windows.SERVICE_QUERY_STATUS)
	if err == nil {
		s.Close()
	}
	return !errors.Is(err, fs.ErrNotExist)
}

// listed lists with a function of hcn, which first lists the IDs and then reads each object. It retries if an object was removed
// in between.
func listed[T any](list func() ([]T, error)) (all []T, err error) {
	for range 5 {
		all, err = list()
		if err == nil || !errors.Is(asHNSError(err), hns.ErrNotFound) {
			break
		}
	}
	return all, err
}

// same reports whether two GUIDs are equal. Windows writes them in upper case, the product in lower case.
func same(a, b string) bool { return strings.EqualFold(a, b) }
