package wua

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/go-ole/go-ole"
	"github.com/go-ole/go-ole/oleutil"
)

// openCOM prepares this thread for calls of COM objects, for the rest of the process, and returns the function that creates them.
func openCOM() (create func(class string) (object, error), err error) {
	runtime.LockOSThread()
	if err := ole.CoInitializeEx(0, ole.COINIT_MULTITHREADED); err != nil {
		return nil, withCode(err)
	}
	return func(class string) (object, error) {
		unknown, err := oleutil.CreateObject(class)
		if err != nil {
			return nil, withCode(err)
		}
		dispatch, err := unknown.QueryInterface(ole.IID_IDispatch)
		if err != nil {
			return nil, withCode(err)
		}
		return comObject{dispatch}, nil
	}, nil
}

// comObject is an object whose members are called by name (IDispatch).
type comObject struct{ *ole.IDispatch }

func (o comObject) get(name string, arguments ...any) (any, error) {
	for i, argument := range arguments {
		arguments[i] = argumentOf(argument)
	}
	result, err := o.InvokeWithOptionalArgs(name, ole.DISPATCH_METHOD|ole.DISPATCH_PROPERTYGET, arguments)
	if err != nil {
		return nil, withCode(err)
	}
	v := valueOf(result)
	if _, isObject := v.(object); isObject { // which the variant holds
		return v, nil
	}
	return v, result.Clear()
}

// valueOf returns the value of a variant in the types of object.
func valueOf(v *ole.VARIANT) any {
	switch value := v.Value().(type) {
	case int8, uint8, int16, uint16, uint32:
		return v.Val
	case int32:
		return int64(value)
	case *ole.IDispatch:
		if value != nil {
			return comObject{value}
		}
	case string, bool, time.Time, int64:
		return value
	}
	return nil
}

func (o comObject) put(property string, value any) error {
	_, err := oleutil.PutProperty(o.IDispatch, property, argumentOf(value))
	return withCode(err)
}

// argumentOf returns a value in the types of go-ole.
func argumentOf(value any) any {
	switch v := value.(type) {
	case int64: // the agent's numbers are LONG
		return int32(v)
	case comObject:
		return v.IDispatch
	}
	return value
}

// withCode returns the error of a call of COM as a codeError.
func withCode(err error) error {
	failed, ok := errors.AsType[*ole.OleError](err)
	if !ok {
		return err
	}
	code := uint32(failed.Code())
	if inner, ok := errors.AsType[ole.EXCEPINFO](failed.SubError()); ok && inner.SCODE() != 0 {
		code = inner.SCODE() // what failed behind DISP_E_EXCEPTION
	}
	return fmt.Errorf("calling the Windows Update Agent: %w", codeError(code))
}
