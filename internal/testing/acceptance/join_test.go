package acceptance

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/controlplane"
)

// joinFiles creates a folder with all files of a join. The files are empty.
func joinFiles(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	var sums strings.Builder
	for _, name := range []string{controlPlaneProgram, operatorProgram, sshProgram, setupProgram, "payload/payload.json", "deploy/kustomization.yaml"} {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		mustWrite(t, path, "")
		sums.WriteString(empty + "  " + name + "\n")
	}
	mustWrite(t, filepath.Join(folder, checksums), sums.String())
	return folder
}

func mustWrite(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// withContainers is a System with the features that a join needs.
type withContainers struct{ hostapi.System }

func (w withContainers) Feature(ctx context.Context, name string) (wicdapi.FeatureState, error) {
	if name == desired.ContainersFeature {
		return wicdapi.FeatureEnabled, nil
	}
	return w.System.Feature(ctx, name)
}

func TestUnsuitableMachineIsRefusedUnchanged(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*testing.T, *Machine, *JoinOptions)
		wantErr string
	}{
		"no feature":   {func(_ *testing.T, m *Machine, _ *JoinOptions) { m.Host.System = m.Host.System.(withContainers).System }, "Install-WindowsFeature Containers"},
		"no rights":    {func(_ *testing.T, m *Machine, _ *JoinOptions) { m.Elevated = false }, "rights of an administrator"},
		"desktop":      {func(_ *testing.T, m *Machine, _ *JoinOptions) { m.Desktop = true }, "desktop edition"},
		"no files":     {func(t *testing.T, _ *Machine, o *JoinOptions) { o.Files = t.TempDir() }, "make acceptance JOIN=1"},
		"no user":      {func(_ *testing.T, _ *Machine, o *JoinOptions) { o.User = "" }, "--user"},
		"another user": {func(_ *testing.T, _ *Machine, o *JoinOptions) { o.User = "a,b=c" }, "--user"},
		"a node":       {func(t *testing.T, m *Machine, _ *JoinOptions) { mustMakeFolder(t, m, desired.State) }, "is, or was, a node"},
		"folder C:\\k": {func(t *testing.T, m *Machine, _ *JoinOptions) { mustMakeFolder(t, m, desired.Root) }, "a machine without it"},
		"containerd": {func(t *testing.T, m *Machine, _ *JoinOptions) {
			mustPut(t, m, desired.Service{Name: desired.ContainerdService, Command: `C:\containerd.exe`})
		}, "without containerd"},
		"a file is not listed": {func(t *testing.T, _ *Machine, o *JoinOptions) {
			mustWrite(t, filepath.Join(o.Files, checksums), "")
		}, "does not list controlplane.exe"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newComputer(t)
			m := c.machine()
			m.Host.System = withContainers{m.Host.System}
			o := JoinOptions{Options: Options{Out: io.Discard}, Files: joinFiles(t), User: "Administrator"}
			tc.change(t, &m, &o)
			before := c.state(t)
			_, err := Join(t.Context(), m, o)
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("Join() = %v, want %q", err, tc.wantErr)
			}
			if diff := cmp.Diff(before, c.state(t)); diff != "" {
				t.Errorf("the computer differs from before (-before +after):\n%s", diff)
			}
		})
	}
}

func mustMakeFolder(t *testing.T, m *Machine, folder string) {
	t.Helper()
	if err := os.MkdirAll(m.Host.Disk.Local(folder), 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestJoinWithBrokenProgramsIsReverted uses empty programs.
func TestJoinWithBrokenProgramsIsReverted(t *testing.T) {
	c := newComputer(t)
	m := c.machine()
	m.Host.System = withContainers{m.Host.System}
	before := c.state(t)
	r, err := Join(t.Context(), m, JoinOptions{Options: Options{Out: io.Discard}, Files: joinFiles(t), User: "Administrator"})
	if err != nil {
		t.Fatal(err)
	}
	var verdicts []Verdict
	for _, a := range r.Lines {
		verdicts = append(verdicts, a.Verdict)
	}
	want := append([]Verdict{Refuted}, slices.Repeat([]Verdict{Untried}, len(joinSteps(&joining{}))-1)...)
	if diff := cmp.Diff(want, verdicts); diff != "" || r.Finished.IsZero() {
		t.Errorf("verdicts (-want +got):\n%s\n%+v", diff, r)
	}
	if diff := cmp.Diff(before, c.state(t)); diff != "" {
		t.Errorf("the computer differs from before (-before +after):\n%s", diff)
	}
}

func TestChecksumMismatchIsReported(t *testing.T) {
	folder := joinFiles(t)
	mustWrite(t, filepath.Join(folder, operatorProgram), "changed")
	c := newComputer(t)
	m := c.machine()
	m.Host.System = withContainers{m.Host.System}
	r, err := Join(t.Context(), m, JoinOptions{Options: Options{Out: io.Discard}, Files: folder, User: "Administrator"})
	if err != nil || r.Lines[0].Verdict != Untried || !strings.Contains(r.Lines[0].Seen, operatorProgram+" has SHA-256") {
		t.Errorf("got %+v, %v", r.Lines, err)
	}
}

func TestInvalidChecksumListsAreRejected(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	for text, wantErr := range map[string]string{
		sum + "  a/b.exe\r\n" + sum + " *c": "",
		sum + "  ../a":                      "not a checksum",
		sum + "  /a":                        "not a checksum",
		sum + "  C:\\a":                     "not a checksum",
		sum[1:] + "  a":                     "not a checksum",
		"":                                  "",
		strings.Repeat("a", 1<<17):          "too long",
	} {
		_, err := parseChecksums(strings.NewReader(text))
		if wantErr == "" && err != nil || wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr)) {
			t.Errorf("parseChecksums(%.80q) = %v, want %q", text, err, wantErr)
		}
	}
}

