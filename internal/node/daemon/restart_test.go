package daemon_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

// expectRestart checks the node's condition for a pending restart, and the number of its events.
func (m *isolated) expectRestart(t *testing.T, when string, status corev1.ConditionStatus, reason string, events int) corev1.NodeCondition {
	t.Helper()
	c := m.conditionOf(api.ConditionNodeRebootRequired)
	reported := 0
	for _, e := range m.events() {
		if e.Reason == api.EventRebootPending && e.Regarding.Name == "win-1" {
			reported++
		}
	}
	if c.Status != status || c.Reason != reason || reported != events {
		t.Errorf("%s: status %q, reason %q, %d events; want %q, %q, %d", when, c.Status, c.Reason, reported, status, reason, events)
	}
	return c
}

func TestPendingRestartIsReportedOnNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newIsolatedOn(t, func(*servers.Cluster) {}, "the test says what Windows waits for")
		look := restartLook + time.Second
		time.Sleep(look)
		m.expectRestart(t, "at first", "", "", 0)
		m.windows.WaitFor("updates are installed (Windows Update)", "files in use wait for their replacement (PendingFileRenameOperations)")
		time.Sleep(look)
		c := m.expectRestart(t, "after updates", corev1.ConditionTrue, api.ReasonRebootPending, 1)
		if !strings.Contains(c.Message, "Windows Update") || !strings.Contains(c.Message, "PendingFileRenameOperations") {
			t.Errorf("the message is %q", c.Message)
		}
		patches := m.cluster.Count(http.MethodPatch, nodePath+"/status")
		time.Sleep(10 * look)
		if n := m.cluster.Count(http.MethodPatch, nodePath+"/status") - patches; n > 0 {
			t.Errorf("the status was patched %d times although nothing changed", n)
		}
		m.stop()
		m.start(t)
		time.Sleep(look)
		m.expectRestart(t, "when WICD began again", corev1.ConditionTrue, api.ReasonRebootPending, 1)
		m.windows.WaitFor("features or updates are half installed (Component Based Servicing)")
		time.Sleep(look)
		now := m.expectRestart(t, "for another reason", corev1.ConditionTrue, api.ReasonRebootPending, 1)
		if !strings.Contains(now.Message, "Component Based Servicing") || !now.LastTransitionTime.Equal(&c.LastTransitionTime) {
			t.Errorf("the condition is %+v", now)
		}
		m.windows.WaitFor()
		time.Sleep(look)
		m.expectRestart(t, "after the restart", corev1.ConditionFalse, api.ReasonNoRebootPending, 1)
		m.windows.WaitFor("updates are installed (Windows Update)")
		time.Sleep(look)
		m.expectRestart(t, "after further updates", corev1.ConditionTrue, api.ReasonRebootPending, 2)
	})
}

// restartLook is how often pending restarts are checked.
const restartLook = 10 * time.Minute

// A restart that became pending while WICD did not run is reported as soon as WICD starts.
func TestPendingRestartIsReportedAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newIsolatedOn(t, func(*servers.Cluster) {}, "the test says what Windows waits for")
		m.stop()
		m.windows.WaitFor("updates are installed (Windows Update)")
		m.start(t)
		time.Sleep(time.Minute)
		m.expectRestart(t, "a minute later", corev1.ConditionTrue, api.ReasonRebootPending, 1)
	})
}

