package nodestatus_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

const (
	// afterFirstQuery is longer than the longest pause of a session before it queries the Windows Update Agent, with the time that it may take.
	afterFirstQuery = 21 * time.Minute
	// afterNextQuery is longer than the longest pause between queries, with that time.
	afterNextQuery = 13 * time.Hour
)

// queryAgain restarts WICD on a host that has forgotten its last report.
func queryAgain(t *testing.T, m *daemontest.Member) {
	t.Helper()
	m.Stop()
	if err := m.Windows.Host().Disk.Remove(desired.WindowsUpdatesFile); err != nil {
		t.Fatal(err)
	}
	m.Start(t)
	time.Sleep(afterFirstQuery)
}

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
		time.Sleep(afterFirstQuery)
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

// TestUserCanRequestSearch annotates the Node: each request is served once, also over a restart of WICD.
func TestUserCanRequestSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, "")
		time.Sleep(afterFirstQuery)
		request := func(value string) {
			m.Cluster.Patch(daemontest.NodePath, map[string]any{"metadata": map[string]any{"annotations": map[string]any{api.AnnotationSearchUpdates: value}}})
		}
		for _, step := range []struct {
			what    string
			request string
			fails   error
			queried int
		}{
			{"a request", time.Now().Format(time.RFC3339Nano), nil, 1},
			{"a second one, to an agent that fails", time.Now().Add(time.Minute).Format(time.RFC3339), errors.New("no agent"), 1},
			{"one from before the last query", time.Now().Add(30 * time.Second).Format(time.RFC3339), nil, 0},
			{"one of the distant future", time.Now().AddDate(1, 0, 0).Format(time.RFC3339), nil, 0},
			{"no time", "now", nil, 0},
			{"a request after them", time.Now().Add(5 * time.Minute).Format(time.RFC3339), nil, 1},
		} {
			m.Windows.EditUpdates(func(u *sim.Updates) { u.Fails = step.fails })
			before := m.Windows.Updates().Asked
			request(step.request)
			time.Sleep(time.Minute)
			if n := m.Windows.Updates().Asked - before; n != step.queried {
				t.Errorf("%s (%s): the agent was queried %d times, want %d", step.what, step.request, n, step.queried)
			}
		}
		before := m.Windows.Updates().Asked
		m.Stop()
		m.Start(t)
		time.Sleep(afterFirstQuery)
		if n := m.Windows.Updates().Asked - before; n != 0 {
			t.Errorf("after a restart, the agent was queried %d times, want 0", n)
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
			queryAgain(t, m)
			c := m.Condition(api.ConditionUpdatesOverdue)
			if c.Status != step.status || c.Reason != step.reason || !strings.Contains(c.Message, step.message) {
				t.Errorf("%s: the condition is %+v; want %s, %s, %q", step.what, c, step.status, step.reason, step.message)
			}
			if isOverdue := strings.Contains(mustMetrics(t, m), "\nwicd_windows_updates_overdue 1\n"); isOverdue != (step.status == corev1.ConditionTrue) {
				t.Errorf("%s: the metric says that updates are overdue: %v", step.what, isOverdue)
			}
		}
		if n := len(m.Notes(api.EventUpdatesOverdue)); n != 1 {
			t.Errorf("%d events, want 1", n)
		}
	})
}

func TestRevisionBelowMinimumIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, "")
		build, revision, err := m.Windows.Host().Inventory.Version(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, lowest := range []int{revision + 1, revision} {
			node := m.Changed()
			node.UpdateGoal.Revisions = map[string]int{strconv.Itoa(build): lowest}
			m.Follow(t, node)
			queryAgain(t, m)
			want := corev1.ConditionFalse
			if lowest > revision {
				want = corev1.ConditionTrue
			}
			if c := m.Condition(api.ConditionUpdatesOverdue); c.Status != want || want == corev1.ConditionTrue && c.Reason != api.ReasonRevisionTooLow {
				t.Errorf("with a minimum of %d and revision %d, the condition is %+v", lowest, revision, c)
			}
		}
		if n := len(m.Notes(api.EventRevisionTooLow)); n != 1 {
			t.Errorf("%d events, want 1", n)
		}
	})
}

