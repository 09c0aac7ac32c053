package win

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/go-ole/go-ole"
)

// initializeCOM makes the thread of the caller one that may call COM objects, until release is called on it.
func initializeCOM() (release func(), err error) {
	runtime.LockOSThread()
	const alreadyDone = 1 // S_FALSE: it counts, too
	err = ole.CoInitializeEx(0, ole.COINIT_MULTITHREADED)
	if failed := (*ole.OleError)(nil); errors.As(err, &failed) && failed.Code() == alreadyDone {
		err = nil
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, explained(err)
	}
	return func() { ole.CoUninitialize(); runtime.UnlockOSThread() }, nil
}

// explained is an error of COM with its number, which is often all it has.
func explained(err error) error {
	failed := (*ole.OleError)(nil)
	if !errors.As(err, &failed) {
		return err
	}
	code := uint32(failed.Code())
	if inner := (ole.EXCEPINFO{}); errors.As(failed.SubError(), &inner) && inner.SCODE() != 0 {
		code = inner.SCODE()
	}
	if about := strings.TrimSpace(failed.Description()); about != "" && about != "<nil>" {
		return fmt.Errorf("error %#08x (%s)", code, about)
	}
	return fmt.Errorf("error %#08x", code)
}
