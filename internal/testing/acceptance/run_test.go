package acceptance

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// simulated returns the lines that can be tried on a simulated computer.
func simulated() []string {
	return []string{"features", "user-folders", "certificate-store", "hostname", "restarts", "defender", "firewall", "routes", "hns"}
}

func TestRunAnswersEachLineAndRevertsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newComputer(t)
		before := c.state(t)
		var reported strings.Builder
		reports := 0
		r, err := Run(t.Context(), c.machine(), Options{Version: "v1", Only: simulated(), Out: &reported, Report: func(Report) error { reports++; return nil }})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]Verdict{}
		for _, a := range r.Lines {
			got[a.ID] = a.Verdict
		}
		want := map[string]Verdict{
			"features": Confirmed, "restarts": Confirmed, "defender": Confirmed, "firewall": Confirmed, "hostname": Confirmed, "routes": Confirmed,
			"user-folders": Refuted, "certificate-store": Refuted, // this is Linux
			"hns": Untried,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("verdicts (-want +got):\n%s\n%s", diff, reported.String())
		}
		if diff := cmp.Diff(before, c.state(t)); diff != "" {
			t.Errorf("the computer differs from before (-before +after):\n%s", diff)
		}
		if reports != len(r.Facts)+len(want)+1 || len(r.Facts) != len(queries()) || r.Finished.IsZero() || !r.Refuted() || len(r.Left) > 0 {
			t.Errorf("%d reports, the last is %+v", reports, r)
		}
		if !strings.Contains(reported.String(), "defender: temporarily adds the exclusion") {
			t.Errorf("the output does not announce the changes: %s", reported.String())
		}
	})
}

func TestHyperVStateIsComparedWithWindows(t *testing.T) {
	for _, test := range []struct {
		dism string
		wicd wicdapi.FeatureState
		want Verdict
	}{
		{"Disabled", wicdapi.FeatureDisabled, Confirmed},
		{"Enabled", wicdapi.FeatureEnabled, Confirmed},
		{"Enable Pending", wicdapi.FeaturePending, Confirmed},
		{"Enabled", wicdapi.FeatureDisabled, Refuted},
		{"Disabled", wicdapi.FeatureEnabled, Refuted},
		{"", wicdapi.FeatureDisabled, Untried},
	} {
		c := newComputer(t)
		c.hyperV = test.dism
		m := c.machine()
		m.Host.System = withFeature{m.Host.System, test.wicd}
		r, err := Run(t.Context(), m, Options{Version: "v1", Only: []string{"hyper-v"}, Out: io.Discard})
		if err != nil || len(r.Lines) != 1 || r.Lines[0].Verdict != test.want {
			t.Errorf("dism.exe reports %q, WICD %s: %+v, %v; want %s", test.dism, test.wicd, r.Lines, err, test.want)
		}
	}
}

// withFeature is a System with feature Hyper-V in a given state.
type withFeature struct {
	hostapi.System
	state wicdapi.FeatureState
}

func (w withFeature) Feature(context.Context, string) (wicdapi.FeatureState, error) {
	return w.state, nil
}

// TestVirtualizationBasedSecurityExplainsHypervisor: Windows then runs on its hypervisor without feature Hyper-V.
func TestVirtualizationBasedSecurityExplainsHypervisor(t *testing.T) {
	for isOn, want := range map[bool]Verdict{true: Confirmed, false: Refuted} {
		c := newComputer(t)
		c.security = isOn
		m := c.machine()
		m.Host.System = withHypervisor{withFeature{m.Host.System, wicdapi.FeatureDisabled}}
		r, err := Run(t.Context(), m, Options{Only: []string{"hyper-v"}, Out: io.Discard})
		if err != nil || len(r.Lines) != 1 || r.Lines[0].Verdict != want {
			t.Errorf("with virtualization-based security %v: %+v, %v; want %s", isOn, r.Lines, err, want)
		}
	}
}

type withHypervisor struct{ withFeature }

func (w withHypervisor) Facts(ctx context.Context) (wicdapi.HostFacts, error) {
	f, err := w.withFeature.Facts(ctx)
	f.Virtualization.HyperV = true
	return f, err
}

