package acceptance

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// bareOptions returns the options of a join that may restart a machine without feature Containers.
func bareOptions(t *testing.T) JoinOptions {
	t.Helper()
	return JoinOptions{
		Options: Options{Out: io.Discard, Allowed: []string{RestartAllowed}, InService: true}, Files: joinFiles(t), User: "Administrator",
	}
}

func TestJoinResumesAfterRestartForContainers(t *testing.T) {
	files := bareOptions(t)
	synctest.Test(t, func(t *testing.T) {
		c := newComputer(t)
		defer c.PowerOff()
		before := c.state(t)
		r, err := Join(t.Context(), c.machine(), files)
		if !errors.Is(err, ErrRestarting) || len(r.Lines) > 0 || !r.Finished.IsZero() {
			t.Fatalf("got error %v, lines %+v", err, r.Lines)
		}
		c.Restart()
		r, err = Join(t.Context(), c.machine(), files)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Lines) != 1+len(joinSteps(&joining{})) || r.Lines[0].ID != "containers" || r.Lines[0].Verdict != Confirmed || r.Lines[1].Verdict != Refuted {
			t.Errorf("the lines are %+v", r.Lines) // the programs are empty
		}
		if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "needs a restart: true") || len(r.Facts) < len(queries()) || r.Finished.IsZero() {
			t.Errorf("the notes are %q, with %d facts", r.Notes, len(r.Facts))
		}
		if diff := cmp.Diff(before, c.state(t)); diff != "" {
			t.Errorf("the computer differs from before (-before +after):\n%s", diff)
		}
	})
}

// pending is a System with a feature that stays in one state.
type pending struct {
	hostapi.System
	state   wicdapi.FeatureState
	reboots *int
}

func (p pending) Feature(context.Context, string) (wicdapi.FeatureState, error) { return p.state, nil }

func (p pending) Reboot(context.Context, string, time.Duration) error { *p.reboots++; return nil }

// TestMissingFeatureCausesOneRestart: Windows may roll back a feature, or take minutes after its start to complete it.
func TestMissingFeatureCausesOneRestart(t *testing.T) {
	files := bareOptions(t)
	for _, state := range []wicdapi.FeatureState{wicdapi.FeaturePending, wicdapi.FeatureDisabled} {
		synctest.Test(t, func(t *testing.T) {
			c := newComputer(t)
			defer c.PowerOff()
			if _, err := Join(t.Context(), c.machine(), files); !errors.Is(err, ErrRestarting) {
				t.Fatal(err)
			}
			c.Restart()
			requested := 0
			m := c.machine()
			m.Host.System = pending{m.Host.System, state, &requested}
			r, err := Join(t.Context(), m, files)
			if err != nil || requested > 0 || len(r.Lines) != 1 || r.Lines[0].Verdict != Refuted || !strings.Contains(r.Lines[0].Seen, string(state)+" at 0 s") {
				t.Errorf("%s: %d restarts, %+v, %v", state, requested, r.Lines, err)
			}
		})
	}
}

// TestPendingFeatureProgressIsRecorded: a join can only wait for what Windows reports while DISM lists the feature as pending.
func TestPendingFeatureProgressIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newComputer(t)
		defer c.PowerOff()
		c.SetServicing(sim.ServicingQuirks{PendingFor: time.Minute, ServicingFor: 30 * time.Second})
		m := c.machine()
		if _, err := m.Host.System.EnableFeature(t.Context(), desired.ContainersFeature); err != nil {
			t.Fatal(err)
		}
		c.Restart()
		s := &session{Machine: c.machine(), out: io.Discard}
		seen, err := s.awaitContainers(t.Context(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"Pending at 0 s (TrustedInstaller is running; features or updates are half installed", "Pending at 30 s (TrustedInstaller is running)",
			"Enabled at 60 s (nothing is pending)",
		} {
			if !strings.Contains(seen, want) {
				t.Errorf("missing %q in: %s", want, seen)
			}
		}
	})
}

