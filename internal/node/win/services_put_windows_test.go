package win

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

func TestPutRestoresChangedSettings(t *testing.T) {
	s, d := mustServe(t, "runs")
	const keep = windows.SERVICE_NO_CHANGE
	for what, change := range map[string]func(windows.Handle) error{
		"start type": func(h windows.Handle) error {
			return windows.ChangeServiceConfig(h, keep, windows.SERVICE_DISABLED, keep, nil, nil, nil, nil, nil, nil, nil)
		},
		"pre-shutdown time": func(h windows.Handle) error {
			short := uint32(10_000)
			return windows.ChangeServiceConfig2(h, windows.SERVICE_CONFIG_PRESHUTDOWN_INFO, (*byte)(unsafe.Pointer(&short)))
		},
		"recovery": func(h windows.Handle) error {
			none := windows.SERVICE_FAILURE_ACTIONS{Actions: &windows.SC_ACTION{}}
			return windows.ChangeServiceConfig2(h, windows.SERVICE_CONFIG_FAILURE_ACTIONS, (*byte)(unsafe.Pointer(&none)))
		},
	} {
		if what == "recovery" && onWine() {
			t.Log("Wine's service control manager does not return the recovery: not tried")
			continue
		}
		svc := mustOpen(t, windows.SERVICE_CHANGE_CONFIG|windows.SERVICE_START)
		err := change(svc.Handle)
		svc.Close()
		if err != nil {
			t.Fatal(err)
		}
		if changed, err := s.Put(t.Context(), d); err != nil || !changed {
			t.Errorf("%s: Put() = %v, %v, want true, nil", what, changed, err)
		}
		if changed, err := s.Put(t.Context(), d); err != nil || changed {
			t.Errorf("%s: second Put() = %v, %v, want false, nil", what, changed, err)
		}
	}
}

// mustSetting returns the value that Put writes at a level. The tests use the SCM's numbers, not the package's constants.
func mustSetting(t *testing.T, level uint32) unsafe.Pointer {
	t.Helper()
	for _, s := range settings(desired.Service{Name: testName, Description: "a service of the tests"}) {
		if s.level == level {
			return s.value
		}
	}
	t.Fatalf("Put sets nothing at level %d", level)
	return nil
}

// TestFailureActionDelayIsInMilliseconds: the original operator passed seconds to a tool that expects milliseconds, so that a failing
// service was restarted without a pause.
func TestFailureActionDelayIsInMilliseconds(t *testing.T) {
	failure := (*windows.SERVICE_FAILURE_ACTIONS)(mustSetting(t, windows.SERVICE_CONFIG_FAILURE_ACTIONS))
	const restart = 1 // SC_ACTION_RESTART
	want := []windows.SC_ACTION{{Type: restart, Delay: 5_000}, {Type: restart, Delay: 10_000}, {Type: restart, Delay: 60_000}}
	if diff := cmp.Diff(want, unsafe.Slice(failure.Actions, failure.ActionsCount)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if failure.ResetPeriod != 300 { // seconds, unlike the delays
		t.Errorf("the count of failures is reset after %d s", failure.ResetPeriod)
	}
	if n := *(*uint32)(mustSetting(t, windows.SERVICE_CONFIG_FAILURE_ACTIONS_FLAG)); n != 1 {
		t.Errorf("failures other than crashes: %d, want 1", n)
	}
	if n := *(*uint32)(mustSetting(t, windows.SERVICE_CONFIG_PRESHUTDOWN_INFO)); n != 180_000 {
		t.Errorf("pre-shutdown time %d ms", n)
	}
}

func TestServiceStartsAtBootAndIsRestarted(t *testing.T) {
	mustServe(t, "runs")
	svc := mustOpen(t, windows.SERVICE_QUERY_CONFIG)
	defer svc.Close()
	got, err := svc.config(testName)
	if err != nil || got.start != windows.SERVICE_AUTO_START || got.kind != windows.SERVICE_WIN32_OWN_PROCESS || !strings.EqualFold(got.account, "LocalSystem") {
		t.Errorf("the service is %+v, %v; want an automatic start as LocalSystem in its own process", got, err)
	}
	for _, s := range settings(desired.Service{Description: "a service of the tests"}) {
		answer, err := svc.setting(s.level)
		if errors.Is(err, windows.ERROR_INVALID_LEVEL) && onWine() {
			t.Logf("Wine's service control manager does not support level %d: not tried", s.level)
			continue
		}
		if err != nil || !s.holds(unsafe.Pointer(&answer[0])) {
			t.Errorf("setting %d (SERVICE_CONFIG_*) is not as declared, %v", s.level, err)
		}
	}
}

func TestPutKeepsALongerPreShutdownTime(t *testing.T) {
	s, d := mustServe(t, "runs")
	svc := mustOpen(t, windows.SERVICE_CHANGE_CONFIG)
	long := uint32(600_000)
	err := windows.ChangeServiceConfig2(svc.Handle, windows.SERVICE_CONFIG_PRESHUTDOWN_INFO, (*byte)(unsafe.Pointer(&long)))
	svc.Close()
	if err != nil {
		t.Fatal(err)
	}
	if changed, err := s.Put(t.Context(), d); err != nil || changed {
		t.Errorf("Put() = %v, %v, want false, nil", changed, err)
	}
}

func TestPutIgnoresTheOrderAndCaseOfDependencies(t *testing.T) {
	s, d := mustServe(t, "runs")
	d.DependsOn = []string{"One", "two"}
	if _, err := s.Put(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	d.DependsOn = []string{"two", "one"}
	if changed, err := s.Put(t.Context(), d); err != nil || changed {
		t.Errorf("Put() = %v, %v, want false, nil", changed, err)
	}
}

func TestPutWaitsForServiceDeletion(t *testing.T) {
	s, d := mustServe(t, "runs")
	held := mustOpen(t, deleteAccess)
	if err := windows.DeleteService(held.Handle); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Second, held.Close)
	if changed, err := s.Put(t.Context(), d); err != nil || !changed {
		t.Fatalf("Put() = %v, %v, want true, nil", changed, err)
	}
	if diff := cmp.Diff(d, mustFind(t, testName).Service); diff != "" {
		t.Errorf("the new service is not as declared (-want +got):\n%s", diff)
	}
}

func TestPutNamesTheProcessThatHoldsADeletedService(t *testing.T) {
	s, d := mustServe(t, "runs")
	held := mustOpen(t, deleteAccess)
	defer held.Close()
	if err := windows.DeleteService(held.Handle); err != nil {
		t.Fatal(err)
	}
	s.timeout = 200 * time.Millisecond
	_, err := s.Put(t.Context(), d)
	if !errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE) || !strings.Contains(err.Error(), "holds it open") {
		t.Errorf("Put() = %v, want an error about an open handle", err)
	}
}
