package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/win"
	"github.com/windows-machine-config/wmco/internal/testing/acceptance"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

const (
	// asProgram, set in the environment, makes the test binary behave as wmco-acceptance.
	asProgram = "WMCO_ACCEPTANCE_TEST_AS_PROGRAM"
	// builtProgram holds the path of the program that make acceptance built. Without it, the tests run the test binary.
	builtProgram = "WMCO_ACCEPTANCE"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// program prepares a run of wmco-acceptance on Wine.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if !win.ThisEdition().Wine {
		t.Skip("it would change this machine: start wmco-acceptance.exe yourself")
	}
	name := os.Getenv(builtProgram)
	if name == "" {
		name = os.Args[0]
	}
	c := exec.Command(name, append([]string{"--on-wine"}, args...)...)
	c.Env = append(os.Environ(), asProgram+"=1")
	return c
}

// start starts the program with an output, again if its process did not start.
func start(t *testing.T, output func(*exec.Cmd) error, args ...string) *exec.Cmd {
	t.Helper()
	for attempt := 1; ; attempt++ {
		c := program(t, args...)
		err := output(c)
		if err == nil {
			err = c.Start()
		}
		switch {
		case err == nil:
			return c
		case attempt == 3 || !errors.Is(err, contract.WineStartFailure):
			t.Fatal(err)
		}
		t.Log("starting the program again:", err)
	}
}

// startPiped starts the program and returns the lines that it prints.
func startPiped(t *testing.T, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	var pipe io.Reader
	c := start(t, func(c *exec.Cmd) (err error) {
		pipe, err = c.StdoutPipe()
		return err
	}, args...)
	return c, bufio.NewScanner(pipe)
}

// mustEnd runs the program to completion and requires this exit code.
func mustEnd(t *testing.T, code int, args ...string) string {
	t.Helper()
	var output bytes.Buffer
	err := start(t, func(c *exec.Cmd) error {
		c.Stdout, c.Stderr = &output, &output
		return nil
	}, args...).Wait()
	exit := (*exec.ExitError)(nil)
	got := 0
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if got != code {
		t.Fatalf("it ends with %d, want %d:\n%s", got, code, output.String())
	}
	return output.String()
}

// verdicts returns the verdicts on Wine. docs/limitations.md explains those that differ from Windows.
func verdicts() map[string]acceptance.Verdict {
	return map[string]acceptance.Verdict{
		"user-folders": acceptance.Refuted, "certificate-store": acceptance.Refuted, "hostname": acceptance.Refuted,
		"certificate-lookup": acceptance.Confirmed, "log-runner": acceptance.Confirmed, "service-deletion": acceptance.Confirmed,
		"antivirus": acceptance.Confirmed, "revision": acceptance.Confirmed, "listeners": acceptance.Confirmed,
		"updates": acceptance.Confirmed,
	}
}

