package storytest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// If another node does not work either, the update may not be the cause, and stays.
func TestUpdateStaysIfOtherNodesDoNotWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, 3, atMost(1))
		s.withoutQuirks("hosts are compared at times")
		s.upgraded(1)
		s.configure(func(c *v1alpha1.WindowsConfigSpec) {
			c.WindowsUpdates = v1alpha1.WindowsUpdatesSpec{Policy: v1alpha1.UpdatesInstall, Rollback: v1alpha1.UpdateRollbackUninstall}
		})
		s.publish("KB5070001", false)
		s.until("win-1 installs it", time.Hour, func() bool { return s.hosts[0].updates.order != nil })
		for _, h := range s.hosts {
			h.serviceFault = "the monitoring of the cluster is down"
		}
		s.until("it has failed", 3*time.Hour, func() bool { return s.instance("win-1").Status.Failure != nil })
		s.pass(24 * time.Hour)
		f := s.instance("win-1").Status.Failure
		if s.have("KB5070001") != 1 || s.hosts[0].updates.undoing != "" || !strings.Contains(f.Message, "it may not be the cause: node win-2 does not work either") {
			t.Errorf("the failure is %+v, and the order undoes %q", f, s.hosts[0].updates.undoing)
		}
	})
}

// A host whose own policy installs an update and restarts is not patched again, and neither is one whose WSUS withdraws its approval. Neither counts
// as a failure.
func TestUpdatesThatOthersInstallOrWithdraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, 3, atMost(1))
		s.withoutQuirks("restarts are counted")
		s.upgraded(1)
		s.installsUpdates()
		s.publish("KB5070001", false)
		s.until("win-1 installs it", time.Hour, func() bool { return s.hosts[0].updates.order != nil })
		own, withdrawn := s.hosts[1], s.hosts[2]
		own.updates.offers, own.updates.installed = nil, []string{"KB5070001"}
		own.restartItself()
		withdrawn.updates.offers = nil
		s.until("win-1 has it", 3*time.Hour, func() bool { return s.have("KB5070001") == 2 && s.ready() == 3 })
		s.pass(24 * time.Hour)
		for _, h := range []*storyHost{own, withdrawn} {
			i := s.instance(h.name)
			if h.updates.order != nil || i.Status.Failure != nil || i.Status.Plan != nil || s.node(h.name).Spec.Unschedulable {
				t.Errorf("%s: order %+v, failure %+v, plan %+v", h.name, h.updates.order, i.Status.Failure, i.Status.Plan)
			}
		}
		if own.boot() != "2" || withdrawn.boot() != "1" {
			t.Errorf("boots %s and %s, want the own restart only", own.boot(), withdrawn.boot())
		}
	})
}
