package win

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
	"github.com/windows-machine-config/wmco/internal/win/scm"
)

// testName is the service of the tests in this file.
const testName = "wicd-test"

// mustServe declares the service of the tests and removes it afterwards.
func mustServe(t *testing.T, behavior string) (*services, desired.Service) {
	t.Helper()
	s := mustHost(t).Services.(*services)
	s.grace = 5 * time.Second
	removeAfter(t, s, testName)
	d := desired.Service{Name: testName, Description: "a service of the tests", Command: command(t, behavior)}
	if _, err := s.Put(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	return s, d
}

func mustPut(t *testing.T, s *services, d desired.Service) {
	t.Helper()
	if _, err := s.Put(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

func mustStart(t *testing.T, s *services) {
	t.Helper()
	if err := s.Start(t.Context(), testName); err != nil {
		t.Fatal(err)
	}
}

// mustOpen opens the service of the tests as somebody else would.
func mustOpen(t *testing.T, access uint32) service {
	t.Helper()
	m, err := connect(0)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	svc, err := m.open(testName, access)
	if err != nil {
		t.Fatal(err)
	}
	return svc
}

func TestStartWaitsForASlowService(t *testing.T) {
	s, _ := mustServe(t, "slow")
	s.silence = 500 * time.Millisecond // it takes longer in all, but not between two signs of progress
	mustStart(t, s)
	if found := mustFind(t, testName); found.State != host.Running {
		t.Errorf("after Start it is %s", found.State)
	}
}

func TestStartGivesUpOnAServiceWithoutProgress(t *testing.T) {
	s, _ := mustServe(t, "hangs")
	s.silence = 300 * time.Millisecond
	err := s.Start(t.Context(), testName)
	if err == nil || !strings.Contains(err.Error(), "without progress") {
		t.Errorf("Start() = %v, want that it makes no progress", err)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	s, _ := mustServe(t, "hangs")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Start(ctx, testName); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Start() = %v, want the end of the context", err)
	}
}

func TestStartTellsTheExitCodesOfAFailingService(t *testing.T) {
	s, _ := mustServe(t, "fails")
	err := s.Start(t.Context(), testName)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{testName, "code 42", "1066"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if found := mustFind(t, testName); found.ExitCode != 42 {
		t.Errorf("exit code %d, want 42", found.ExitCode)
	}
}

func TestStartNamesTheDependencyThatFails(t *testing.T) {
	s, d := mustServe(t, "fails")
	const above = testName + "-above"
	removeAfter(t, s, above)
	for _, step := range []struct{ dependency, want string }{
		{testName, "it depends on service " + testName},
		{"wicd-absent", "wicd-absent, which does not exist"},
		{above, "it depends on itself"}, // which Windows refuses and Wine does not
	} {
		if _, err := s.Put(t.Context(), desired.Service{Name: above, Command: d.Command, DependsOn: []string{step.dependency}}); err != nil {
			if step.dependency == above && errors.Is(err, windows.ERROR_CIRCULAR_DEPENDENCY) {
				continue
			}
			t.Fatal(err)
		}
		err := s.Start(t.Context(), above)
		if err == nil || !strings.Contains(err.Error(), step.want) || errors.Is(err, host.ErrNotFound) {
			t.Errorf("Start() = %v, want %q", err, step.want)
		}
	}
}

func TestStopWaitsUntilTheProcessIsGone(t *testing.T) {
	s, _ := mustServe(t, "lingers")
	mustStart(t, s)
	p, err := windows.OpenProcess(windows.SYNCHRONIZE, false, mustFind(t, testName).PID)
	if err != nil {
		t.Fatal(err)
	}
	defer windows.CloseHandle(p)
	if err := s.Stop(t.Context(), testName); err != nil {
		t.Fatal(err)
	}
	if !(scm.Process{Handle: p}).Ended() {
		t.Error("Stop returned while the process was still there")
	}
}

func TestStopDoesNotMindAProcessThatEndsBeforeItAnswers(t *testing.T) {
	s, _ := mustServe(t, "vanishes")
	mustStart(t, s)
	if err := s.Stop(t.Context(), testName); err != nil {
		t.Fatal(err)
	}
	if found := mustFind(t, testName); found.State != host.Stopped {
		t.Errorf("afterwards it is %s", found.State)
	}
}

func TestStopEndsAProcessThatDoesNotStop(t *testing.T) {
	s, _ := mustServe(t, "stuck")
	mustStart(t, s)
	s.grace = 500 * time.Millisecond
	start := time.Now()
	if err := s.Stop(t.Context(), testName); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < s.grace {
		t.Errorf("ended after %v, before its grace of %v", took, s.grace)
	}
	if found := mustFind(t, testName); found.State != host.Stopped {
		t.Errorf("afterwards it is %s", found.State)
	}
}

// TestWhatAProcessStartedEndsWithIt has a service that is ended by force and leaves a program behind, as kube-log-runner does.
func TestWhatAProcessStartedEndsWithIt(t *testing.T) {
	copied := tempFolder(t) + `\child.exe`
	program, err := os.ReadFile(mustExecutable(t))
	if err == nil {
		err = os.WriteFile(copied, program, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, end := range map[string]func(*services){
		"stopped by force": func(s *services) {
			s.grace = 500 * time.Millisecond
			if err := s.Stop(t.Context(), testName); err != nil {
				t.Fatal(err)
			}
		},
		"killed by somebody, and started again": func(s *services) {
			before := mustProcesses(t, copied)
			crash(t, testName)
			mustStart(t, s)
			for _, p := range before {
				if !p.Ended() {
					t.Error("the program that was left behind is still there")
				}
			}
			s.grace = 500 * time.Millisecond
			if err := s.Stop(t.Context(), testName); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := mustServe(t, `starts `+copied)
			mustStart(t, s)
			for end := time.Now().Add(10 * time.Second); len(mustProcesses(t, copied)) == 0; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the service starts no program")
				}
			}
			end(s)
			if left := mustProcesses(t, copied); len(left) > 0 {
				t.Errorf("%d processes are left", len(left))
			}
		})
	}
}

func mustProcesses(t *testing.T, program string) []scm.Process {
	t.Helper()
	found, err := processesOf(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range found {
		t.Cleanup(p.Close)
	}
	return found
}

func mustExecutable(t *testing.T) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func TestPutRestoresWhatSomebodyChanged(t *testing.T) {
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
			t.Log("Wine's service control manager cannot be asked for the recovery: not tried")
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

// mustSetting is what Put gives the SCM at a level. The numbers of the tests are those of the SCM, not of our code.
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

// The original gave seconds to a tool that takes milliseconds, so that a service that kept dying was started again without pause.
func TestFailuresAreFollowedByARestartAfterMilliseconds(t *testing.T) {
	failure := (*windows.SERVICE_FAILURE_ACTIONS)(mustSetting(t, windows.SERVICE_CONFIG_FAILURE_ACTIONS))
	const restart = 1 // SC_ACTION_RESTART
	want := []windows.SC_ACTION{{Type: restart, Delay: 5_000}, {Type: restart, Delay: 10_000}, {Type: restart, Delay: 60_000}}
	if diff := cmp.Diff(want, unsafe.Slice(failure.Actions, failure.ActionsCount)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if failure.ResetPeriod != 300 { // seconds, unlike the delays
		t.Errorf("the count of failures starts anew after %d s", failure.ResetPeriod)
	}
	if n := *(*uint32)(mustSetting(t, windows.SERVICE_CONFIG_FAILURE_ACTIONS_FLAG)); n != 1 {
		t.Errorf("failures that are no crash: %d, want 1", n)
	}
	if n := *(*uint32)(mustSetting(t, windows.SERVICE_CONFIG_PRESHUTDOWN_INFO)); n != 180_000 {
		t.Errorf("pre-shutdown time %d ms", n)
	}
}

func TestAServiceStartsAtBootAndIsKeptUp(t *testing.T) {
	mustServe(t, "runs")
	svc := mustOpen(t, windows.SERVICE_QUERY_CONFIG)
	defer svc.Close()
	got, err := svc.config(testName)
	if err != nil || got.start != windows.SERVICE_AUTO_START || got.kind != windows.SERVICE_WIN32_OWN_PROCESS || !strings.EqualFold(got.account, "LocalSystem") {
		t.Errorf("the service is %+v, %v; want it to start by itself, as LocalSystem, in a process of its own", got, err)
	}
	for _, s := range settings(desired.Service{Description: "a service of the tests"}) {
		answer, err := svc.setting(s.level)
		if errors.Is(err, windows.ERROR_INVALID_LEVEL) && onWine() {
			t.Logf("Wine's service control manager cannot be asked at level %d: not tried", s.level)
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

func TestPutWaitsUntilADeletedServiceIsGone(t *testing.T) {
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

func TestPutSaysWhoKeepsADeletedService(t *testing.T) {
	s, d := mustServe(t, "runs")
	held := mustOpen(t, deleteAccess)
	defer held.Close()
	if err := windows.DeleteService(held.Handle); err != nil {
		t.Fatal(err)
	}
	s.patience = 200 * time.Millisecond
	_, err := s.Put(t.Context(), d)
	if !errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE) || !strings.Contains(err.Error(), "holds it open") {
		t.Errorf("Put() = %v, want that somebody holds it open", err)
	}
}

func TestWatchLetsADeletedServiceGoAndSeesTheNext(t *testing.T) {
	s, d := mustServe(t, "runs")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changes, err := scm.NewChanges().Watch(ctx, []string{testName})
	if err != nil {
		t.Fatal(err)
	}
	mustRemove(t, s, testName)
	await(t, changes, "deleted")
	if _, err := s.Put(t.Context(), d); err != nil { // fails while the watch holds the deleted service open
		t.Fatal(err)
	}
	await(t, changes, "created again")
	mustStart(t, s)
	await(t, changes, "started")
}

func TestWatchTellsByNotice(t *testing.T) {
	s, d := mustServe(t, "runs")
	watch := scm.NewChanges()
	watch.LookAgain = time.Hour // so that only a notice can bring a message
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changes, err := watch.Watch(ctx, []string{testName})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		mustStart(t, s)
		await(t, changes, "started")
		drain(changes)
		if err := s.Stop(t.Context(), testName); err != nil {
			t.Fatal(err)
		}
		await(t, changes, "stopped")
		drain(changes)
	}
	depends := d
	depends.DependsOn = []string{"wicd-absent"}
	for what, edit := range edits() {
		mustPut(t, s, depends)
		drain(changes)
		edit(t, testName)
		await(t, changes, what)
	}
	mustPut(t, s, d)
	for range 2 { // the second process was started while the watch was on
		mustStart(t, s)
		drain(changes)
		crash(t, testName)
		await(t, changes, "died")
		drain(changes)
	}
}

// await waits for a message of a watch.
func await(t *testing.T, changes <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-changes:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s: no message", what)
	}
}

// drain takes messages until there is none for a while.
func drain(changes <-chan struct{}) {
	for {
		select {
		case <-changes:
		case <-time.After(300 * time.Millisecond):
			return
		}
	}
}

func TestListsOfNamesAreReadAsWritten(t *testing.T) {
	for _, names := range [][]string{nil, {"one"}, {"Überwachung", "two", "𝄞"}} {
		if diff := cmp.Diff(names, list(&block(names)[0])); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
