package win

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/go-ole/go-ole"
)

// initializeCOM prepares the caller's thread for calls of COM objects, until release is called on it.
func initializeCOM() (release func(), err error) {
	runtime.LockOSThread()
	const alreadyDone = 1 // S_FALSE, which must be balanced, too
	err = ole.CoInitializeEx(0, ole.COINIT_MULTITHREADED)
	if failed, ok := errors.AsType[*ole.OleError](err); ok && failed.Code() == alreadyDone {
		err = nil
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, withCode(err)
	}
	return func() { ole.CoUninitialize(); runtime.UnlockOSThread() }, nil
}

// withCode adds the number to an error of COM, which often has no text.
func withCode(err error) error {
	failed, ok := errors.AsType[*ole.OleError](err)
	if !ok {
		return err
	}
	code := uint32(failed.Code())
	if inner, ok := errors.AsType[ole.EXCEPINFO](failed.SubError()); ok && inner.SCODE() != 0 {
		code = inner.SCODE()
	}
	if about := strings.TrimSpace(failed.Description()); about != "" && about != "<nil>" {
		return fmt.Errorf("error %#08x (%s)", code, about)
	}
	return fmt.Errorf("error %#08x", code)
}
