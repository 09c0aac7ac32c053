package win

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// onlineImage is the name under which DISM knows the running Windows (DISM_ONLINE_IMAGE in dismapi.h).
const onlineImage = "DISM_{53BFAE52-B167-4E2F-A258-0A37B57FF845}"

// Results of DISM calls other than 0. hresultUnknownFeature is DISMAPI_E_UNKNOWN_FEATURE, hresultReloadSession (a success)
// DISMAPI_S_RELOAD_IMAGE_SESSION_REQUIRED.
const (
	hresultReloadSession  = 1
	hresultUnknownFeature = 0x800f080c
)

// featureState is DismPackageFeatureState.
type featureState int32

const (
	stateUninstallPending   featureState = 1
	stateInstalled          featureState = 4
	stateInstallPending     featureState = 5
	statePartiallyInstalled featureState = 7
)

// state converts the state to the port's. A feature that will be removed at the next start counts as disabled: it must be enabled again.
func (s featureState) state() wicdapi.FeatureState {
	switch s {
	case stateInstalled:
		return wicdapi.FeatureEnabled
	case stateInstallPending:
		return wicdapi.FeaturePending
	case statePartiallyInstalled:
		return wicdapi.FeatureUnknown
	}
	return wicdapi.FeatureDisabled
}

// dism is a session of DismApi.dll for the running Windows. The structures of that DLL are packed to single bytes.
type dism struct {
	dll     *windows.LazyDLL
	session uint32
}

// withDISM opens a session for a function. All calls of a session come from one thread.
func withDISM(ctx context.Context, use func(*dism) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	d := &dism{dll: windows.NewLazySystemDLL("DismApi.dll")}
	if err := d.dll.Load(); err != nil {
		return fmt.Errorf("this Windows has no DismApi.dll: %w", hostapi.ErrNotFound)
	}
	const logErrorsOnly = 0
	if err := d.call("DismInitialize", logErrorsOnly, 0, 0); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.call("DismShutdown")) }()
	image, err := windows.UTF16PtrFromString(onlineImage)
	if err != nil {
		return err
	}
	if err := d.call("DismOpenSession", uintptr(unsafe.Pointer(image)), 0, 0, uintptr(unsafe.Pointer(&d.session))); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.call("DismCloseSession", uintptr(d.session))) }()
	return use(d)
}

// state returns the state of a feature, or hostapi.ErrNotFound and FeatureUnknown if Windows does not have it.
func (d *dism) state(feature string) (wicdapi.FeatureState, error) {
	name, err := windows.UTF16PtrFromString(feature)
	if err != nil {
		return wicdapi.FeatureUnknown, err
	}
	// DismFeatureInfo starts with the name and the state.
	var info *struct {
		name  *uint16
		state featureState
	}
	err = d.call("DismGetFeatureInfo", uintptr(d.session), uintptr(unsafe.Pointer(name)), 0, 0, uintptr(unsafe.Pointer(&info)))
	if err != nil {
		return wicdapi.FeatureUnknown, err
	}
	state := info.state.state()
	return state, d.call("DismDelete", uintptr(unsafe.Pointer(info)))
}

// enable enables a feature and those it depends on. Windows downloads missing files as configured on the host (LimitAccess is
// off).
func (d *dism) enable(ctx context.Context, feature string) (reboot bool, err error) {
	name, err := windows.UTF16PtrFromString(feature)
	if err != nil {
		return false, err
	}
	return d.cancelable(ctx, func(cancel windows.Handle) error {
		return d.call("DismEnableFeature", uintptr(d.session), uintptr(unsafe.Pointer(name)), 0, 0, 0, 0, 0, 1, uintptr(cancel), 0, 0)
	})
}

// cancelable makes a call that DISM cancels when ctx ends.
func (d *dism) cancelable(ctx context.Context, do func(cancel windows.Handle) error) (reboot bool, err error) {
	cancel, err := windows.CreateEvent(nil, 1, 0, nil)
	if err != nil {
		return false, err
	}
	defer windows.CloseHandle(cancel)
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { _ = windows.SetEvent(cancel); close(stopped) })
	err = do(cancel)
	if !stop() {
		<-stopped // only then may the event be closed
		err = errors.Join(err, ctx.Err())
	}
	if errors.Is(err, windows.ERROR_SUCCESS_REBOOT_REQUIRED) {
		return true, nil
	}
	return false, err
}

// dismPackage is DismPackage.
type dismPackage struct {
	name      *uint16
	state     featureState
	release   int32
	installed windows.Systemtime
}

// removeUpdate removes the package of the cumulative update with a revision, such as 20348.4405. Microsoft's articles on cumulative updates describe
// this way; neither the Windows Update Agent nor wusa.exe can remove one, because it has a servicing stack in it.
func (d *dism) removeUpdate(ctx context.Context, revision string) (reboot bool, err error) {
	name, state, err := d.findUpdate(revision)
	if err != nil || state == stateUninstallPending {
		return state == stateUninstallPending, err
	}
	identity, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return false, err
	}
	const byName = 1 // DismPackageName
	return d.cancelable(ctx, func(cancel windows.Handle) error {
		return d.call("DismRemovePackage", uintptr(d.session), uintptr(unsafe.Pointer(identity)), byName, uintptr(cancel), 0, 0)
	})
}

// findUpdate returns the installed package of the cumulative update with a revision, or hostapi.ErrNotFound.
func (d *dism) findUpdate(revision string) (name string, state featureState, err error) {
	var first *dismPackage
	var count uint32
	if err := d.call("DismGetPackages", uintptr(d.session), uintptr(unsafe.Pointer(&first)), uintptr(unsafe.Pointer(&count))); err != nil {
		return "", 0, err
	}
	for _, p := range unsafe.Slice(first, count) {
		isInstalled := p.state == stateInstalled || p.state == stateUninstallPending
		if candidate := windows.UTF16PtrToString(p.name); isInstalled && isCumulativeUpdate(candidate, revision) {
			name, state = candidate, p.state
		}
	}
	if err := d.call("DismDelete", uintptr(unsafe.Pointer(first))); err != nil {
		return "", 0, err
	}
	if name == "" {
		return "", 0, hostapi.ErrNotFound
	}
	return name, state, nil
}

// call calls a DISM function. It returns an error for every HRESULT other than 0, including the success code that requires a restart
// (ERROR_SUCCESS_REBOOT_REQUIRED). Memory that the arguments point to is kept until it returns.
//
//go:uintptrescapes
func (d *dism) call(function string, args ...uintptr) error {
	proc := d.dll.NewProc(function)
	if err := proc.Find(); err != nil {
		return err
	}
	result, _, _ := proc.Call(args...)
	switch code := uint32(result); code {
	case 0, hresultReloadSession:
		return nil
	case hresultUnknownFeature:
		return fmt.Errorf("this Windows has no such feature: %w", hostapi.ErrNotFound)
	case uint32(windows.ERROR_SUCCESS_REBOOT_REQUIRED):
		return windows.ERROR_SUCCESS_REBOOT_REQUIRED
	default:
		return &hostapi.FeatureError{Call: function, Code: code}
	}
}

// isCumulativeUpdate reports whether a package is that of the cumulative update with a revision: the version in its identity begins with build and
// revision, as in Package_for_RollupFix~31bf3856ad364e35~amd64~~20348.4405.1.5.
func isCumulativeUpdate(identity, revision string) bool {
	parts := strings.Split(identity, "~")
	return len(parts) == 5 && parts[0] == "Package_for_RollupFix" && strings.HasPrefix(parts[4], revision+".")
}
