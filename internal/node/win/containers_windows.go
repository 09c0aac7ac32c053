package win

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/win/network"
)

// containers are the compute systems of the Host Compute Service that containerd's shims created. This calls its functions directly because they are
// internal in hcsshim (internal/vmcompute and internal/wclayer). Without feature Containers, there is no such service, and there are no containers.
type containers struct {
	// timeout is how long a container or a process may take to end.
	timeout time.Duration
	// networks has the namespaces of pods.
	networks *network.HNS
	// turn is held while a list is read. The service can hang, and its calls cannot be canceled: a call that hangs keeps its thread and the turn, so
	// that further calls wait without occupying threads.
	turn chan struct{}
}

func newContainers(networks *network.HNS) containers {
	return containers{timeout: time.Minute, networks: networks, turn: make(chan struct{}, 1)}
}

// shimOwner is the owner of the shims' compute systems: the name of their program.
const shimOwner = "containerd-shim-runhcs-v1.exe"

// Results of the Host Compute Service that are not errors here (internal/hcs/errors.go of hcsshim).
const (
	hcsPending        = syscall.Errno(0xc0370103)
	hcsSystemNotFound = syscall.Errno(0xc037010e)
	hcsAlreadyStopped = syscall.Errno(0xc0370110)
)

// enumerate is the function that lists compute systems.
const enumerate = "HcsEnumerateComputeSystems"

// List implements hostapi.Containers.
func (c containers) List(ctx context.Context) ([]string, error) {
	dll := windows.NewLazySystemDLL("vmcompute.dll")
	if dll.Load() != nil || ctx.Err() != nil {
		return nil, ctx.Err()
	}
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: an earlier call is still in progress: %w", enumerate, ctx.Err())
	}
	type answer struct {
		names []string
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		names, err := listSystems(dll)
		<-c.turn
		done <- answer{names, err}
	}()
	select {
	case a := <-done:
		return a.names, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%s does not respond: %w", enumerate, ctx.Err())
	}
}

func listSystems(dll *windows.LazyDLL) ([]string, error) {
	query, err := windows.UTF16PtrFromString("{}")
	if err != nil {
		return nil, err
	}
	var systems, result *uint16
	err = hcsCall(dll, enumerate, uintptr(unsafe.Pointer(query)), uintptr(unsafe.Pointer(&systems)), uintptr(unsafe.Pointer(&result)))
	list := textOf(systems)
	textOf(result)
	if err != nil {
		return nil, err
	}
	var all []struct {
		ID    string `json:"Id"`
		Owner string `json:"Owner"`
	}
	if err := json.Unmarshal([]byte(list), &all); err != nil && list != "" {
		return nil, fmt.Errorf("parsing the response of %s: %w", enumerate, err)
	}
	var names []string
	for _, system := range all {
		if strings.EqualFold(system.Owner, shimOwner) {
			names = append(names, system.ID)
		}
	}
	slices.Sort(names)
	return names, nil
}

// End implements hostapi.Containers.
func (c containers) End(ctx context.Context, name string) error {
	if err := terminate(name); err != nil {
		return fmt.Errorf("ending container %s: %w", name, err)
	}
	for end := time.Now().Add(c.timeout); ; {
		names, err := c.List(ctx)
		if err != nil || !slices.Contains(names, name) {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("ending container %s: it still exists after %v", name, c.timeout)
		}
		if err := backoff.Sleep(ctx, tick); err != nil {
			return err
		}
	}
}

func terminate(name string) error {
	dll := windows.NewLazySystemDLL("vmcompute.dll")
	if dll.Load() != nil {
		return nil
	}
	id, errID := windows.UTF16PtrFromString(name)
	none, errNone := windows.UTF16PtrFromString("")
	if err := errors.Join(errID, errNone); err != nil {
		return err
	}
	var system windows.Handle
	var result *uint16
	err := hcsCall(dll, "HcsOpenComputeSystem", uintptr(unsafe.Pointer(id)), uintptr(unsafe.Pointer(&system)), uintptr(unsafe.Pointer(&result)))
	textOf(result)
	if errors.Is(err, hcsSystemNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	result = nil
	err = hcsCall(dll, "HcsTerminateComputeSystem", uintptr(system), uintptr(unsafe.Pointer(none)), uintptr(unsafe.Pointer(&result)))
	textOf(result)
	if errors.Is(err, hcsPending) || errors.Is(err, hcsSystemNotFound) || errors.Is(err, hcsAlreadyStopped) {
		err = nil
	}
	return errors.Join(err, hcsCall(dll, "HcsCloseComputeSystem", uintptr(system)))
}

// RemoveNamespace implements hostapi.Containers.
func (c containers) RemoveNamespace(ctx context.Context, id string) (removed bool, err error) {
	return c.networks.RemoveNamespace(ctx, id)
}

// driver is the parent folder of a layer. It is empty, so that the layer's name is its path; flavor 1 is a layer in the file system.
type driver struct {
	flavor uintptr
	home   *uint16
}

// RemoveLayer implements hostapi.Containers. It first unprepares and deactivates a layer that is in use.
func (c containers) RemoveLayer(_ context.Context, folder string) error {
	dll := windows.NewLazySystemDLL("vmcompute.dll")
	if dll.Load() != nil {
		return nil // then it is an ordinary folder
	}
	if _, err := os.Lstat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	path, err := windows.UTF16PtrFromString(folder)
	if err != nil {
		return err
	}
	where := &driver{flavor: 1, home: new(uint16)}
	for _, function := range []string{"UnprepareLayer", "DeactivateLayer"} {
		_ = hcsCall(dll, function, uintptr(unsafe.Pointer(where)), uintptr(unsafe.Pointer(path)))
	}
	if err := hcsCall(dll, "DestroyLayer", uintptr(unsafe.Pointer(where)), uintptr(unsafe.Pointer(path))); err != nil {
		return fmt.Errorf("removing layer %s: %w", folder, err)
	}
	return nil
}

// hcsCall calls a function that returns an HRESULT. Arguments that point to memory must be converted in the call itself, so that the
// memory stays in place.
//
//go:uintptrescapes
func hcsCall(dll *windows.LazyDLL, function string, arguments ...uintptr) error {
	call := dll.NewProc(function)
	if err := call.Find(); err != nil {
		return err
	}
	result, _, _ := call.Call(arguments...)
	if int32(result) >= 0 {
		return nil
	}
	code := uint32(result)
	if code&0x1fff0000 == 0x00070000 { // an error of Win32
		code &= 0xffff
	}
	return fmt.Errorf("%s: %w", function, syscall.Errno(code))
}

// textOf returns a text that a function returned, and frees it.
func textOf(text *uint16) string {
	if text == nil {
		return ""
	}
	defer windows.CoTaskMemFree(unsafe.Pointer(text))
	return windows.UTF16PtrToString(text)
}
