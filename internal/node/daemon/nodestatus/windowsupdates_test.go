package nodestatus_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// afterUpdatesCheck is longer than the longest pause between questions to the Windows Update Agent, with the time that it may take.
const afterUpdatesCheck = 13 * time.Hour

// mustSummary returns the summary of the Node.
func mustSummary(t *testing.T, m *daemontest.Member) windowsupdate.Summary {
	t.Helper()
	s, err := windowsupdate.ParseSummary(m.Node().Annotations[api.AnnotationWindowsUpdates])
	if err != nil {
		t.Fatalf("the summary %q is invalid: %v", m.Node().Annotations[api.AnnotationWindowsUpdates], err)
	}
	return s
}

func mustMetrics(t *testing.T, m *daemontest.Member) string {
	t.Helper()
	text, err := m.Windows.Host().Disk.Read(desired.Metrics + `\wicd.prom`)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestUpdatesAreReportedOnNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, "")
		time.Sleep(afterUpdatesCheck)
		s := mustSummary(t, m)
		if s.Source != "Microsoft" || s.KB != "KB5068787" || s.Total == nil || *s.Total != 1 || s.Pending[windowsupdate.Definition] != 1 || s.Blocked != "" {
			t.Errorf("the summary is %s", s.Format())
		}
		if c := m.Condition(api.ConditionUpdatesOverdue); c.Status != "" {
			t.Errorf("the condition is %+v", c)
		}
		daemontest.ExpectContains(t, mustMetrics(t, m), `wicd_windows_updates_pending{class="definition"} 1`, `wicd_windows_updates_pending{class="security"} 0`,
			"wicd_windows_update_installed_timestamp_seconds 9", "wicd_windows_update_searched_timestamp_seconds 9", "wicd_windows_updates_overdue 0")
		text, err := m.Windows.Host().Disk.Read(desired.WindowsUpdatesFile)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := windowsupdate.Parse(text); err != nil || len(r.Pending) != 1 || len(r.History) != 2 {
			t.Errorf("the file has %+v, %v", r, err)
		}
	})
}

// TestOverdueUpdatesAreReportedOnce goes through the states of the condition.
func TestOverdueUpdatesAreReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, "")
		for _, step := range []struct {
			what    string
			edit    func(r *windowsupdate.Report)
			status  corev1.ConditionStatus
			reason  string
			message string
		}{
			{"at first", nil, "", "", ""},
			{"with an old update", func(r *windowsupdate.Report) { r.History[1].Date = r.Read.AddDate(0, 0, -50) },
				corev1.ConditionTrue, api.ReasonUpdatesOverdue, "KB5068787, was installed 50 days ago"},
			{"with an old search", func(r *windowsupdate.Report) { r.Searched = r.Read.AddDate(0, 0, -20) }, corev1.ConditionTrue, api.ReasonUpdateSearchOverdue, "20 days ago"},
			{"with a disabled service", func(r *windowsupdate.Report) { r.Disabled = true }, corev1.ConditionTrue, api.ReasonUpdateServiceDisabled, "wuauserv"},
			{"when all is well", nil, corev1.ConditionFalse, api.ReasonUpdatesNotOverdue, "recently"},
		} {
			m.Windows.EditUpdates(func(u *sim.Updates) { u.Edit = step.edit })
			time.Sleep(afterUpdatesCheck)
			c := m.Condition(api.ConditionUpdatesOverdue)
			if c.Status != step.status || c.Reason != step.reason || !strings.Contains(c.Message, step.message) {
				t.Errorf("%s: the condition is %+v; want %s, %s, %q", step.what, c, step.status, step.reason, step.message)
			}
			if isOverdue := strings.Contains(mustMetrics(t, m), "wicd_windows_updates_overdue 1"); isOverdue != (step.status == corev1.ConditionTrue) {
				t.Errorf("%s: the metric says that updates are overdue: %v", step.what, isOverdue)
			}
		}
		if n := len(m.Notes(api.EventUpdatesOverdue)); n != 1 {
			t.Errorf("%d events, want 1", n)
		}
	})
}

