package win

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"github.com/go-ole/go-ole"
	"golang.org/x/sys/windows"
)

// wmi is Windows Management Instrumentation, accessed by its COM interfaces IWbemLocator, IWbemServices, IEnumWbemClassObject and IWbemClassObject
// (wbemcli.h, https://learn.microsoft.com/windows/win32/wmisdk/com-api-for-wmi).
type wmi struct {
	// timeout limits each call.
	timeout time.Duration
	// free holds a token while no call is in progress. WMI can hang, and COM calls cannot be canceled: a call that hangs keeps its thread and the
	// token, so that further calls fail immediately instead of occupying threads.
	free chan struct{}
}

func newWMI(timeout time.Duration) *wmi {
	free := make(chan struct{}, 1)
	free <- struct{}{}
	return &wmi{timeout: timeout, free: free}
}

// errWMIHangs is returned by a call without an answer in time, and by calls while that one is in progress.
var errWMIHangs = errors.New("the service of Windows Management Instrumentation (Winmgmt) does not answer")

// withNamespace connects to a namespace and passes it to use. use runs on another goroutine and must not change variables of the caller, because
// withNamespace returns earlier if ctx is done or the timeout expires.
func withNamespace[T any](ctx context.Context, w *wmi, name string, use func(wmiServices) (T, error)) (result T, err error) {
	if err := ctx.Err(); err != nil {
		return result, err
	}
	select {
	case <-w.free:
	default:
		return result, fmt.Errorf("%w: an earlier call is still in progress", errWMIHangs)
	}
	type answer struct {
		result T
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		var a answer
		a.err = connectWMI(name, func(s wmiServices) (err error) {
			a.result, err = use(s)
			return err
		})
		w.free <- struct{}{}
		done <- a
	}()
	limit := time.NewTimer(w.timeout)
	defer limit.Stop()
	select {
	case a := <-done:
		return a.result, a.err
	case <-ctx.Done():
		return result, ctx.Err()
	case <-limit.C:
		return result, fmt.Errorf("%w within %s", errWMIHangs, w.timeout)
	}
}

func connectWMI(namespace string, use func(wmiServices) error) error {
	release, err := initializeCOM()
	if err != nil {
		return fmt.Errorf("calling WMI: %w", err)
	}
	defer release()
	unknown, err := ole.CreateInstance(
		ole.NewGUID("{4590F811-1D3A-11D0-891F-00AA004B2E24}"), // CLSID_WbemLocator
		ole.NewGUID("{DC12A687-737F-11CF-884D-00AA004B2E24}")) // IID_IWbemLocator
	if err != nil {
		return fmt.Errorf("calling WMI: %w", withCode(err))
	}
	locator := wmiObject{unknown}
	defer locator.Release()
	name := newBSTR(namespace)
	defer name.free()
	var services *ole.IUnknown
	const connectServer, twoMinutesAtMost = 3, 0x80 // WBEM_FLAG_CONNECT_USE_MAX_WAIT
	if err := locator.call(connectServer, name.pointer(), 0, 0, 0, twoMinutesAtMost, 0, 0, uintptr(unsafe.Pointer(&services))); err != nil {
		return fmt.Errorf("connecting to namespace %s of WMI: %w", namespace, err)
	}
	defer services.Release()
	if err := impersonate(services); err != nil {
		return fmt.Errorf("connecting to namespace %s of WMI: %w", namespace, err)
	}
	return use(wmiServices{wmiObject{services}})
}

// impersonate allows WMI to act as the caller in calls of an interface, which each provider requires. By default, WMI may only identify the caller.
func impersonate(o *ole.IUnknown) error {
	const (
		byWindows    = 10 // RPC_C_AUTHN_WINNT
		noService    = 0  // RPC_C_AUTHZ_NONE
		eachCall     = 3  // RPC_C_AUTHN_LEVEL_CALL
		impersonates = 3  // RPC_C_IMP_LEVEL_IMPERSONATE
	)
	setBlanket := windows.NewLazySystemDLL("ole32.dll").NewProc("CoSetProxyBlanket")
	result, _, _ := setBlanket.Call(uintptr(unsafe.Pointer(o)), byWindows, noService, 0, eachCall, impersonates, 0, 0)
	return resultOf(result)
}

// wmiObject is an interface of WMI. Its methods are called by their index in its table (wbemcli.h).
type wmiObject struct{ *ole.IUnknown }

// call calls a method. Pointers must be converted to uintptr in the call.
//
//go:uintptrescapes
func (o wmiObject) call(place uintptr, arguments ...uintptr) error {
	method := *(*uintptr)(unsafe.Add(unsafe.Pointer(o.RawVTable), place*unsafe.Sizeof(place)))
	result, _, _ := syscall.SyscallN(method, append([]uintptr{uintptr(unsafe.Pointer(o.IUnknown))}, arguments...)...)
	return resultOf(result)
}

// resultOf returns the error of an HRESULT, which is negative for errors.
func resultOf(result uintptr) error {
	if int32(result) >= 0 {
		return nil
	}
	return withCode(ole.NewError(result))
}

// bstr is a string of COM, with its length before it.
type bstr struct{ first *int16 }

func newBSTR(text string) bstr  { return bstr{ole.SysAllocStringLen(text)} }
func (b bstr) pointer() uintptr { return uintptr(unsafe.Pointer(b.first)) } // memory of COM, which does not move
func (b bstr) free()            { _ = ole.SysFreeString(b.first) }
