package win

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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
	cancel, err := windows.CreateEvent(nil, 1, 0, nil)
	if err != nil {
		return false, err
	}
	defer windows.CloseHandle(cancel)
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { _ = windows.SetEvent(cancel); close(stopped) })
	err = d.call("DismEnableFeature", uintptr(d.session), uintptr(unsafe.Pointer(name)), 0, 0, 0, 0, 0, 1, uintptr(cancel), 0, 0)
	if !stop() {
		<-stopped // only then may the event be closed
		err = errors.Join(err, ctx.Err())
	}
	if errors.Is(err, windows.ERROR_SUCCESS_REBOOT_REQUIRED) {
		return true, nil
	}
	return false, err
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