// TestUnkindAgentIsReported has an agent that fails, hangs, or answers nonsense. The last report stays, with its age.
func TestUnkindAgentIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		edit    func(u *sim.Updates)
		blocked string
	}{
		"fails":    {func(u *sim.Updates) { u.Fails = errors.New("no process\x1b[31m") }, `no process\x1b[31m`},
		"hangs":    {func(u *sim.Updates) { u.Hangs = true }, "did not answer in time"},
		"is busy":  {func(u *sim.Updates) { u.Takes = 11 * time.Minute }, "did not answer in time"},
		"panics":   {func(u *sim.Updates) { u.Output = "panic: runtime error" }, "parsing the report about updates"},
		"is large": {func(u *sim.Updates) { u.Output = strings.Repeat("x", 1<<20) }, "at most"},
		"is not reachable": {func(u *sim.Updates) {
			u.Edit = func(r *windowsupdate.Report) {
				r.Pending, r.Failures = nil, []windowsupdate.Failure{{Call: windowsupdate.CallPending, Code: 0x80240438}}
			}
		}, "no route or network connectivity"},
		"is absurd": {func(u *sim.Updates) {
			u.Edit = func(r *windowsupdate.Report) {
				r.Server, r.Total, r.Restart = strings.Repeat("x", 9999), -7, true
				r.Searched, r.Pending[0].Title = r.Read.AddDate(100, 0, 0), strings.Repeat("x", 10<<10)
			}
		}, "wait for a restart"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := daemontest.NewIsolated(t, "")
				time.Sleep(afterUpdatesCheck)
				m.Windows.EditUpdates(test.edit)
				time.Sleep(afterUpdatesCheck)
				s := mustSummary(t, m)
				if !strings.Contains(s.Blocked, test.blocked) || s.KB != "KB5068787" {
					t.Errorf("the summary is %s, want %q", s.Format(), test.blocked)
				}
				if c := m.Condition(api.ConditionUpdatesOverdue); c.Status != "" {
					t.Errorf("doubt became condition %+v", c)
				}
				m.Windows.EditUpdates(func(u *sim.Updates) { *u = sim.Updates{} })
				time.Sleep(afterUpdatesCheck)
				if s := mustSummary(t, m); s.Blocked != "" {
					t.Errorf("after it, the summary is %s", s.Format())
				}
			})
		})
	}
}

// TestAgentIsAskedRarely: neither a restart of WICD nor new settings make it ask earlier, and nothing is written while nothing changes.
func TestAgentIsAskedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, "")
		time.Sleep(11 * time.Minute)
		if n := m.Windows.Updates().Asked; n != 1 {
			t.Fatalf("the agent was asked %d times in the first minutes, want 1", n)
		}
		patches := m.Cluster.Count(http.MethodPatch, daemontest.NodePath)
		for range 6 {
			m.Stop()
			m.Start(t)
			time.Sleep(time.Hour)
		}
		if n := m.Windows.Updates().Asked; n != 1 {
			t.Errorf("with restarts of WICD, the agent was asked %d times, want 1", n)
		}
		if n := m.Cluster.Count(http.MethodPatch, daemontest.NodePath) - patches; n > 0 {
			t.Errorf("the Node was patched %d times although nothing changed", n)
		}
		daemontest.ExpectContains(t, mustMetrics(t, m), "wicd_windows_updates_overdue 0")
		time.Sleep(5 * 24 * time.Hour)
		if n := m.Windows.Updates().Asked; n < 9 || n > 17 {
			t.Errorf("in 5 days, the agent was asked %d times", n)
		}
	})
}

func TestUnmanagedHostIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewFollower(t, daemontest.Options{Heartbeat: 5 * time.Minute})
		m.Windows.EditUpdates(func(u *sim.Updates) { u.Edit = func(r *windowsupdate.Report) { r.Disabled = true } })
		time.Sleep(afterUpdatesCheck)
		if c := m.Condition(api.ConditionUpdatesOverdue); c.Status != corev1.ConditionTrue {
			t.Fatalf("with a disabled service, the condition is %+v", c)
		}
		node := m.Changed()
		node.WindowsUpdates = desired.UpdatesUnmanaged
		m.Follow(t, node)
		asked := m.Windows.Updates().Asked
		time.Sleep(3 * afterUpdatesCheck)
		if n := m.Windows.Updates().Asked; n != asked {
			t.Errorf("the agent was asked %d times", n-asked)
		}
		if c := m.Condition(api.ConditionUpdatesOverdue); c.Status != corev1.ConditionFalse || c.Reason != api.ReasonUpdatesUnmanaged {
			t.Errorf("the condition is %+v", c)
		}
		if text, found := m.Node().Annotations[api.AnnotationWindowsUpdates]; found {
			t.Errorf("the Node has summary %s", text)
		}
		if m.Windows.Host().Disk.Exists(desired.WindowsUpdatesFile) || strings.Contains(mustMetrics(t, m), "wicd_windows_update") {
			t.Error("a report remains")
		}
	})
}
