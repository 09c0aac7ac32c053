package configure_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// exclusionsOf returns the exclusions for a payload's containerd.
func exclusionsOf(digest string) desired.Exclusions {
	return desired.Exclusions{
		Processes: []string{desired.VersionFolder(digest) + `\containerd\containerd.exe`},
		Paths:     []string{desired.ContainerdRoot, desired.ContainerdState},
	}
}

// foreignExclusions returns an exclusion of an administrator.
func foreignExclusions() desired.Exclusions {
	return desired.Exclusions{Paths: []string{`D:\databases`}}
}

// withExclusions returns a host that already has other exclusions, and a request that wants some.
func withExclusions(t *testing.T) (*sim.Windows, wicdapi.JoinRequest) {
	t.Helper()
	w, r := daemontest.NewHost(t, sim.WindowsOptions{})
	w.EditDefender(func(d *sim.Defender) { d.Set = foreignExclusions() })
	r.Desired.Exclusions = exclusionsOf(r.Desired.Digest)
	return w, r
}

func expectExclusions(t *testing.T, w *sim.Windows, want desired.Exclusions) {
	t.Helper()
	if diff := cmp.Diff(want, w.Defender().Set, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("exclusions on the host (-want +got):\n%s", diff)
	}
}

func TestJoinExcludesContainerdFromScans(t *testing.T) {
	w, r := withExclusions(t)
	result := daemontest.MustJoin(t, w, r)
	expectExclusions(t, w, foreignExclusions().And(r.Desired.Exclusions))
	for _, exclusion := range r.Desired.Exclusions.List() {
		if want := "Defender exclusion " + exclusion + " added"; !slices.Contains(result.Changed, want) {
			t.Errorf("%q is not reported; reported: %q", want, result.Changed)
		}
	}
	daemontest.ExpectNoChange(t, w, r)
	if n := w.Defender().Writes; n != 1 {
		t.Errorf("Defender was changed %d times", n)
	}
	next, c := daemontest.NewRequest(daemontest.NewPayload("2")), daemontest.NewPayload("2")
	next.Desired.Exclusions = exclusionsOf(next.Desired.Digest)
	daemontest.MustSend(t, w, c)
	daemontest.MustJoin(t, w, next)
	expectExclusions(t, w, foreignExclusions().And(desired.Exclusions{Paths: next.Desired.Exclusions.Paths}).And(next.Desired.Exclusions))
	next.Desired.Exclusions = desired.Exclusions{}
	daemontest.MustJoin(t, w, next)
	expectExclusions(t, w, foreignExclusions())
	if result := daemontest.MustLeave(t, w, next.Cluster); len(result.Remains) > 0 {
		t.Errorf("remains %q", result.Remains)
	}
}

func TestRemovedExclusionsAreRestored(t *testing.T) {
	w, r := withExclusions(t)
	daemontest.MustJoin(t, w, r)
	synctest.Test(t, func(t *testing.T) {
		defer daemontest.StartRun(t, w.Host())()
		time.Sleep(10 * daemontest.AfterServiceCheck)
		if n := w.Defender().Writes; n != 1 {
			t.Errorf("Defender was changed %d times although nothing was missing", n)
		}
		w.EditDefender(func(d *sim.Defender) {
			d.Set = foreignExclusions().And(desired.Exclusions{Paths: r.Desired.Exclusions.Paths[:1]})
		})
		time.Sleep(daemontest.AfterServiceCheck)
		if missing := r.Desired.Exclusions.Without(w.Defender().Set); !missing.IsEmpty() {
			t.Errorf("missing: %q", missing.List())
		}
	})
}