// TestAgentWithQuirksIsReported has an agent that fails, hangs, or answers nonsense. Doubt is no problem of the host.
func TestAgentWithQuirksIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, "")
		for name, test := range map[string]struct {
			edit    func(u *sim.Updates)
			blocked string
		}{
			"fails":    {func(u *sim.Updates) { u.Fails = errors.New("no process\x1b[31m") }, `no process\x1b[31m`},
			"hangs":    {func(u *sim.Updates) { u.Hangs = true }, "did not answer in time"},
			"is busy":  {func(u *sim.Updates) { u.Takes = 11 * time.Minute }, "did not answer in time"},
			"panics":   {func(u *sim.Updates) { u.Output = "panic: runtime error" }, "parsing the report about updates"},
			"is large": {func(u *sim.Updates) { u.Output = strings.Repeat("x", 2<<20) }, "at most"},
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
			m.Windows.EditUpdates(func(u *sim.Updates) { *u = sim.Updates{}; test.edit(u) })
			queryAgain(t, m)
			if s := mustSummary(t, m); !strings.Contains(s.Blocked, test.blocked) {
				t.Errorf("when the agent %s, the summary is %s, want %q", name, s.Format(), test.blocked)
			}
			if c := m.Condition(api.ConditionUpdatesOverdue); c.Status != "" {
				t.Errorf("when the agent %s, the condition is %+v", name, c)
			}
		}
	})
}

// TestFailureKeepsProblem: without a report, WICD does not know whether the problem that the Node reports has ended.
func TestFailureKeepsProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, "")
		m.Windows.EditUpdates(func(u *sim.Updates) { u.Edit = func(r *windowsupdate.Report) { r.Disabled = true } })
		queryAgain(t, m)
		m.Windows.EditUpdates(func(u *sim.Updates) { u.Hangs = true })
		queryAgain(t, m)
		if c := m.Condition(api.ConditionUpdatesOverdue); c.Status != corev1.ConditionTrue || c.Reason != api.ReasonUpdateServiceDisabled {
			t.Errorf("after a failure, the condition is %+v", c)
		}
		if s := mustSummary(t, m); !strings.Contains(s.Blocked, "did not answer in time") {
			t.Errorf("the summary is %s", s.Format())
		}
	})
}

// TestLastReportStaysAfterFailure: a failure is reported with what was known before it, and forgotten with the next answer.
func TestLastReportStaysAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, "")
		time.Sleep(afterFirstQuery)
		m.Windows.EditUpdates(func(u *sim.Updates) { u.Hangs = true })
		time.Sleep(afterNextQuery)
		if s := mustSummary(t, m); !strings.Contains(s.Blocked, "did not answer in time") || s.KB != "KB5068787" {
			t.Errorf("while the agent hangs, the summary is %s", s.Format())
		}
		m.Windows.EditUpdates(func(u *sim.Updates) { u.Hangs = false })
		time.Sleep(2 * time.Hour) // failures are retried earlier
		if s := mustSummary(t, m); s.Blocked != "" || s.KB != "KB5068787" {
			t.Errorf("after it, the summary is %s", s.Format())
		}
	})
}

// TestAgentIsQueriedRarely: a new session, as after a restart of WICD or with new settings, does not query it earlier.
func TestAgentIsQueriedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := daemontest.NewNode(t, sim.WindowsOptions{})
		record, err := state.Read(w.Host().Disk)
		if err != nil {
			t.Fatal(err)
		}
		session := state.Session{Host: w.Host(), Record: record, Log: slog.New(slog.DiscardHandler)}
		for hour := range 30 * 24 {
			ctx, end := context.WithCancel(t.Context())
			var work sync.WaitGroup
			work.Go(func() {
				nodestatus.NewWindowsUpdates(session, state.NewSignal(), &nodestatus.Metrics{Session: session}).Run(ctx)
			})
			time.Sleep(time.Hour)
			end()
			work.Wait()
			if n := w.Updates().Asked; hour == 0 && n != 1 {
				t.Errorf("in the first hour, the agent was queried %d times, want 1", n)
			}
		}
		if n := w.Updates().Asked; n < 60 || n > 95 {
			t.Errorf("in 30 days with a restart each hour, the agent was queried %d times, want about 90", n)
		}
	})
}

func TestUnmanagedHostIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewFollower(t, daemontest.Options{Heartbeat: 5 * time.Minute})
		m.Windows.EditUpdates(func(u *sim.Updates) { u.Edit = func(r *windowsupdate.Report) { r.Disabled = true } })
		time.Sleep(afterFirstQuery)
		if c := m.Condition(api.ConditionUpdatesOverdue); c.Status != corev1.ConditionTrue {
			t.Fatalf("with a disabled service, the condition is %+v", c)
		}
		node := m.Changed()
		node.WindowsUpdates = desired.UpdatesUnmanaged
		m.Follow(t, node)
		queried := m.Windows.Updates().Asked
		time.Sleep(afterNextQuery)
		if n := m.Windows.Updates().Asked; n != queried {
			t.Errorf("the agent was queried %d times", n-queried)
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
