package win

import (
	"errors"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/windows-machine-config/wmco/internal/node/win/scm"
)

// testVariable is the variable of the tests in this file.
const testVariable = "WICD_TEST_VARIABLE"

func TestSetWritesPlainText(t *testing.T) {
	key := mustOpenEnvironment(t, testVariable)
	const value = "http://user:p%40ss%20@proxy.example"
	if err := key.SetExpandStringValue(testVariable, value); err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]string{{testVariable}, nil} {
		changed, err := (environment{timeout: time.Minute}).Set(t.Context(), map[string]string{testVariable: value}, nil)
		if err != nil || !slices.Equal(changed, want) {
			t.Errorf("Set() = %q, %v, want %q", changed, err, want)
		}
	}
	if got, kind, err := key.GetStringValue(testVariable); err != nil || got != value || kind != registry.SZ {
		t.Errorf("the registry has type %d, %v; want REG_SZ with the value", kind, err)
	}
}

func TestWindowsAreNotifiedOfAChange(t *testing.T) {
	mustOpenEnvironment(t, testVariable)
	messages := make(chan string, 100)
	mustOpenWindow(t, func(message, text uintptr) {
		if message == 0x1a { // WM_SETTINGCHANGE
			messages <- windows.UTF16PtrToString(*(**uint16)(unsafe.Pointer(&text)))
		}
	})
	e := environment{timeout: time.Minute}
	set := func(value string) {
		t.Helper()
		if _, err := e.Set(t.Context(), map[string]string{testVariable: value}, nil); err != nil {
			t.Fatal(err)
		}
	}
	var last string
	for attempt := 1; len(messages) == 0; attempt++ { // on a busy host, a window may take longer than Set waits for it
		if attempt > 20 {
			t.Fatalf("the window was notified of none of %d changes", attempt-1)
		}
		last = strconv.Itoa(attempt)
		set(last)
	}
	for len(messages) > 0 {
		if got := <-messages; got != "Environment" {
			t.Errorf("the window was notified of change %q, want Environment", got)
		}
	}
	set(last)
	if len(messages) > 0 {
		t.Error("the window was notified although no variable changed")
	}
}

func TestWindowsThatDoNotAnswerDoNotBlock(t *testing.T) {
	mustOpenEnvironment(t, testVariable)
	wake := make(chan struct{})
	for range 4 {
		mustOpenWindow(t, func(message, _ uintptr) {
			if message == 0x1a { // WM_SETTINGCHANGE
				<-wake
			}
		})
	}
	defer close(wake)
	for what, limit := range map[string]struct{ timeout, most time.Duration }{
		"all windows": {100 * time.Millisecond, 1500 * time.Millisecond}, "each window": {time.Minute, 20 * time.Second},
	} {
		start := time.Now()
		changed, err := (environment{timeout: limit.timeout}).Set(t.Context(), map[string]string{testVariable: what}, nil)
		if err != nil || len(changed) != 1 {
			t.Errorf("Set() = %q, %v, want the variable", changed, err)
		}
		if took := time.Since(start); took > limit.most {
			t.Errorf("with a limit for %s it took %v", what, took)
		}
	}
}

// mustOpenWindow opens an invisible window, with a thread that handles its messages.
func mustOpenWindow(t *testing.T, onMessage func(message, lParam uintptr)) {
	t.Helper()
	user32 := windows.NewLazySystemDLL("user32.dll")
	ready, done := make(chan uintptr), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the window
		answer := user32.NewProc("DefWindowProcW")
		class := struct { // WNDCLASSEXW
			size, style       uint32
			procedure         uintptr
			classExtra, extra int32
			handles           [4]uintptr
			menu, name        *uint16
			smallIcon         uintptr
		}{
			procedure: windows.NewCallback(func(window, message, wParam, lParam uintptr) uintptr {
				onMessage(message, lParam)
				result, _, _ := answer.Call(window, message, wParam, lParam)
				return result
			}),
			name: windows.StringToUTF16Ptr(t.Name()), // Windows refuses a second class of this name, and uses the first one
		}
		class.size = uint32(unsafe.Sizeof(class))
		_, _, _ = user32.NewProc("RegisterClassExW").Call(uintptr(unsafe.Pointer(&class)))
		const popup = 0x80000000 // WS_POPUP
		window, _, err := user32.NewProc("CreateWindowExW").Call(0, uintptr(unsafe.Pointer(class.name)), 0, popup, 0, 0, 1, 1, 0, 0, 0, 0)
		if window == 0 {
			t.Errorf("opening a window: %v", err)
		}
		ready <- window
		var message [64]byte // MSG
		for get := user32.NewProc("GetMessageW"); window != 0; {
			if more, _, _ := get.Call(uintptr(unsafe.Pointer(&message)), 0, 0, 0); int32(more) <= 0 {
				return
			}
			_, _, _ = user32.NewProc("DispatchMessageW").Call(uintptr(unsafe.Pointer(&message)))
		}
	}()
	window := <-ready
	if window == 0 {
		t.FailNow()
	}
	t.Cleanup(func() {
		const closes = 0x12 // WM_QUIT
		_, _, _ = user32.NewProc("PostMessageW").Call(window, closes, 0, 0)
		<-done
	})
}

