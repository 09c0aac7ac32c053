package storytest

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
)

// blocker is a reason why hosts wait with the previous version.
type blocker struct {
	rollout v1alpha1.RolloutSpec
	begin   func(*story)
	end     func(*story)
}

func blockers() map[string]blocker {
	soaking := withCanary(1)
	soaking.Canary.Soak = "2h"
	pause := func(paused bool) func(*story) {
		return func(s *story) { s.configure(func(c *v1alpha1.WindowsConfigSpec) { c.Rollout.Paused = paused }) }
	}
	cordon := func(unschedulable bool) func(*story) {
		return func(s *story) {
			node := s.node("win-2")
			node.Spec.Unschedulable = unschedulable
			s.must(s.client.Update(s.ctx, node))
		}
	}
	return map[string]blocker{
		"the canary soaks": {soaking, func(s *story) {
			s.settled(1)
			s.until("the first has the version", time.Hour, func() bool { return s.at(s.version) == 1 })
		}, func(*story) {}},
		"the rollout is stopped": {atMost(1), func(s *story) { s.firstFails(1) }, func(s *story) {
			s.hosts[0].refuses = ""
			s.annotate("win-1", api.AnnotationRetry, "true")
		}},
		"the budget is used up": {atMost(1), func(s *story) { s.settled(1); cordon(true)(s) }, cordon(false)},
		"all is paused":         {atMost(1), func(s *story) { s.settled(1); pause(true)(s) }, pause(false)},
	}
}

// TestStoryNodeWithoutVersionKeepsCurrentOne: a Node without a desired version formerly got the operator's version at once, with its pods running and
// regardless of what the rollout waited for.
func TestStoryNodeWithoutVersionKeepsCurrentOne(t *testing.T) {
	ways := map[string]func(*story, *storyHost){
		"somebody removes the annotation": func(s *story, h *storyHost) {
			node := s.node(h.name)
			before := node.DeepCopy()
			delete(node.Annotations, api.AnnotationDesiredVersion)
			s.must(s.client.Patch(s.ctx, node, client.MergeFrom(before)))
		},
		"the Node is made anew": func(s *story, h *storyHost) {
			h.off = true
			s.must(s.client.Delete(s.ctx, s.node(h.name)))
			s.pass(2 * time.Minute)
			h.off, h.bootID = false, h.bootID+1
			s.tick()
		},
	}
	for reason, hold := range blockers() {
		for way, lose := range ways {
			for _, older := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, older WICD %v", reason, way, older), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						s := newStory(t, 3, hold.rollout)
						for _, host := range s.hosts {
							host.acceptsAnyOrder = older
						}
						hold.begin(s)
						h := s.lastWaiting(oldVersion)
						joins := h.joins
						lose(s, h)
						// A host whose Node does not come back is joined again, with the operator's version: it has no pods.
						for began := time.Now(); time.Since(began) < time.Hour && h.joins == joins; s.tick() {
							node := s.node(h.name)
							if target := node.Annotations[api.AnnotationDesiredVersion]; h.version != oldVersion || target != oldVersion && target != "" || node.Spec.Unschedulable {
								t.Fatalf("after %s, it has version %s and is to have %q; cordoned: %v", time.Since(began), h.version, target, node.Spec.Unschedulable)
							}
						}
						if target := s.node(h.name).Annotations[api.AnnotationDesiredVersion]; target != oldVersion && h.joins == joins {
							t.Errorf("the ordered version is %q, want the reported one", target)
						}
						hold.end(s)
						s.until("all have the version", 6*time.Hour, func() bool { return s.at(s.version) == 3 })
						s.mustBeQuiet()
					})
				})
			}
		}
	}
}

// lastWaiting returns the last host with a version whose node is not cordoned.
func (s *story) lastWaiting(version string) *storyHost {
	s.t.Helper()
	for _, h := range slices.Backward(s.hosts) {
		if h.version == version && !s.node(h.name).Spec.Unschedulable {
			return h
		}
	}
	s.t.Fatalf("no host waits with version %s", version)
	return nil
}

// TestStoryOldKeyStaysUntilNewIsProven: a Node that did not report which SSH key its host accepts was formerly annotated with the current one.
// WICD then removed the previous key, the last one with which the host could be reached.
func TestStoryOldKeyStaysUntilNewIsProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, 1, atMost(1))
		s.settled(0)
		s.until("it has the version", time.Hour, func() bool { return s.at(s.version) == 1 })
		h, former, present := s.hosts[0], s.line(0), s.line(1)
		h.ignores = present
		s.rotate(1)
		s.until("WICD authorizes the current key", time.Hour, func() bool { return slices.Contains(h.keys, present) })
		s.must(s.client.Delete(s.ctx, s.node("win-1")))
		s.pass(time.Hour)
		if hash := s.node("win-1").Annotations[api.AnnotationPubKeyHash]; hash != "" || !slices.Contains(h.keys, former) {
			t.Errorf("the Node has pub-key-hash %q, and the host has %d keys", hash, len(h.keys))
		}
		h.ignores = ""
		s.until("the previous key is removed", time.Hour, func() bool { return slices.Equal(h.keys, []string{present}) })
	})
}

// TestStoryWICDReportsAfterKubelet: after a restart, the Node reports the pending restart of the previous boot until WICD has checked, together
// with that boot's ID.
func TestStoryWICDReportsAfterKubelet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, 1, atMost(1))
		h := s.hosts[0]
		h.late = 30 * time.Second
		h.pendingRestart = func() string {
			if h.bootID == 1 {
				return "updates are installed"
			}
			return ""
		}
		s.reasons[api.EventRebootPending] = true
		s.announce(s.hosts...)
		s.until("Windows waits for a restart", time.Hour, func() bool {
			return s.ready() == 1 && rollout.NodeOf(s.node("win-1")).RebootPending != ""
		})
		before := h.boot()
		s.requestReboot("win-1")
		s.until("the kubelet works after the restart", time.Hour, func() bool { return rollout.NodeOf(s.node("win-1")).BootID != before })
		if n := rollout.NodeOf(s.node("win-1")); n.ReportedBoot != before || n.RebootPending == "" {
			t.Errorf("before WICD has checked, the Node reports boot %q and pending restart %q", n.ReportedBoot, n.RebootPending)
		}
		s.until("WICD has checked the host", time.Hour, func() bool { return rollout.NodeOf(s.node("win-1")).ReportedBoot != before })
		if n := rollout.NodeOf(s.node("win-1")); n.ReportedBoot != h.boot() || n.RebootPending != "" {
			t.Errorf("after WICD has checked, the Node reports boot %q and pending restart %q", n.ReportedBoot, n.RebootPending)
		}
	})
}

// TestStoryInvalidVersionIsNotRestored: a Node reports its own version. An invalid one is not recorded, and not ordered when the upgrade fails.
func TestStoryInvalidVersionIsNotRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, 1, v1alpha1.RolloutSpec{})
		s.settled(1)
		s.hosts[0].version, s.hosts[0].refuses = "No Version", s.version
		s.until("an upgrade has failed", 3*time.Hour, func() bool {
			i := s.instance("win-1")
			if m := i.Status.Maintenance; m != nil && m.PreviousVersion != "" {
				t.Fatalf("the version before is %q", m.PreviousVersion)
			}
			return i.Status.Failure != nil
		})
		if got := s.node("win-1").Annotations[api.AnnotationDesiredVersion]; got != s.version {
			t.Errorf("the Node is to have version %q, want %q", got, s.version)
		}
	})
}