// TestHostnameIsTestedDespiteOtherPendingRestarts: files that wait for their replacement, and updates, are usual on a server.
func TestHostnameIsTestedDespiteOtherPendingRestarts(t *testing.T) {
	for name, test := range map[string]struct {
		prepare  func(*computer)
		edit     func(*Machine)
		want     Verdict
		wantSeen string
	}{
		"files and updates": {prepare: func(c *computer) {
			c.RenameAtStart(`\??\C:\new.dll`, `!\??\C:\old.dll`)
			c.WaitFor("updates")
		}, want: Confirmed, wantSeen: "old name"},
		"another name": {prepare: func(c *computer) {
			c.WaitFor(hostapi.PendingRename("WIN-ACC", "WIN-2"))
		}, want: Untried, wantSeen: "to WIN-2"},
		"an unreported rename": {
			prepare: func(c *computer) { c.WaitFor("updates") }, edit: func(m *Machine) { m.Host.NextStart = withoutRename{m.Host.NextStart} },
			want: Refuted, wantSeen: "reports no pending restart",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newComputer(t)
			test.prepare(c)
			m := c.machine()
			if test.edit != nil {
				test.edit(&m)
			}
			r, err := Run(t.Context(), m, Options{Only: []string{"hostname"}, Out: io.Discard})
			if err != nil || len(r.Lines) != 1 || r.Lines[0].Verdict != test.want || !strings.Contains(r.Lines[0].Seen, test.wantSeen) {
				t.Errorf("got %+v, %v; want %s, %q", r.Lines, err, test.want, test.wantSeen)
			}
		})
	}
}

// withoutRename is a NextStart that ignores a new name.
type withoutRename struct{ hostapi.NextStart }

func (withoutRename) Rename(context.Context, string) error { return nil }

// TestInterruptedRunIsRevertedByNextRun cuts the power at each change of the computer, for each probe.
func TestInterruptedRunIsRevertedByNextRun(t *testing.T) {
	for _, id := range simulated() {
		t.Run(id, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cuts := 0
				for cutAt(t, cuts, Options{Only: []string{id}, Out: io.Discard}) {
					cuts++
				}
				if cuts < 4 && id != "hns" {
					t.Errorf("only %d interruptions", cuts)
				}
			})
		})
	}
}

// cutAt interrupts a run after some changes and undoes them: by Restore, or by another run if the number of changes is odd. It returns false if the
// run made no more changes.
func cutAt(t *testing.T, changes int, o Options) (wasCut bool) {
	c := newComputer(t)
	defer c.PowerOff()
	before := c.state(t)
	c.CutPowerAfter(changes)
	_, err := Run(t.Context(), c.machine(), o)
	if c.Changes() <= changes {
		return false
	}
	if err != nil && !errors.Is(err, sim.ErrPower) {
		t.Errorf("cut after %d changes: %v", changes, err)
	}
	c.PowerOn()
	if changes%2 == 1 {
		_, err = Run(t.Context(), c.machine(), o)
	} else {
		_, err = Restore(t.Context(), c.machine(), o)
	}
	if err != nil {
		t.Errorf("after a cut after %d changes: %v", changes, err)
	}
	c.PowerCut() // the former name takes effect at the next start
	c.PowerOn()
	if diff := cmp.Diff(before, c.state(t)); diff != "" {
		t.Errorf("cut after %d changes: the computer differs from before (-before +after):\n%s", changes, diff)
	}
	return true
}

func TestInterruptRestoresChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newComputer(t)
		before := c.state(t)
		ctx, cancel := context.WithCancel(t.Context())
		stops := func(r Report) error {
			if len(r.Lines) == 3 {
				cancel()
			}
			return nil
		}
		r, err := Run(ctx, c.machine(), Options{Only: simulated(), Out: io.Discard, Report: stops})
		if !errors.Is(err, context.Canceled) || len(r.Lines) != 3 {
			t.Errorf("Run() = %d lines, %v", len(r.Lines), err)
		}
		if diff := cmp.Diff(before, c.state(t)); diff != "" {
			t.Errorf("the computer differs from before (-before +after):\n%s", diff)
		}
	})
}