// TestVerdictOfEachLine runs all lines on Wine; with -short, it skips the contract tests, which make unit-windows also runs.
func TestVerdictOfEachLine(t *testing.T) {
	var ids []string
	want := map[string]acceptance.Verdict{}
	for _, l := range acceptance.Lines() {
		if len(l.Tests) > 0 && testing.Short() {
			continue
		}
		ids = append(ids, l.ID)
		want[l.ID] = acceptance.Untried
		if v, known := verdicts()[l.ID]; known {
			want[l.ID] = v
		}
	}
	before := remember(t)
	folder := outFolder(t)
	output := mustEnd(t, exitRefuted, "--only", strings.Join(ids, ","), "--out", folder)
	content, err := os.ReadFile(filepath.Join(folder, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r acceptance.Report
	if err := json.Unmarshal(content, &r); err != nil {
		t.Fatal(err)
	}
	got := map[string]acceptance.Verdict{}
	for _, a := range r.Lines {
		got[a.ID] = a.Verdict
	}
	if diff := cmp.Diff(want, got); diff != "" || !r.Machine.Wine || r.Finished.IsZero() {
		t.Errorf("the report has (-want +got):\n%s\n%s", diff, output)
	}
	for _, test := range r.Tests {
		if test.Result == "failed" {
			t.Errorf("%s failed:\n%s", test.Name, test.Output)
		}
	}
	if !testing.Short() && len(r.Tests) < 100 {
		t.Errorf("the report has %d tests", len(r.Tests))
	}
	if summary, err := os.ReadFile(filepath.Join(folder, "report.md")); err != nil || !strings.Contains(string(summary), "This is Wine") {
		t.Errorf("the summary is %q, %v", summary, err)
	}
	before.mustBeSame(t)
}

// TestKilledRunIsReverted kills the program at each line that announces a change or its undoing.
func TestKilledRunIsReverted(t *testing.T) {
	before := remember(t)
	for _, id := range []string{"user-folders", "hostname", "antivirus", "shells", "firewall", "certificate-store", "log-runner"} {
		if id == "log-runner" && os.Getenv(builtProgram) == "" {
			continue // only make acceptance builds it
		}
		for step := 1; step <= 2; step++ { // the change, then its undoing
			if id == "certificate-store" && step == 2 && testing.Short() {
				continue // the probe takes long on Wine
			}
			wasKilled, at := kill(t, id, step)
			if !wasKilled {
				t.Fatalf("%s has no step %d", id, step)
			}
			mustRestore(t, before, at)
		}
	}
}

// TestKilledContractTestsAreReverted kills the program while tests of services run.
func TestKilledContractTestsAreReverted(t *testing.T) {
	if os.Getenv(builtProgram) == "" || testing.Short() {
		t.Skip("it takes a program of make acceptance, and minutes")
	}
	before := remember(t)
	const testsOfWin = 4 // after a folder and the tests of network and scm
	for _, step := range []int{testsOfWin, testsOfWin + 1, testsOfWin + 2} {
		wasKilled, at := kill(t, "service-deletion", step)
		if !wasKilled {
			t.Fatalf("it has no step %d", step)
		}
		mustRestore(t, before, at)
	}
}

// TestServiceRunOutlivesSession kills the program that started the service, as the end of a session does.
func TestServiceRunOutlivesSession(t *testing.T) {
	before := remember(t)
	folder := outFolder(t)
	c, lines := startPiped(t, "--as-service", "--only", "user-folders,hostname", "--out", folder)
	started := false
	for lines.Scan() && !started {
		started = strings.HasPrefix(lines.Text(), "this runs as service ")
	}
	killed := c.Process.Kill()
	_ = c.Wait() // the error is that of the kill
	if !started || killed != nil {
		t.Fatalf("the service started: %v, %v", started, killed)
	}
	var r acceptance.Report
	for end := time.Now().Add(5 * time.Minute); r.Finished.IsZero(); time.Sleep(time.Second) {
		content, err := os.ReadFile(filepath.Join(folder, "report.json"))
		if err == nil {
			_ = json.Unmarshal(content, &r) // the file may be half written
		}
		if time.Now().After(end) {
			t.Fatalf("the report is not finished: %s", content)
		}
	}
	if len(r.Lines) != 2 || len(r.Facts) == 0 {
		t.Errorf("the report has %d lines and %d facts", len(r.Lines), len(r.Facts))
	}
	mustRestoreWhenItIsFree(t)
	before.mustBeSame(t)
}

// mustRestoreWhenItIsFree waits until the service has stopped.
func mustRestoreWhenItIsFree(t *testing.T) {
	t.Helper()
	var output []byte
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		var err error
		if output, err = program(t, "--restore").CombinedOutput(); err == nil {
			return
		}
	}
	t.Fatalf("--restore: %s", output)
}

// mustRestore undoes the changes of a killed run.
func mustRestore(t *testing.T, before machineState, at string) {
	t.Helper()
	t.Log("killed at:", at)
	output := mustEnd(t, exitOK, "--restore")
	if again := mustEnd(t, exitOK, "--restore"); !strings.Contains(again, "no changes of an earlier run are left") {
		t.Errorf("killed at %q, a second --restore printed %s after %s", at, again, output)
	}
	before.mustBeSame(t)
}

// kill starts the program and kills it when it announces the given step, or during that step if it takes long. It returns false if the program
// ends before that.
func kill(t *testing.T, id string, step int) (wasKilled bool, at string) {
	t.Helper()
	c, lines := startPiped(t, "--only", id, "--out", outFolder(t))
	defer func() { _ = c.Wait() }() // the error is that of the kill or a refuted line
	for lines.Scan() {
		at = strings.TrimSpace(lines.Text())
		if !strings.HasPrefix(at, "changing: ") && !strings.HasPrefix(at, "reverting: ") {
			continue
		}
		if step--; step > 0 {
			continue
		}
		if strings.HasSuffix(at, "changing: tests win") {
			time.Sleep(8 * time.Second) // the tests have begun to create services
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		return true, at
	}
	return false, ""
}

// remember records the state of the machine after undoing what an interrupted test run may have left.
func remember(t *testing.T) machineState {
	t.Helper()
	mustEnd(t, exitOK, "--restore")
	return look(t)
}

// machineState is the state that the program changes on Wine.
type machineState struct {
	Roots    []string
	Hostname string
	Services []string
	// Brought lists the operator's programs in the home folder.
	Brought []string
}

func look(t *testing.T) machineState {
	t.Helper()
	h, err := win.Host()
	if err != nil {
		t.Fatal(err)
	}
	roots, err := h.Certificates.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	facts, err := h.System.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := machineState{Roots: roots, Hostname: facts.Hostname}
	found, err := h.Services.List(t.Context(), []string{"wicd-test"})
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	if s.Brought, err = filepath.Glob(filepath.Join(home, "wicd-*.exe")); err != nil {
		t.Fatal(err)
	}
	for _, service := range found { // includes services that contract tests mark as WICD's
		s.Services = append(s.Services, service.Name)
	}
	return s
}

func (s machineState) mustBeSame(t *testing.T) {
	t.Helper()
	if diff := cmp.Diff(s, look(t)); diff != "" {
		t.Errorf("the machine differs from before (-before +after):\n%s", diff)
	}
	if (hostapi.Disk{}).Exists(acceptance.Root) {
		t.Errorf("%s exists", acceptance.Root)
	}
}

// outFolder returns an empty folder. Removing a tree with os.RemoveAll fails on Wine, so t.TempDir cannot be used.
func outFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "wmco-acceptance-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = (hostapi.Disk{}).RemoveAll(folder) })
	return folder
}

func TestWineIsRefusedWithoutFlag(t *testing.T) {
	c := program(t)
	c.Args = c.Args[:1]
	output, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(output), "refused, nothing was changed: this is Wine") {
		t.Errorf("got %s, %v", output, err)
	}
}