// FuzzChecksums checks that the listed files are below the folder.
func FuzzChecksums(f *testing.F) {
	f.Add(strings.Repeat("0a", 32) + "  payload/payload.json\n")
	f.Fuzz(func(t *testing.T, text string) {
		sums, err := parseChecksums(strings.NewReader(text))
		if err != nil {
			return
		}
		for name := range sums {
			if !filepath.IsLocal(name) {
				t.Errorf("%q has %q", text, name)
			}
		}
	})
}

// TestAdministratorKeysAreRestored includes the case that Windows has no file of keys.
func TestAdministratorKeysAreRestored(t *testing.T) {
	for name, former := range map[string]string{"a key": "ssh-ed25519 AAAA somebody", "no key": "", "no file": "-"} {
		t.Run(name, func(t *testing.T) {
			c := newComputer(t)
			m := c.machine()
			mustMakeFolder(t, &m, sshFolder)
			file := m.Host.Disk.Local(keysFile)
			if former != "-" {
				mustWrite(t, file, former)
			}
			o := Options{Out: io.Discard}
			s, release, err := open(t.Context(), m, o)
			if err != nil {
				t.Fatal(err)
			}
			j := &joining{session: s, key: "ssh-ed25519 BBBB wmco-acceptance", config: controlplane.Config{}}
			if err := j.authorize(t.Context(), j.key); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(file); err != nil || !strings.HasSuffix("\n"+string(got), "\n"+j.key+"\n") || !strings.HasPrefix(string(got), strings.Trim(former, "-")) {
				t.Errorf("the file is %q, %v", got, err)
			}
			release()
			if left, err := Restore(t.Context(), m, o); !left || err != nil {
				t.Errorf("restored: %v, %v", left, err)
			}
			got, err := os.ReadFile(file)
			if former == "-" && !errors.Is(err, os.ErrNotExist) || former != "-" && string(got) != former {
				t.Errorf("the file is %q, %v, want %q", got, err, former)
			}
			if m.Host.Disk.Exists(desired.Root) {
				t.Errorf("%s exists", desired.Root)
			}
		})
	}
}

// leavingComputer is a computer whose wicd-setup removes the node at the configured attempt.
type leavingComputer struct {
	*computer
	attempts, times int
}

func (l *leavingComputer) Run(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	if !strings.HasSuffix(command, " "+wicdapi.CommandLeave) {
		return l.computer.Run(ctx, command, stdin, stdout)
	}
	var result wicdapi.LeaveResult
	if l.attempts++; l.attempts < l.times {
		result.Remains = []string{"service x"}
	}
	s := wicdapi.NewSession(stdin, stdout)
	var request wicdapi.LeaveRequest
	if err := s.Request(&request); err != nil {
		return err
	}
	s.End(result, nil)
	return nil
}

// TestNodeLeftoversAreRemoved expects a failed removal to keep the files that another attempt needs.
func TestNodeLeftoversAreRemoved(t *testing.T) {
	for times, succeeds := range map[int]bool{1: true, removeNodeAttempts: true, removeNodeAttempts + 1: false} {
		synctest.Test(t, func(t *testing.T) {
			l := &leavingComputer{computer: newComputer(t), times: times}
			m := l.machine()
			m.Host.Programs = l
			o := Options{Out: io.Discard}
			s, release, err := open(t.Context(), m, o)
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.folder(t.Context(), "join")
			err = errors.Join(err, s.change(change{kindNode, "0123456789ab-0123-0123-0123-01234567"}, func() error {
				mustMakeFolder(t, &m, desired.State)
				mustMakeFolder(t, &m, desired.Logs+`\wicd`)
				return nil
			}))
			release()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Restore(t.Context(), m, o); (err == nil) != succeeds {
				t.Errorf("after %d attempts: %v", l.attempts, err)
			}
			for _, folder := range []string{desired.Root, desired.Logs, joinFolder, Root} {
				if m.Host.Disk.Exists(folder) == succeeds {
					t.Errorf("%d attempts: %s exists: %v", times, folder, !succeeds)
				}
			}
			if _, err := Restore(t.Context(), m, o); err != nil {
				t.Errorf("removing the node again: %v", err)
			}
			l.PowerOff()
		})
	}
}

func TestJoinPlanListsEachChange(t *testing.T) {
	plan := JoinPlan()
	for _, l := range joinSteps(&joining{}) {
		if l.Changes == "" || l.Claim == "" || !strings.Contains(plan, l.ID+": ") {
			t.Errorf("step %s has no claim, or the plan does not say what it changes", l.ID)
		}
	}
	if !strings.Contains(plan, "--restore") {
		t.Error("the plan does not say what to do after an interruption")
	}
}
