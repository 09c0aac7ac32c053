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

	"github.com/Microsoft/hcsshim/hcn"
	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/hns"
	"github.com/windows-machine-config/wmco/internal/win/scm"
)

// HNS is the Host Network Service of this Windows, by the calls of hcsshim's package hcn. It answers the daemon's port and that of
// the overlay.
//
// hcn cannot be told to give up. A call that has not ended when its context does goes on by itself, and what it says is lost; the
// next one waits for it, so that a service that hangs costs two threads at most. hcn's log (logrus) has what it does on level
// Debug only, which is off.
type HNS struct {
	services *scm.Changes
	// looks and changes hold one thing each while a call of that kind is under way.
	looks, changes chan struct{}
	// patience is how long a look, longPatience how long a change may take at most: making the first overlay cuts the host's
	// connections for up to a minute.
	patience, longPatience time.Duration
}

// NewHNS makes the Host Network Service of this Windows, whose watch is one of services. It is made once in a process.
func NewHNS(services *scm.Changes) *HNS {
	return &HNS{
		services: services, looks: make(chan struct{}, 1), changes: make(chan struct{}, 1),
		patience: 30 * time.Second, longPatience: 3 * time.Minute,
	}
}

// hnsService is the name of the service.
const hnsService = "hns"

// errNoHNS says that this Windows has no Host Network Service at all, so that there are no objects: the feature Containers is not
// enabled.
var errNoHNS = fmt.Errorf("%w: this Windows has none, because its feature Containers is not enabled", hns.ErrUnavailable)

// Watch sends a message when the service stopped or started, until ctx is done; then it closes the channel.
func (h *HNS) Watch(ctx context.Context) (<-chan struct{}, error) {
	return h.services.Watch(ctx, []string{hnsService})
}

// look runs calls that change nothing.
func (h *HNS) look(ctx context.Context, what string, call func() error) error {
	ctx, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	return h.run(ctx, h.looks, what, call)
}

// change runs calls that change something.
func (h *HNS) change(ctx context.Context, what string, call func() error) error {
	ctx, cancel := context.WithTimeout(ctx, h.longPatience)
	defer cancel()
	return h.run(ctx, h.changes, what, call)
}

// run runs calls of hcn until they end or ctx does. What they set may be read only when it returns nil.
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
		done <- call()
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("%s: %w", what, asOurs(err))
		}
		return nil
	case <-ctx.Done():
		return late(ctx, what)
	}
}

// late is the error of a call that has not ended in time.
func late(ctx context.Context, what string) error {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w: %w", what, hns.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// asOurs is an error of hcn with the error of package hns that it is, if it is one.
func asOurs(err error) error {
	code := codeOf(err)
	switch {
	case errors.Is(err, hns.ErrNotFound) || errors.Is(err, hns.ErrExists) || errors.Is(err, hns.ErrUnavailable):
		return err
	case slices.Contains(codesOfAbsence(), code) || hcn.IsNotFoundError(err):
		return fmt.Errorf("%w: %w", hns.ErrNotFound, err)
	case slices.Contains(codesOfPresence(), code):
		return fmt.Errorf("%w: %w", hns.ErrExists, err)
	case slices.Contains(codesOfSilence(), code) && !isInstalled(hnsService):
		return fmt.Errorf("%w: %w", errNoHNS, err)
	case slices.Contains(codesOfSilence(), code):
		return fmt.Errorf("%w: %w", hns.ErrUnavailable, err)
	}
	return err
}

// codeOf is the code of an error of hcn, which unwraps to none; 0 when it has none.
func codeOf(err error) syscall.Errno {
	var failure *hcn.HcnError
	var code syscall.Errno
	if errors.As(err, &failure) {
		errors.As(failure.Err, &code)
	}
	return code
}

// codesOfAbsence say that an object is not there.
func codesOfAbsence() []syscall.Errno {
	return []syscall.Errno{
		windows.ERROR_NOT_FOUND, syscall.Errno(windows.HCN_E_NETWORK_NOT_FOUND), syscall.Errno(windows.HCN_E_ENDPOINT_NOT_FOUND),
		syscall.Errno(windows.HCN_E_POLICY_NOT_FOUND),
	}
}

// codesOfPresence say that another object is in the way.
func codesOfPresence() []syscall.Errno {
	return []syscall.Errno{
		windows.ERROR_ALREADY_EXISTS, windows.ERROR_OBJECT_ALREADY_EXISTS, syscall.Errno(windows.HCN_E_NETWORK_ALREADY_EXISTS),
		syscall.Errno(windows.HCN_E_POLICY_ALREADY_EXISTS), syscall.Errno(windows.HCN_E_PORT_ALREADY_EXISTS),
	}
}

// codesOfSilence say that the service is stopped, has ended, or stops just now. The call to it is one of RPC; hcn has the codes
// of Win32 as they are and the others as HRESULTs.
func codesOfSilence() []syscall.Errno {
	const (
		unknownInterface = syscall.Errno(1717) // RPC_S_UNKNOWN_IF
		unavailable      = syscall.Errno(1722) // RPC_S_SERVER_UNAVAILABLE, 0x800706ba
		tooBusy          = syscall.Errno(1723) // RPC_S_SERVER_TOO_BUSY
		failed           = syscall.Errno(1726) // RPC_S_CALL_FAILED, 0x800706be
		failedUnasked    = syscall.Errno(1727) // RPC_S_CALL_FAILED_DNE
		noEndpoint       = syscall.Errno(1753) // EPT_S_NOT_REGISTERED, 0x800706d9
		disconnected     = syscall.Errno(0x80010108)
		noCompute        = syscall.Errno(0x80370114) // HCS_E_SERVICE_NOT_AVAILABLE
	)
	return []syscall.Errno{
		unknownInterface, unavailable, tooBusy, failed, failedUnasked, noEndpoint, disconnected, noCompute,
		windows.ERROR_SERVICE_NOT_ACTIVE, windows.ERROR_SERVICE_DISABLED, windows.ERROR_SERVICE_DOES_NOT_EXIST,
		windows.ERROR_SERVICE_REQUEST_TIMEOUT, windows.ERROR_SHUTDOWN_IN_PROGRESS, syscall.Errno(windows.HCN_E_MANAGER_STOPPED),
	}
}

// isInstalled tells whether there is a service of this name. It is taken to be there when nobody knows.
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

// listed lists with a function of hcn, which first asks which objects there are and then for each of them: one that goes in
// between fails it.
func listed[T any](list func() ([]T, error)) (all []T, err error) {
	for range 5 {
		all, err = list()
		if err == nil || !errors.Is(asOurs(err), hns.ErrNotFound) {
			break
		}
	}
	return all, err
}

// same tells whether two GUIDs are the same. Windows writes them in upper case, we in lower case.
func same(a, b string) bool { return strings.EqualFold(a, b) }
