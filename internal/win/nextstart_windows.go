package win

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/host"
)

// nextStart is what Windows does at its next start.
type nextStart struct{}

// Waits implements daemon.NextStart. It reads a few values of the registry.
func (nextStart) Waits(ctx context.Context) ([]string, error) { return pendingReboot(), ctx.Err() }

// Boot implements daemon.NextStart.
func (nextStart) Boot(ctx context.Context) (string, error) {
	id, err := bootID()
	return id, errors.Join(err, ctx.Err())
}

// Rename implements daemon.NextStart. Windows derives the NetBIOS name.
func (nextStart) Rename(_ context.Context, hostname string) error {
	if err := host.CheckHostname(hostname); err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString(hostname)
	if err != nil {
		return err
	}
	call := windows.NewLazySystemDLL("kernel32.dll").NewProc("SetComputerNameExW")
	if ok, _, err := call.Call(windows.ComputerNamePhysicalDnsHostname, uintptr(unsafe.Pointer(name))); ok == 0 {
		return fmt.Errorf("SetComputerNameEx: %w", err)
	}
	return nil
}
