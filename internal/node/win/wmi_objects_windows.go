package win

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/go-ole/go-ole"
	"golang.org/x/sys/windows"
)

// wmiServices is a namespace (IWbemServices).
type wmiServices struct{ wmiObject }

// instance passes the first instance of a class to use. It fails if there is none.
func (s wmiServices) instance(class string, use func(wmiClassObject) error) error {
	const (
		atOnce             = 0x10 | 0x20 // WBEM_FLAG_RETURN_IMMEDIATELY | WBEM_FLAG_FORWARD_ONLY
		createInstanceEnum = 18
		next               = 4
		forEver            = 0xffffffff // WBEM_INFINITE: withNamespace sets the limit
	)
	name := newBSTR(class)
	defer name.free()
	var unknown *ole.IUnknown
	if err := s.call(createInstanceEnum, name.pointer(), atOnce, 0, uintptr(unsafe.Pointer(&unknown))); err != nil {
		return fmt.Errorf("listing instances of %s: %w", class, err)
	}
	list := wmiObject{unknown}
	defer list.Release()
	if err := impersonate(unknown); err != nil {
		return fmt.Errorf("listing instances of %s: %w", class, err)
	}
	var first *ole.IUnknown
	var count uint32
	if err := list.call(next, forEver, 1, uintptr(unsafe.Pointer(&first)), uintptr(unsafe.Pointer(&count))); err != nil {
		return fmt.Errorf("listing instances of %s: %w", class, err)
	}
	if count == 0 || first == nil {
		return fmt.Errorf("%s has no instance", class)
	}
	defer first.Release()
	return use(wmiClassObject{wmiObject{first}})
}

// do calls a static method of a class. set sets its parameters, and get reads its results, which include ReturnValue; get may be nil.
func (s wmiServices) do(class, method string, set, get func(wmiClassObject) error) error {
	out, err := s.execute(class, method, set)
	if err == nil && out.IUnknown == nil {
		err = errors.New("no result")
	}
	if err != nil {
		return fmt.Errorf("calling %s of %s: %w", method, class, err)
	}
	defer out.Release()
	code, err := out.number("ReturnValue")
	if err != nil {
		return fmt.Errorf("calling %s of %s: %w", method, class, err)
	}
	if code != 0 {
		return fmt.Errorf("calling %s of %s: error %#08x", method, class, uint32(code))
	}
	if get == nil {
		return nil
	}
	return get(out)
}

func (s wmiServices) execute(class, method string, set func(wmiClassObject) error) (wmiClassObject, error) {
	const getObject, execMethod = 6, 24
	path, name := newBSTR(class), newBSTR(method)
	defer path.free()
	defer name.free()
	var declared *ole.IUnknown
	if err := s.call(getObject, path.pointer(), 0, 0, uintptr(unsafe.Pointer(&declared)), 0); err != nil {
		return wmiClassObject{}, err
	}
	defer declared.Release()
	in, err := wmiClassObject{wmiObject{declared}}.parameters(method)
	if err != nil {
		return wmiClassObject{}, err
	}
	defer in.Release()
	if err := set(in); err != nil {
		return wmiClassObject{}, err
	}
	var out *ole.IUnknown
	err = s.call(execMethod, path.pointer(), name.pointer(), 0, 0, uintptr(unsafe.Pointer(in.IUnknown)), uintptr(unsafe.Pointer(&out)), 0)
	return wmiClassObject{wmiObject{out}}, err
}

// wmiClassObject is a class, an instance of one, or the parameters of a method (IWbemClassObject).
type wmiClassObject struct{ wmiObject }