// TestRestartConditionNamesBootID: after a restart, the kubelet may be Ready before WICD's first check. Until then, the condition belongs to the
// previous boot.
func TestRestartConditionNamesBootID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newIsolatedOn(t, func(*servers.Cluster) {}, "the test says what Windows waits for")
		look := restartLook + time.Second
		expect := func(when, boot string, status corev1.ConditionStatus) {
			t.Helper()
			got := m.node().Annotations[api.AnnotationBootID]
			if c := m.conditionOf(api.ConditionNodeRebootRequired); got != boot || c.Status != status {
				t.Errorf("%s: the condition is %q of boot %q, want %q of %q", when, c.Status, got, status, boot)
			}
		}
		time.Sleep(look)
		first := m.windows.BootID()
		expect("at first", first, "")
		m.windows.WaitFor("updates are installed (Windows Update)")
		time.Sleep(look)
		expect("after updates", first, corev1.ConditionTrue)
		m.cluster.Forbid("system:wicd-node:win-1", http.MethodPatch, nodePath+"/status")
		m.restart(t)
		second := m.windows.BootID()
		if second == first {
			t.Fatal("the host did not restart")
		}
		expect("while the condition cannot be written", first, corev1.ConditionTrue)
		m.cluster.Permit()
		time.Sleep(look)
		expect("after the restart", second, corev1.ConditionFalse)
		patches := m.cluster.Count(http.MethodPatch, nodePath)
		time.Sleep(10 * look)
		if n := m.cluster.Count(http.MethodPatch, nodePath) - patches; n > 0 {
			t.Errorf("the Node was patched %d times although nothing changed", n)
		}
		m.cluster.Patch(nodePath, map[string]any{"metadata": map[string]any{"annotations": map[string]any{api.AnnotationBootID: "7"}}})
		time.Sleep(look)
		expect("after somebody else wrote it", second, corev1.ConditionFalse)
	})
}

// TestFilesThatWaitAtEachStartAreNoReasonToRestart: antivirus software, printers and browsers add entries to PendingFileRenameOperations at each
// start. Entries that replace a file justify one restart, those that remove one none.
func TestFilesThatWaitAtEachStartAreNoReasonToRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newIsolatedOn(t, func(*servers.Cluster) {}, "the test says what Windows waits for")
		look := restartLook + time.Second
		removed, replaced := []string{`\??\C:\Windows\tmp`, ""}, []string{`\??\C:\agent\new.dll`, `!\??\C:\agent\old.dll`}
		m.windows.RenameAtStart(removed...)
		time.Sleep(look)
		m.expectRestart(t, "when a file is removed with the next start", "", "", 0)
		m.windows.SetServicing(sim.ServicingQuirks{FileRenames: append(removed, replaced...)})
		m.windows.RenameAtStart(replaced...)
		time.Sleep(look)
		m.expectRestart(t, "when one is replaced", corev1.ConditionTrue, api.ReasonRebootPending, 1)
		for range 2 {
			m.restart(t)
			time.Sleep(look)
			m.expectRestart(t, "when it is there again after the restart", corev1.ConditionFalse, api.ReasonNoRebootPending, 1)
		}
		m.windows.RenameAtStart(`\??\C:\other\new.dll`, `\??\C:\other\old.dll`)
		time.Sleep(look)
		m.expectRestart(t, "when another one is replaced", corev1.ConditionTrue, api.ReasonRebootPending, 2)
	})
}

// TestWindowsThatCompletesItsServicingWaitsForNoRestart: until servicing is complete, Windows' mark of the previous pending restart remains.
func TestWindowsThatCompletesItsServicingWaitsForNoRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newIsolatedOn(t, func(*servers.Cluster) {}, "the test says what Windows waits for")
		time.Sleep(restartLook + time.Second)
		first := m.windows.BootID()
		m.windows.SetServicing(sim.ServicingQuirks{ServicingFor: 8 * time.Minute})
		m.restart(t)
		time.Sleep(5 * time.Minute)
		m.expectRestart(t, "while Windows is servicing", "", "", 0)
		if got := m.node().Annotations[api.AnnotationBootID]; got != first {
			t.Errorf("WICD speaks of boot %s already", got)
		}
		time.Sleep(4 * time.Minute)
		m.expectRestart(t, "afterwards", "", "", 0)
		if got := m.node().Annotations[api.AnnotationBootID]; got != m.windows.BootID() {
			t.Errorf("WICD speaks of boot %s still", got)
		}
		m.windows.SetServicing(sim.ServicingQuirks{ServicingFor: time.Hour})
		m.restart(t)
		time.Sleep(16 * time.Minute)
		m.expectRestart(t, "when servicing is stuck", corev1.ConditionTrue, api.ReasonRebootPending, 1)
	})
}