// TestForeignExclusionsAreKept: exclusions by a policy or an administrator are neither added nor removed.
func TestForeignExclusionsAreKept(t *testing.T) {
	w, r := withExclusions(t)
	all := r.Desired.Exclusions
	w.EditDefender(func(d *sim.Defender) {
		d.Set = desired.Exclusions{Processes: []string{"containerd.exe"}, Paths: []string{strings.ToUpper(all.Paths[0]) + `\`}}
		d.Policy = desired.Exclusions{Paths: []string{desired.ContainerdState}}
	})
	before := w.Defender()
	daemontest.MustJoin(t, w, r)
	daemontest.MustLeave(t, w, r.Cluster)
	if diff := cmp.Diff(before, w.Defender(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Defender before and after (-want +got):\n%s", diff)
	}
}

// TestHostWithoutDefenderJoins stops Defender's service. The host reports that once, and sets the exclusions when the service starts.
func TestHostWithoutDefenderJoins(t *testing.T) {
	w, r := withExclusions(t)
	w.EditDefender(func(d *sim.Defender) { d.Stopped = true })
	daemontest.MustJoin(t, w, r)
	synctest.Test(t, func(t *testing.T) {
		defer daemontest.StartRun(t, w.Host())()
		time.Sleep(10 * daemontest.AfterServiceCheck)
		if n := strings.Count(daemontest.Journal(t, w), "none: setting exclusions of Microsoft Defender: Microsoft Defender is not running"); n != 1 {
			t.Errorf("the journal records %d times that Defender is not running, want once:\n%s", n, daemontest.Journal(t, w))
		}
		w.EditDefender(func(d *sim.Defender) { d.Stopped = false })
		time.Sleep(daemontest.AfterServiceCheck)
		expectExclusions(t, w, foreignExclusions().And(r.Desired.Exclusions))
	})
}

// TestIneffectiveExclusionsAreReportedOnce: the host joins, and WICD's checks do not raise an alert each time.
func TestIneffectiveExclusionsAreReportedOnce(t *testing.T) {
	for name, test := range map[string]struct {
		edit    func(*sim.Defender)
		message string
		// writes is how often WICD may try to change exclusions within two days.
		writes int
		// interferes is true if Defender is known to scan what should be excluded.
		interferes bool
	}{
		"a policy overrides exclusions": {func(d *sim.Defender) { d.PolicyOnly = true }, "a policy or tamper protection overrides the added exclusions", 4, true},
		"access denied":                 {func(d *sim.Defender) { d.Refuses = errors.New("error 0x80070005") }, "0x80070005", 4, true},
		"another program scans":         {func(d *sim.Defender) { d.PolicyOnly, d.RealTimeOff = true, true }, "a policy or tamper protection overrides the added exclusions", 4, false},
		"a policy hides them":           {func(d *sim.Defender) { d.Hidden = true }, "a policy hides", 0, false},
		"Defender hangs":                {func(d *sim.Defender) { d.Hangs = true }, "no answer within 30s", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := daemontest.NewIsolated(t, "")
				node := m.Request.Desired
				node.Exclusions = exclusionsOf(node.Digest)
				m.Windows.EditDefender(test.edit)
				m.Follow(t, node)
				m.Windows.EditDefender(func(d *sim.Defender) { d.Writes = 0 })
				time.Sleep(48 * time.Hour)
				notes := m.Notes(api.EventDefenderExclusions)
				if len(notes) != 1 || !strings.Contains(notes[0], test.message) || !strings.Contains(notes[0], desired.ContainerdRoot) ||
					!strings.Contains(notes[0], "spec.runtime.defenderExclusions") {
					t.Errorf("the events are %q, want one with %q, the exclusions and the alternative", notes, test.message)
				}
				if n := m.Windows.Defender().Writes; n > test.writes {
					t.Errorf("exclusions were changed %d times in two days", n)
				}
				c := m.Condition(api.ConditionDefenderInterference)
				if ok := c.Status == corev1.ConditionTrue; ok != test.interferes || ok && (c.Reason != api.ReasonDefenderExclusionsMissing || c.Message != notes[0]) {
					t.Errorf("the condition is %+v, and Defender interferes: %v", c, test.interferes)
				}
				m.Windows.EditDefender(func(d *sim.Defender) { *d = sim.Defender{Policy: node.Exclusions} })
				time.Sleep(daemontest.AfterServiceCheck)
				if c := m.Condition(api.ConditionDefenderInterference); test.interferes && (c.Status != corev1.ConditionFalse || c.Reason != api.ReasonDefenderExclusionsInForce) {
					t.Errorf("after a policy has them, the condition is %+v", c)
				}
				m.Windows.EditDefender(func(d *sim.Defender) { *d = sim.Defender{Set: foreignExclusions()} })
				time.Sleep(daemontest.AfterServiceCheck)
				expectExclusions(t, m.Windows, foreignExclusions().And(node.Exclusions))
				if n := len(m.Notes(api.EventDefenderExclusions)); n != 1 {
					t.Errorf("there are %d events after exclusions could be set", n)
				}
			})
		})
	}
}

// TestLeaveReportsRemainingExclusions: the result names them, so that an administrator can remove them.
func TestLeaveReportsRemainingExclusions(t *testing.T) {
	for name, edit := range map[string]func(*sim.Defender){
		"access denied": func(d *sim.Defender) { d.Refuses = errors.New("error 0x80070005") },
		"stopped":       func(d *sim.Defender) { d.Stopped = true },
	} {
		t.Run(name, func(t *testing.T) {
			w, r := withExclusions(t)
			daemontest.MustJoin(t, w, r)
			w.EditDefender(edit)
			result := daemontest.MustLeave(t, w, r.Cluster)
			if len(result.Remains) != 1 || !strings.Contains(result.Remains[0], desired.ContainerdRoot) {
				t.Errorf("remains %q, want the exclusions", result.Remains)
			}
		})
	}
}

// TestLeaveRemovesHiddenExclusions: WICD has a record of those that it added.
func TestLeaveRemovesHiddenExclusions(t *testing.T) {
	w, r := withExclusions(t)
	daemontest.MustJoin(t, w, r)
	w.EditDefender(func(d *sim.Defender) { d.Hidden = true })
	if result := daemontest.MustLeave(t, w, r.Cluster); len(result.Remains) > 0 {
		t.Errorf("remains %q", result.Remains)
	}
	expectExclusions(t, w, foreignExclusions())
}

func TestExclusionsSurviveUnreadableRecord(t *testing.T) {
	w, r := withExclusions(t)
	daemontest.MustJoin(t, w, r)
	daemontest.MustWrite(t, w.Disk(), desired.State+`\exclusions.json`, "{")
	daemontest.MustJoin(t, w, r)
	daemontest.MustLeave(t, w, r.Cluster)
	expectExclusions(t, w, foreignExclusions().And(r.Desired.Exclusions))
}
