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
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// How long until a problem and its end are reported: WICD checks every minute.
const (
	problemReported = 5 * time.Minute // a check of a hanging service takes half a minute
	problemOver     = 8 * time.Minute
	// clockReported and clockOver are the same for the clock: two comparisons must agree, and without other requests one is made when a watch
	// restarts, every ten minutes at the latest.
	clockReported, clockOver = 22 * time.Minute, 22 * time.Minute
)

// problem is one kind of Windows problem, with the functions that simulate it.
type problem struct {
	condition      corev1.NodeConditionType
	reason         string
	works          string
	begin, end     func(*daemontest.Member)
	reported, over time.Duration
	contains       []string
	withService    string // an existing service of Windows
}

func problems() map[string]problem {
	hcs := func(got sim.HCS) func(*daemontest.Member) {
		return func(m *daemontest.Member) { m.Windows.SetHCS(got) }
	}
	clock := func(ahead time.Duration) func(*daemontest.Member) {
		return func(m *daemontest.Member) { m.Cluster.SetClock(ahead) }
	}
	return map[string]problem{
		"the Host Compute Service hangs": {
			condition: api.ConditionHostComputeUnavailable, reason: api.ReasonHCSUnavailable, works: api.ReasonHCSWorks, reported: problemReported, over: problemOver,
			begin: hcs(sim.HCS{Hangs: true}), end: hcs(sim.HCS{}), contains: []string{"deadline exceeded", "service vmcompute is Stopped"}, withService: "vmcompute",
		},
		"the Host Compute Service fails": {
			condition: api.ConditionHostComputeUnavailable, reason: api.ReasonHCSUnavailable, works: api.ReasonHCSWorks, reported: problemReported, over: problemOver,
			begin: hcs(sim.HCS{Fails: errors.New("error 0x80070422")}), end: hcs(sim.HCS{}), contains: []string{"0x80070422", "service vmcompute is Running"},
		},
		"memory is committed": {
			condition: api.ConditionCommitPressure, reason: api.ReasonCommitLimitNear, works: api.ReasonCommitAvailable, reported: problemReported, over: problemOver,
			begin: func(m *daemontest.Member) { m.Windows.Commit(19 << 30) }, end: func(m *daemontest.Member) { m.Windows.Commit(0) }, contains: []string{"20480 MiB of memory are committed"},
		},
		"Windows has a known fault": {
			condition: api.ConditionWindowsUpdateNeeded, reason: api.ReasonWindowsUpdateNeeded, works: api.ReasonWindowsUpToDate, reported: problemReported, over: problemOver,
			begin: func(m *daemontest.Member) { m.Windows.Update(2582) }, end: func(m *daemontest.Member) { m.Windows.Update(2762) }, contains: []string{"revision 2582", "install KB5044281"},
		},
		"an update of Windows was removed": {
			condition: api.ConditionWindowsUpdateNeeded, reason: api.ReasonWindowsUpdateNeeded, works: api.ReasonWindowsUpToDate, reported: problemReported, over: problemOver,
			begin: func(m *daemontest.Member) { m.Windows.Update(587) }, end: func(m *daemontest.Member) { m.Windows.Update(681) }, contains: []string{"revision 587", "install KB5012637"},
		},
		"the clock is behind": {
			condition: api.ConditionClockSkewed, reason: api.ReasonClockOutOfSync, works: api.ReasonClockInSync, reported: clockReported, over: clockOver,
			begin: clock(10 * time.Minute), end: clock(0), contains: []string{"the clock is 10m", "behind that of the API server", "service W32Time is Stopped"}, withService: "W32Time",
		},
		"the clock is ahead": {
			condition: api.ConditionClockSkewed, reason: api.ReasonClockOutOfSync, works: api.ReasonClockInSync, reported: clockReported, over: clockOver,
			begin: clock(-90 * time.Second), end: clock(-10 * time.Second), contains: []string{"the clock is 1m", "ahead of that of the API server", "service W32Time does not exist"},
		},
	}
}