// TestJoinInterruptedBeforeRestartIsReverted expects that it does not start again on its own.
func TestJoinInterruptedBeforeRestartIsReverted(t *testing.T) {
	files := bareOptions(t)
	synctest.Test(t, func(t *testing.T) {
		c := newComputer(t)
		defer c.PowerOff()
		if _, err := Join(t.Context(), c.machine(), files); !errors.Is(err, ErrRestarting) {
			t.Fatal(err)
		}
		if _, err := Join(t.Context(), c.machine(), files); err == nil || !strings.Contains(err.Error(), "was interrupted before it") {
			t.Errorf("unexpected error: %v", err)
		}
		if _, err := Restore(t.Context(), c.machine(), Options{Out: io.Discard}); err != nil || c.machine().Host.Disk.Exists(Root) {
			t.Errorf("%s still exists: %v", Root, err)
		}
	})
}

func TestRestartRequiresPermission(t *testing.T) {
	c := newComputer(t)
	o := bareOptions(t)
	o.Allowed = nil
	r, err := Join(t.Context(), c.machine(), o)
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--restart-allowed") || len(r.Facts) == 0 || !strings.Contains(r.Refused, "Install-WindowsFeature") {
		t.Errorf("got error %v, report refused: %q", err, r.Refused)
	}
}

// TestNodeThatIsNotReadyIsNotRestarted covers a node that is not Ready because it lacks the sandbox image: nothing could be back after a
// restart.
func TestNodeThatIsNotReadyIsNotRestarted(t *testing.T) {
	c := newComputer(t)
	requested := 0
	m := c.machine()
	m.Host.System = pending{m.Host.System, wicdapi.FeatureEnabled, &requested}
	s, release, err := open(t.Context(), m, Options{Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	s.recorded = func(Fact) {}
	j := &joining{session: s, options: bareOptions(t), report: &Report{Lines: []Answer{{ID: "node-ready", Verdict: Untried}}}}
	for _, step := range []func(context.Context, *session) (string, error){j.restartNode, j.serviceSteps()[0].Try} {
		if _, err := step(t.Context(), s); !errors.Is(err, errUntried) || requested > 0 || s.Host.Disk.Exists(resumeFile) {
			t.Errorf("%d restarts, error %v", requested, err)
		}
	}
}

func TestServiceRunsOrderOncePerStart(t *testing.T) {
	c := newComputer(t)
	m := c.machine()
	if _, err := m.Host.Rights.MakeFolder(Root, hostapi.Private); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Host.Disk.MakeFolder(serviceFolder); err != nil {
		t.Fatal(err)
	}
	mustPut(t, &m, desired.Service{Name: ServiceName, Description: "of a run", Command: serviceProgram})
	s := &session{Machine: m}
	if err := s.writeOrder(order{Args: []string{"--join"}}); err != nil {
		t.Fatal(err)
	}
	var ran []string
	serve := func(code int, resumes bool) {
		t.Helper()
		err := Serve(t.Context(), m, 4, func(_ context.Context, args []string, out io.Writer) int {
			ran = append(ran, strings.Join(args, " "))
			if resumes {
				if _, err := m.Host.Disk.WriteFile(resumeFile, "{}"); err != nil {
					t.Error(err)
				}
			}
			return code
		})
		if err != nil {
			t.Error(err)
		}
	}
	serve(4, true)
	if code, ended := s.result(); ended {
		t.Errorf("the service ended with %d while Windows restarts", code)
	}
	serve(4, true)
	if err := m.Host.Disk.Remove(resumeFile); err != nil {
		t.Fatal(err)
	}
	serve(3, false)
	if diff := cmp.Diff([]string{"--join --in-service", "--join --in-service", "--join --in-service --restore"}, ran); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if code, ended := s.result(); !ended || code != 3 {
		t.Errorf("the result is %d, %v", code, ended)
	}
	if services, err := m.Host.Services.List(t.Context(), []string{ServiceName}); err != nil || len(services) > 0 {
		t.Errorf("the service still exists: %+v, %v", services, err)
	}
}

// FuzzOrder checks that a parsed order is small and has arguments.
func FuzzOrder(f *testing.F) {
	f.Add([]byte(`{"args":["--join"],"starts":1}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		if o, err := parseOrder(content); err == nil && (len(o.Args) == 0 || len(content) > maxOrder) {
			t.Errorf("%q is %+v", content, o)
		}
	})
}

// FuzzResumption checks that a parsed moment is one that a join can resume from.
func FuzzResumption(f *testing.F) {
	f.Add([]byte(`{"moment":"node","boot":"7"}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		if r, err := parseResumption(content); err == nil && r.Moment != forContainers && r.Moment != asNode {
			t.Errorf("%q is %+v", content, r)
		}
	})
}