// parameters returns the parameters of a method, without values.
func (o wmiClassObject) parameters(method string) (wmiClassObject, error) {
	const getMethod, spawnInstance = 19, 15
	name, err := windows.UTF16PtrFromString(method)
	if err != nil {
		return wmiClassObject{}, err
	}
	var declared, in *ole.IUnknown
	if err := o.call(getMethod, uintptr(unsafe.Pointer(name)), 0, uintptr(unsafe.Pointer(&declared)), 0); err != nil {
		return wmiClassObject{}, err
	}
	if declared == nil {
		return wmiClassObject{}, fmt.Errorf("it has no parameters")
	}
	defer declared.Release()
	err = wmiObject{declared}.call(spawnInstance, 0, uintptr(unsafe.Pointer(&in)))
	return wmiClassObject{wmiObject{in}}, err
}

func (o wmiClassObject) get(property string, use func(*ole.VARIANT) error) error {
	const get = 4
	name, err := windows.UTF16PtrFromString(property)
	if err != nil {
		return err
	}
	var value ole.VARIANT
	if err := o.call(get, uintptr(unsafe.Pointer(name)), 0, uintptr(unsafe.Pointer(&value)), 0, 0); err != nil {
		return fmt.Errorf("reading property %s: %w", property, err)
	}
	defer func() { _ = value.Clear() }()
	if err := use(&value); err != nil {
		return fmt.Errorf("reading property %s: %w", property, err)
	}
	return nil
}

// strings reads a list of strings. It is empty if the property has no value.
func (o wmiClassObject) strings(property string) (list []string, err error) {
	err = o.get(property, func(v *ole.VARIANT) error {
		switch v.VT {
		case ole.VT_NULL, ole.VT_EMPTY:
			return nil
		case ole.VT_ARRAY | ole.VT_BSTR:
			list = v.ToArray().ToStringArray()
			return nil
		}
		return fmt.Errorf("it is of type %#x, want a list of strings", uint16(v.VT))
	})
	return list, err
}

// number reads a 32-bit integer; WMI uses the same type for unsigned ones.
func (o wmiClassObject) number(property string) (n int32, err error) {
	err = o.get(property, func(v *ole.VARIANT) error {
		if v.VT != ole.VT_I4 {
			return fmt.Errorf("it is of type %#x, want an integer", uint16(v.VT))
		}
		n = int32(v.Val)
		return nil
	})
	return n, err
}

// truth reads a boolean.
func (o wmiClassObject) truth(property string) (ok bool, err error) {
	err = o.get(property, func(v *ole.VARIANT) error {
		if v.VT != ole.VT_BOOL {
			return fmt.Errorf("it is of type %#x, want a boolean", uint16(v.VT))
		}
		ok = v.Val&0xffff != 0
		return nil
	})
	return ok, err
}

// put sets a property. The caller keeps ownership of value.
func (o wmiClassObject) put(property string, value *ole.VARIANT) error {
	const put = 5
	name, err := windows.UTF16PtrFromString(property)
	if err != nil {
		return err
	}
	if err := o.call(put, uintptr(unsafe.Pointer(name)), 0, uintptr(unsafe.Pointer(value)), 0); err != nil {
		return fmt.Errorf("setting property %s: %w", property, err)
	}
	return nil
}

// putStrings sets a property to a list of strings. An empty list changes nothing.
func (o wmiClassObject) putStrings(property string, list []string) error {
	if len(list) == 0 {
		return nil
	}
	dll := windows.NewLazySystemDLL("oleaut32.dll")
	array, _, _ := dll.NewProc("SafeArrayCreateVector").Call(uintptr(ole.VT_BSTR), 0, uintptr(len(list)))
	if array == 0 {
		return fmt.Errorf("setting property %s: no memory for a list of %d", property, len(list))
	}
	value := ole.NewVariant(ole.VT_ARRAY|ole.VT_BSTR, int64(array))
	defer func() { _ = value.Clear() }()
	for i, text := range list {
		at, item := int32(i), newBSTR(text)
		result, _, _ := dll.NewProc("SafeArrayPutElement").Call(array, uintptr(unsafe.Pointer(&at)), item.pointer()) // copies the item
		item.free()
		if err := resultOf(result); err != nil {
			return fmt.Errorf("setting property %s: %w", property, err)
		}
	}
	return o.put(property, &value)
}
