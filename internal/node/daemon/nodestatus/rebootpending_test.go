package nodestatus_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

const (
	// look is more than the interval between checks for a pending restart.
	look = 10*time.Minute + time.Second
	kind = "the test sets what Windows waits for"
)

// expectRestart checks the node's condition for a pending restart, and the number of its events.
func expectRestart(t *testing.T, m *daemontest.Member, when string, status corev1.ConditionStatus, reason string, events int) corev1.NodeCondition {
	t.Helper()
	c := m.Condition(api.ConditionNodeRebootRequired)
	reported := len(m.Notes(api.EventRebootPending))
	if c.Status != status || c.Reason != reason || reported != events {
		t.Errorf("%s: status %q, reason %q, %d events; want %q, %q, %d", when, c.Status, c.Reason, reported, status, reason, events)
	}
	return c
}

func TestPendingRestartIsReportedOnNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, kind)
		time.Sleep(look)
		expectRestart(t, m, "at first", "", "", 0)
		m.Windows.WaitFor("updates are installed (Windows Update)", "files in use wait for their replacement (PendingFileRenameOperations)")
		time.Sleep(look)
		c := expectRestart(t, m, "after updates", corev1.ConditionTrue, api.ReasonRebootPending, 1)
		daemontest.ExpectContains(t, c.Message, "Windows Update", "PendingFileRenameOperations")
		patches := m.Cluster.Count(http.MethodPatch, daemontest.NodePath+"/status")
		time.Sleep(10 * look)
		if n := m.Cluster.Count(http.MethodPatch, daemontest.NodePath+"/status") - patches; n > 0 {
			t.Errorf("the status was patched %d times although nothing changed", n)
		}
		m.Stop()
		m.Start(t)
		time.Sleep(look)
		expectRestart(t, m, "when WICD began again", corev1.ConditionTrue, api.ReasonRebootPending, 1)
		m.Windows.WaitFor("features or updates are half installed (Component Based Servicing)")
		time.Sleep(look)
		now := expectRestart(t, m, "for another reason", corev1.ConditionTrue, api.ReasonRebootPending, 1)
		if !strings.Contains(now.Message, "Component Based Servicing") || !now.LastTransitionTime.Equal(&c.LastTransitionTime) {
			t.Errorf("the condition is %+v", now)
		}
		m.Windows.WaitFor()
		time.Sleep(look)
		expectRestart(t, m, "after the restart", corev1.ConditionFalse, api.ReasonNoRebootPending, 1)
		m.Windows.WaitFor("updates are installed (Windows Update)")
		time.Sleep(look)
		expectRestart(t, m, "after further updates", corev1.ConditionTrue, api.ReasonRebootPending, 2)
	})
}

// A restart that became pending while WICD did not run is reported as soon as WICD starts.
func TestPendingRestartIsReportedAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, kind)
		m.Stop()
		m.Windows.WaitFor("updates are installed (Windows Update)")
		m.Start(t)
		time.Sleep(time.Minute)
		expectRestart(t, m, "a minute later", corev1.ConditionTrue, api.ReasonRebootPending, 1)
	})
}

// TestRestartConditionNamesBootID: after a restart, the kubelet may be Ready before WICD's first check. Until then, the condition belongs to the
// previous boot.
func TestRestartConditionNamesBootID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, kind)
		expect := func(when, boot string, status corev1.ConditionStatus) {
			t.Helper()
			got := m.Node().Annotations[api.AnnotationBootID]
			if c := m.Condition(api.ConditionNodeRebootRequired); got != boot || c.Status != status {
				t.Errorf("%s: the condition is %q of boot %q, want %q of %q", when, c.Status, got, status, boot)
			}
		}
		time.Sleep(look)
		first := m.Windows.BootID()
		expect("at first", first, "")
		m.Windows.WaitFor("updates are installed (Windows Update)")
		time.Sleep(look)
		expect("after updates", first, corev1.ConditionTrue)
		m.Cluster.Forbid("system:wicd-node:win-1", http.MethodPatch, daemontest.NodePath+"/status")
		m.Restart(t)
		second := m.Windows.BootID()
		if second == first {
			t.Fatal("the host did not restart")
		}
		expect("while the condition cannot be written", first, corev1.ConditionTrue)
		m.Cluster.Permit()
		time.Sleep(look)
		expect("after the restart", second, corev1.ConditionFalse)
		patches := m.Cluster.Count(http.MethodPatch, daemontest.NodePath)
		time.Sleep(10 * look)
		if n := m.Cluster.Count(http.MethodPatch, daemontest.NodePath) - patches; n > 0 {
			t.Errorf("the Node was patched %d times although nothing changed", n)
		}
		m.Annotate(map[string]any{api.AnnotationBootID: "7"})
		time.Sleep(look)
		expect("after another writer changed it", second, corev1.ConditionFalse)
	})
}

// TestRecurringReplacementsNeedNoRestart: antivirus software, printers and browsers add entries to PendingFileRenameOperations at each
// start. Entries that replace a file justify one restart, those that remove one none.
func TestRecurringReplacementsNeedNoRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, kind)
		removed, replaced := []string{`\??\C:\Windows\tmp`, ""}, []string{`\??\C:\agent\new.dll`, `!\??\C:\agent\old.dll`}
		m.Windows.RenameAtStart(removed...)
		time.Sleep(look)
		expectRestart(t, m, "when a file is removed with the next start", "", "", 0)
		m.Windows.SetServicing(sim.ServicingQuirks{FileRenames: append(removed, replaced...)})
		m.Windows.RenameAtStart(replaced...)
		time.Sleep(look)
		expectRestart(t, m, "when one is replaced", corev1.ConditionTrue, api.ReasonRebootPending, 1)
		for range 2 {
			m.Restart(t)
			time.Sleep(look)
			expectRestart(t, m, "when it is restored after the restart", corev1.ConditionFalse, api.ReasonNoRebootPending, 1)
		}
		m.Windows.RenameAtStart(`\??\C:\other\new.dll`, `\??\C:\other\old.dll`)
		time.Sleep(look)
		expectRestart(t, m, "when another one is replaced", corev1.ConditionTrue, api.ReasonRebootPending, 2)
	})
}

// TestServicingAfterStartIsNoPendingRestart: until servicing is complete, Windows' mark of the previous pending restart remains.
func TestServicingAfterStartIsNoPendingRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, kind)
		time.Sleep(look)
		first := m.Windows.BootID()
		m.Windows.SetServicing(sim.ServicingQuirks{ServicingFor: 8 * time.Minute})
		m.Restart(t)
		time.Sleep(5 * time.Minute)
		expectRestart(t, m, "while Windows is servicing", "", "", 0)
		if got := m.Node().Annotations[api.AnnotationBootID]; got != first {
			t.Errorf("WICD already reports boot %s", got)
		}
		time.Sleep(4 * time.Minute)
		expectRestart(t, m, "afterwards", "", "", 0)
		if got := m.Node().Annotations[api.AnnotationBootID]; got != m.Windows.BootID() {
			t.Errorf("WICD still reports boot %s", got)
		}
		m.Windows.SetServicing(sim.ServicingQuirks{ServicingFor: time.Hour})
		m.Restart(t)
		time.Sleep(16 * time.Minute)
		expectRestart(t, m, "when servicing is stuck", corev1.ConditionTrue, api.ReasonRebootPending, 1)
	})
}
