package win

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/win/scm"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// testName is the service of the tests in this file.
const testName = "wicd-test"

// mustServe creates the service of the tests and removes it afterwards.
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

// mustOpen opens the service of the tests like another program.
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
	s.silence = 500 * time.Millisecond // the start takes longer, but not between two signs of progress
	mustStart(t, s)
	if found := mustFind(t, testName); found.State != hostapi.Running {
		t.Errorf("after Start it is %s", found.State)
	}
}

func TestStartGivesUpOnAServiceWithoutProgress(t *testing.T) {
	s, _ := mustServe(t, "hangs")
	s.silence = 300 * time.Millisecond
	err := s.Start(t.Context(), testName)
	if err == nil || !strings.Contains(err.Error(), "without progress") {
		t.Errorf("Start() = %v, want an error about missing progress", err)
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

func TestStartsAreRepeatedWhileWindowsIsBusy(t *testing.T) {
	for what, tc := range map[string]struct {
		code     syscall.Errno
		timeout  time.Duration
		repeated bool
	}{
		"no program could be started":              {windows.ERROR_INTERNAL_ERROR, time.Minute, true},
		"no program could be started for too long": {windows.ERROR_NOT_ENOUGH_MEMORY, -time.Second, false},
		"a program was started, and did nothing":   {windows.ERROR_SERVICE_REQUEST_TIMEOUT, time.Minute, false},
	} {
		calls := 0
		err := (&services{timeout: tc.timeout}).retryWhileBusy(t.Context(), func() error {
			if calls++; calls == 1 {
				return fmt.Errorf("starting it: %w", asBusy(tc.code))
			}
			return nil
		})
		if want := map[bool]int{true: 2, false: 1}[tc.repeated]; calls != want || (err == nil) != tc.repeated || err != nil && !errors.Is(err, hostapi.ErrBusy) {
			t.Errorf("%s: %d calls give %v, want %d", what, calls, err, want)
		}
	}
}

func TestStartReturnsTheExitCodesOfAFailingService(t *testing.T) {
	s, _ := mustServe(t, "fails")
	err := s.Start(t.Context(), testName)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{testName, "code 42", "1066"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not contain %q", err, want)
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
		{above, "it depends on itself"}, // Windows refuses this, Wine does not
	} {
		if _, err := s.Put(t.Context(), desired.Service{Name: above, Command: d.Command, DependsOn: []string{step.dependency}}); err != nil {
			if step.dependency == above && errors.Is(err, windows.ERROR_CIRCULAR_DEPENDENCY) {
				continue
			}
			t.Fatal(err)
		}
		err := s.Start(t.Context(), above)
		if err == nil || !strings.Contains(err.Error(), step.want) || errors.Is(err, hostapi.ErrNotFound) {
			t.Errorf("Start() = %v, want %q", err, step.want)
		}
	}
}

func TestStopWaitsForProcessExit(t *testing.T) {
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

func TestStopAcceptsAProcessThatExitsBeforeItAnswers(t *testing.T) {
	s, _ := mustServe(t, "vanishes")
	mustStart(t, s)
	if err := s.Stop(t.Context(), testName); err != nil {
		t.Fatal(err)
	}
	if found := mustFind(t, testName); found.State != hostapi.Stopped {
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
	if found := mustFind(t, testName); found.State != hostapi.Stopped {
		t.Errorf("afterwards it is %s", found.State)
	}
}

// TestProcessesOfAKilledServiceAreKilled covers a killed service that leaves a program running, like kube-log-runner.
func TestProcessesOfAKilledServiceAreKilled(t *testing.T) {
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
		"killed and started again": func(s *services) {
			before := mustProcesses(t, copied)
			crash(t, testName)
			mustStart(t, s)
			for _, p := range before {
				if !p.Ended() {
					t.Error("the leftover program still runs")
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
					t.Fatal("the service has no program")
				}
			}
			end(s)
			if left := mustProcesses(t, copied); len(left) > 0 {
				t.Errorf("%d processes remain", len(left))
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

func TestListsOfNamesAreReadAsWritten(t *testing.T) {
	for _, names := range [][]string{nil, {"one"}, {"Überwachung", "two", "𝄞"}} {
		if diff := cmp.Diff(names, list(&block(names)[0])); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