func TestWindowsProblemIsReportedOnNode(t *testing.T) {
	for name, p := range problems() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := daemontest.NewIsolated(t, "one problem at a time")
				if p.withService != "" {
					daemontest.MustDeclare(t, m.Windows, desired.Service{Name: p.withService, Description: "Windows'", Command: `C:\Windows\System32\svchost.exe`})
				}
				time.Sleep(p.over)
				expectProblem(t, m, "at first", p, "", "", 0)
				p.begin(m)
				time.Sleep(p.reported)
				c := expectProblem(t, m, "when it has lasted", p, corev1.ConditionTrue, p.reason, 1)
				daemontest.ExpectContains(t, c.Message, p.contains...)
				expectMetric(t, m, p.condition, "1")
				patches := m.Cluster.Count(http.MethodPatch, daemontest.NodePath+"/status")
				time.Sleep(time.Hour)
				if n := m.Cluster.Count(http.MethodPatch, daemontest.NodePath+"/status") - patches; n > 60/5+1 { // those of the kubelet
					t.Errorf("the status was patched %d times although nothing changed", n)
				}
				m.Stop()
				m.Start(t)
				time.Sleep(p.reported)
				expectProblem(t, m, "when WICD began again", p, corev1.ConditionTrue, p.reason, 1)
				p.end(m)
				time.Sleep(p.over)
				expectProblem(t, m, "when it is over", p, corev1.ConditionFalse, p.works, 1)
				expectMetric(t, m, p.condition, "0")
			})
		})
	}
}

// expectProblem checks the node's condition for a problem, and the number of its events.
func expectProblem(t *testing.T, m *daemontest.Member, when string, p problem, status corev1.ConditionStatus, reason string, events int) corev1.NodeCondition {
	t.Helper()
	c := m.Condition(p.condition)
	if reported := len(m.Notes(p.reason)); c.Status != status || c.Reason != reason || reported != events {
		t.Errorf("%s: status %q, reason %q, %d events; want %q, %q, %d", when, c.Status, c.Reason, reported, status, reason, events)
	}
	for _, other := range m.Node().Status.Conditions {
		if other.Type != p.condition && strings.HasPrefix(string(other.Type), "Windows") && other.Type != api.ConditionServicesHealthy &&
			other.Type != api.ConditionWindowsNetworkUnavailable {
			t.Errorf("%s: there is also %+v", when, other)
		}
	}
	return c
}

func expectMetric(t *testing.T, m *daemontest.Member, condition corev1.NodeConditionType, value string) {
	t.Helper()
	time.Sleep(15 * time.Second)
	text, err := m.Windows.Disk().Read(daemontest.MetricsFile)
	if want := `wicd_node_problem{condition="` + string(condition) + `"} ` + value + "\n"; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("the metrics have no line %q, %v:\n%s", want, err, text)
	}
}

// TestTransientProblemIsNotReported: an administrator restarts the Host Compute Service, or a large build runs.
func TestTransientProblemIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, "")
		for range 5 {
			time.Sleep(3 * time.Minute)
			m.Windows.SetHCS(sim.HCS{Hangs: true})
			m.Windows.Commit(19 << 30)
			time.Sleep(90 * time.Second)
			m.Windows.SetHCS(sim.HCS{})
			m.Windows.Commit(0)
		}
		for _, c := range m.Node().Status.Conditions {
			if c.Type == api.ConditionHostComputeUnavailable || c.Type == api.ConditionCommitPressure {
				t.Errorf("the node has condition %+v", c)
			}
		}
	})
}

// TestCommittedMemoryNearItsLimitDoesNotFlap: the problem begins at 90 % and ends below 85 %.
func TestCommittedMemoryNearItsLimitDoesNotFlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, "")
		for _, step := range []struct {
			percent uint64
			want    corev1.ConditionStatus
		}{{89, ""}, {91, corev1.ConditionTrue}, {86, corev1.ConditionTrue}, {84, corev1.ConditionFalse}, {89, corev1.ConditionFalse}} {
			m.Windows.Commit(20<<30/100*step.percent - 1<<30)
			time.Sleep(problemOver)
			if c := m.Condition(api.ConditionCommitPressure); c.Status != step.want {
				t.Errorf("with %d %% committed, the condition is %q, want %q", step.percent, c.Status, step.want)
			}
		}
	})
}