func TestPlanAndInvalidFlags(t *testing.T) {
	if plan := mustEnd(t, exitOK, "--plan"); !strings.Contains(plan, "hostname: sets another host name") {
		t.Errorf("the plan is %s", plan)
	}
	if plan := mustEnd(t, exitOK, "--plan", "--join"); !strings.Contains(plan, "node-ready: creates services") {
		t.Errorf("the plan of --join is %s", plan)
	}
	if output := mustEnd(t, exitUsage, "--join", "--only", "hns"); !strings.Contains(output, "--only cannot be used with --join") {
		t.Errorf("--join with --only printed %s", output)
	}
	if output := mustEnd(t, exitUsage, "--join", "--image-port", "80"); !strings.Contains(output, "--image-port is 80") {
		t.Errorf("--image-port without an image printed %s", output)
	}
	if output := mustEnd(t, exitFailed, "--join", "--out", outFolder(t)); !strings.Contains(output, "refused, nothing was changed: ") {
		t.Errorf("--join without its requirements printed %s", output)
	}
	for _, args := range [][]string{{"--joined"}, {"more"}} {
		if output := mustEnd(t, exitUsage, args...); !strings.Contains(output, args[0]) && !strings.Contains(output, "joined") {
			t.Errorf("%q: got %s", args, output)
		}
	}
}
