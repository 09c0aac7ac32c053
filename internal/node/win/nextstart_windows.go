package win

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// nextStart is what Windows does at its next start.
type nextStart struct{}

// Waits implements hostapi.NextStart. It reads a few values of the registry.
func (nextStart) Waits(ctx context.Context) (hostapi.Waits, error) { return waits(), ctx.Err() }

// imageComplete is the state of an installation of Windows that has finished its setup.
const imageComplete = "IMAGE_STATE_COMPLETE"

// Unfinished implements hostapi.NextStart.
func (nextStart) Unfinished(ctx context.Context) (hostapi.Unfinished, error) {
	u := hostapi.Unfinished{Up: windows.DurationSinceBoot()}
	for _, value := range []string{"SystemSetupInProgress", "OOBEInProgress"} {
		if number(setup, value) != 0 {
			u.Setup = append(u.Setup, value)
		}
	}
	if current := text(setupState, "ImageState"); current != "" && current != imageComplete {
		u.Setup = append(u.Setup, "ImageState "+current)
	}
	if exists(servicingNow) {
		u.Servicing = append(u.Servicing, "RebootInProgress")
	}
	if number(servicingQueue, "Exclusive") != 0 {
		u.Servicing = append(u.Servicing, "SessionsPending")
	}
	if runs, err := isRunning("TrustedInstaller"); err == nil && runs { // the Windows Modules Installer; if its state is unknown, it is assumed to be idle
		u.Servicing = append(u.Servicing, "TrustedInstaller is running")
	}
	return u, ctx.Err()
}

// Boot implements hostapi.NextStart.
func (nextStart) Boot(ctx context.Context) (string, error) {
	id, err := bootID()
	return id, errors.Join(err, ctx.Err())
}

// Rename implements hostapi.NextStart. Windows derives the NetBIOS name.
func (nextStart) Rename(_ context.Context, hostname string) error {
	if err := hostapi.CheckHostname(hostname); err != nil {
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
