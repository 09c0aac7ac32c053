package win

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-ole/go-ole"
	"github.com/google/go-cmp/cmp"
)

// registryNamespace has StdRegProv, whose static methods read the registry. On Wine, only these have string parameters.
const registryNamespace = `root\default`

func ask[T any](t *testing.T, namespace string, use func(wmiServices) (T, error)) T {
	t.Helper()
	result, err := withNamespace(t.Context(), newWMI(time.Minute), namespace, use)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func putKey(in wmiClassObject, key string) error {
	machine := ole.NewVariant(ole.VT_I4, -0x7ffffffe) // HKEY_LOCAL_MACHINE
	name := newBSTR(key)
	defer name.free()
	text := ole.NewVariant(ole.VT_BSTR, int64(name.pointer()))
	return errors.Join(in.put("hDefKey", &machine), in.put("sSubKeyName", &text))
}

func TestWMIReadsAnInstance(t *testing.T) {
	kind := ask(t, `root\cimv2`, func(s wmiServices) (n int32, err error) {
		err = s.instance("Win32_OperatingSystem", func(o wmiClassObject) (err error) {
			n, err = o.number("ProductType")
			return err
		})
		return n, err
	})
	if kind < 1 || kind > 3 {
		t.Errorf("the product type is %d, want 1 to 3", kind)
	}
}

func TestWMIReadsBoolean(t *testing.T) {
	isPrimary := ask(t, `root\cimv2`, func(s wmiServices) (ok bool, err error) {
		err = s.instance("Win32_OperatingSystem", func(o wmiClassObject) (err error) {
			ok, err = o.truth("Primary")
			return err
		})
		return ok, err
	})
	if !isPrimary {
		t.Error("the running system is not the primary one")
	}
}

func TestWMICallsAMethodWithParameters(t *testing.T) {
	keys := ask(t, registryNamespace, func(s wmiServices) (keys []string, err error) {
		err = s.do("StdRegProv", "EnumKey", func(in wmiClassObject) error { return putKey(in, `SOFTWARE\Microsoft\Windows NT`) },
			func(out wmiClassObject) (err error) {
				keys, err = out.strings("sNames")
				return err
			})
		return keys, err
	})
	if !slices.Contains(keys, "CurrentVersion") {
		t.Errorf("the keys are %q, want CurrentVersion among them", keys)
	}
}

// TestWMIAcceptsStringList sets one in the results of a method, which have such a property. No method of Wine has one as a parameter.
func TestWMIAcceptsStringList(t *testing.T) {
	want := []string{`C:\k\a b.exe`, "", `C:\ProgramData\ÄÖ\日本`}
	got := ask(t, registryNamespace, func(s wmiServices) (list []string, err error) {
		out, err := s.execute("StdRegProv", "EnumKey", func(in wmiClassObject) error { return putKey(in, `SOFTWARE`) })
		if err != nil {
			return nil, err
		}
		defer out.Release()
		if err := out.putStrings("sNames", want); err != nil {
			return nil, err
		}
		return out.strings("sNames")
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read (-put +read):\n%s", diff)
	}
}

func TestWMIErrorsAreReturned(t *testing.T) {
	none := func(wmiClassObject) error { return nil }
	for name, test := range map[string]struct {
		namespace string
		use       func(wmiServices) error
		want      string
	}{
		"namespace": {`root\missing`, func(wmiServices) error { return nil }, "0x8004100e"},
		"class":     {registryNamespace, func(s wmiServices) error { return s.do("Missing", "EnumKey", none, none) }, "0x80041"},
		"method":    {registryNamespace, func(s wmiServices) error { return s.do("StdRegProv", "Missing", none, none) }, "Missing of StdRegProv"},
		"result": {registryNamespace, func(s wmiServices) error {
			return s.do("StdRegProv", "EnumKey", func(in wmiClassObject) error { return putKey(in, `SOFTWARE\Missing`) }, none)
		}, "error 0x00000002"},
		"property": {registryNamespace, func(s wmiServices) error {
			return s.do("StdRegProv", "EnumKey", func(in wmiClassObject) error { return in.putStrings("Missing", []string{"x"}) }, none)
		}, "setting property Missing"},
		"type": {`root\cimv2`, func(s wmiServices) error {
			return s.instance("Win32_OperatingSystem", func(o wmiClassObject) error { _, err := o.strings("Caption"); return err })
		}, "want a list of strings"},
		"truth": {`root\cimv2`, func(s wmiServices) error {
			return s.instance("Win32_OperatingSystem", func(o wmiClassObject) error { _, err := o.truth("Caption"); return err })
		}, "want a boolean"},
		"instances": {`root\cimv2`, func(s wmiServices) error { return s.instance("Missing", none) }, "Missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := withNamespace(t.Context(), newWMI(time.Minute), test.namespace, func(s wmiServices) (struct{}, error) { return struct{}{}, test.use(s) })
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
}

// TestHangingWMIUsesOneThread expects a second call to fail immediately, and calls to work again when the first has ended.
func TestHangingWMIUsesOneThread(t *testing.T) {
	w, end := newWMI(time.Second), make(chan struct{})
	_, err := withNamespace(t.Context(), w, registryNamespace, func(wmiServices) (int, error) { <-end; return 0, nil })
	if !errors.Is(err, errWMIHangs) {
		t.Errorf("a hanging call returned %v", err)
	}
	began := time.Now()
	if _, err = withNamespace(t.Context(), w, registryNamespace, func(wmiServices) (int, error) { return 1, nil }); !errors.Is(err, errWMIHangs) {
		t.Errorf("the next call returned %v", err)
	}
	if waited := time.Since(began); waited > w.timeout/2 {
		t.Errorf("the next call waited %s", waited)
	}
	close(end)
	for begin := time.Now(); err != nil && time.Since(begin) < 10*time.Second; time.Sleep(tick) {
		_, err = withNamespace(t.Context(), w, registryNamespace, func(wmiServices) (int, error) { return 1, nil })
	}
	if err != nil {
		t.Error(fmt.Errorf("calls still fail: %w", err))
	}
}