// mustOpenService opens the key of the service of the tests.
func mustOpenService(t *testing.T) registry.Key {
	t.Helper()
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, scm.ServicesKey+testName, registry.ALL_ACCESS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { key.Close() })
	return key
}

func TestServiceEnvironmentIsWhereWindowsReadsIt(t *testing.T) {
	s, d := mustServe(t, "runs")
	key := mustOpenService(t)
	d.Environment = map[string]string{"b": "2", "a": "1=x", "C": ""}
	if _, err := s.Put(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	got, kind, err := key.GetStringsValue("Environment")
	if diff := cmp.Diff([]string{"C=", "a=1=x", "b=2"}, got); diff != "" || err != nil || kind != registry.MULTI_SZ {
		t.Errorf("type %d, %v (-want +got):\n%s", kind, err, diff)
	}
	d.Environment = nil
	if _, err := s.Put(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if _, _, err := key.GetStringsValue("Environment"); !errors.Is(err, registry.ErrNotExist) {
		t.Errorf("afterwards a value exists: %v", err)
	}
}

// TestHostUsersCannotReadServiceKey, even before it has a secret: a user who opened its key now could read one later.
func TestHostUsersCannotReadServiceKey(t *testing.T) {
	s, d := mustServe(t, "runs")
	for _, step := range []string{"new", "readable by everyone"} {
		if _, err := s.Put(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		key := mustOpenService(t)
		want := onlyOwnRights + keyRights
		if onWine() {
			want = "D:" + keyRights // it does not return whether rights are inherited
		}
		descriptor, err := windows.GetSecurityInfo(windows.Handle(key), windows.SE_REGISTRY_KEY, windows.DACL_SECURITY_INFORMATION)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Replace(descriptor.String(), "PAI(", "P(", 1); got != want {
			t.Errorf("%s: the rights to the key are %q, want %q", step, got, want)
		}
		mustSetKeyRights(t, key, "D:(A;CI;KA;;;BA)(A;CI;KR;;;BU)")
	}
}

// mustSetKeyRights gives a key other rights.
func mustSetKeyRights(t *testing.T, key registry.Key, rights string) {
	t.Helper()
	descriptor, err := windows.SecurityDescriptorFromString(rights)
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := descriptor.DACL()
	if err != nil {
		t.Fatal(err)
	}
	err = windows.SetSecurityInfo(windows.Handle(key), windows.SE_REGISTRY_KEY, windows.DACL_SECURITY_INFORMATION, nil, nil, list, nil)
	if err != nil {
		t.Fatal(err)
	}
}

func TestPutRestoresChangedEnvironment(t *testing.T) {
	s, d := mustServe(t, "runs")
	key := mustOpenService(t)
	lists := func(lines ...string) func() error {
		return func() error { return key.SetStringsValue("Environment", lines) }
	}
	one := map[string]string{"A": "1", "B": ""}
	for what, step := range map[string]struct {
		change func() error
		want   map[string]string
	}{
		"no list":              {func() error { return key.SetStringValue("Environment", "A=1") }, one},
		"no list, none wanted": {func() error { return key.SetStringValue("Environment", "A=1") }, nil},
		"removed":              {func() error { return key.DeleteValue("Environment") }, one},
		"a line more":          {lists("A=1", "B=", "C=1"), one},
		"a line twice":         {lists("A=1", "B=", "a=2"), one},
		"an invalid line":      {lists("A=1", "B"), one},
		"a name is missing":    {lists("A=1", "B=", "=1"), one},
	} {
		d.Environment = step.want
		if _, err := s.Put(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		if maps.Equal(mustFind(t, testName).Environment, step.want) {
			t.Errorf("%s: is not listed as it is", what)
		}
		for _, want := range []bool{true, false} {
			if changed, err := s.Put(t.Context(), d); err != nil || changed != want {
				t.Errorf("%s: Put() = %v, %v, want %v, nil", what, changed, err, want)
			}
		}
		if diff := cmp.Diff(step.want, mustFind(t, testName).Environment); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

func FuzzLinesOfAnEnvironment(f *testing.F) {
	for _, seed := range []string{"", "A=1", "A=1\nB=", "A\n=1\n=", "A=1\na=2", "=C:=C:\\", "A=1\n\nB=2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		variables := parse(strings.Split(text, "\n"))
		if _, bad := variables[""]; bad {
			return // differs from every declaration
		}
		if again := parse(lines(variables)); !maps.Equal(variables, again) {
			t.Errorf("%q is read as %q, and written and read as %q", text, variables, again)
		}
		if declared := strings.Split(text, "\n"); len(declared) != len(variables) {
			t.Errorf("%q is read as %q", text, variables)
		}
	})
}