func TestFailedRestoreIsReportedAndRetried(t *testing.T) {
	c := newComputer(t)
	before := c.state(t)
	o := Options{Only: []string{"defender", "firewall"}, Out: io.Discard}
	m := c.machine()
	c.EditDefender(func(d *sim.Defender) { d.PolicyOnly = true }) // the probe fails if its exclusion is not in force
	m.Host.Defender = failingDefender{m.Host.Defender}
	r, err := Run(t.Context(), m, o)
	if err == nil || len(r.Left) != 1 || !strings.Contains(r.Left[0], "Defender exclusion "+excludedFolder) {
		t.Errorf("Run() = %q, %v", r.Left, err)
	}
	c.EditDefender(func(d *sim.Defender) { d.PolicyOnly = false })
	if left, err := Restore(t.Context(), c.machine(), o); err != nil || !left {
		t.Errorf("Restore() = %v, %v", left, err)
	}
	if diff := cmp.Diff(before, c.state(t)); diff != "" {
		t.Errorf("the computer differs from before (-before +after):\n%s", diff)
	}
	if left, err := Restore(t.Context(), c.machine(), o); err != nil || left {
		t.Errorf("second Restore() = %v, %v", left, err)
	}
}

func TestForeignMachineIsRefusedUnchanged(t *testing.T) {
	for _, test := range []struct {
		name    string
		edit    func(t *testing.T, c *computer, m *Machine)
		options Options
		wantErr string
	}{
		{"a kubelet", func(t *testing.T, c *computer, m *Machine) {
			mustPut(t, m, desired.Service{Name: desired.KubeletService, Description: "somebody's", Command: `C:\other.exe`})
		}, Options{}, "is, or was, a node: it has service kubelet"},
		{"our service", func(t *testing.T, c *computer, m *Machine) {
			mustPut(t, m, desired.Service{Name: api.WICDService, Description: "ours", Command: `C:\k\wicd.exe`})
		}, Options{}, "is, or was, a node: it has service " + api.WICDService},
		{"what a node left", func(t *testing.T, c *computer, m *Machine) {
			if _, err := m.Host.Disk.MakeFolder(desired.State); err != nil {
				t.Fatal(err)
			}
		}, Options{}, `it has folder C:\k\state`},
		{"a desktop", func(_ *testing.T, _ *computer, m *Machine) { m.Desktop = true }, Options{}, "desktop edition"},
		{"no administrator", func(_ *testing.T, _ *computer, m *Machine) { m.Elevated = false }, Options{}, "Run as administrator"},
		{"Wine", func(_ *testing.T, _ *computer, m *Machine) { m.Wine, m.Desktop = true, true }, Options{}, "this is Wine"},
		{"no Wine", func(*testing.T, *computer, *Machine) {}, Options{OnWine: true}, "this is not Wine"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newComputer(t)
			m := c.machine()
			test.edit(t, c, &m)
			before, changes := c.state(t), c.Changes()
			test.options.Out = io.Discard
			_, err := Run(t.Context(), m, test.options)
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("Run() = %v, want %q", err, test.wantErr)
			}
			if diff := cmp.Diff(before, c.state(t)); diff != "" || c.Changes() != changes {
				t.Errorf("the run changed the computer (-before +after):\n%s", diff)
			}
		})
	}
}

func TestFolderWithForeignAccessIsRefused(t *testing.T) {
	c := newComputer(t)
	m := c.machine()
	if _, err := m.Host.Disk.WriteFile(journalFile, `[{"kind":"firewall rules","name":"OpenShift managed"}]`); err != nil {
		t.Fatal(err)
	}
	if err := c.ChangeOwner(Root); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), m, Options{Out: io.Discard}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "users who are not administrators") {
		t.Errorf("Run() = %v", err)
	}
}

func TestOnlyOneRunAtATime(t *testing.T) {
	c := newComputer(t)
	m := c.machine()
	o := Options{Only: []string{"firewall"}, Out: io.Discard}
	o.Report = func(Report) error {
		_, err := Run(t.Context(), m, Options{Out: io.Discard})
		return err
	}
	if _, err := Run(t.Context(), m, o); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "another run") {
		t.Errorf("Run() within Run() = %v", err)
	}
}

func TestUnknownLineIsRejected(t *testing.T) {
	if _, err := Run(t.Context(), newComputer(t).machine(), Options{Only: []string{"hms"}}); err == nil || !strings.Contains(err.Error(), `"hms"`) {
		t.Errorf("Run() = %v", err)
	}
}
