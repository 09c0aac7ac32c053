package storytest

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// replaceWith sets spec.replaceWith as a user does; an empty name removes it.
func (s *story) replaceWith(name, other string) {
	s.t.Helper()
	i := s.instance(name)
	i.Spec.ReplaceWith = other
	i.Generation++
	s.must(s.client.Update(s.ctx, i))
	s.record("the user sets replaceWith of %s to %q", name, other)
}

// replacementDrains joins all hosts and replaces win-1 with win-2, until win-1 is drained of a pod that its budget holds.
func (s *story) replacementDrains() {
	s.t.Helper()
	s.joined()
	s.addPod("win-1", "web")
	s.budgets["web"] = 0
	s.replaceWith("win-1", "win-2")
	s.until("win-1 is drained", time.Hour, func() bool { return s.node("win-1").Spec.Unschedulable })
}

// TestStoryReplacedHost: a new host takes the place of an old one. A pod that would find no other node holds it; the old host then leaves, and does not
// come back although its WindowsInstance is applied again.
func TestStoryReplacedHost(t *testing.T) {
	runStory(t, "replaced-host", 2, atMost(1), func(s *story) {
		s.announce(s.hosts[0])
		s.until("win-1 is a node", time.Hour, func() bool { return s.ready() == 1 })
		s.addPod("win-1", "web")
		s.addPod("win-1", "pinned", func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"disk": "fast"} })
		s.replaceWith("win-1", "win-2")
		s.until("it waits", time.Minute, func() bool { return s.waitsFor("win-1") == api.ReasonReplacementNotReady })
		s.announce(s.hosts[1])
		s.until("win-2 is a node", time.Hour, func() bool { return s.ready() == 2 })
		s.until("the replacement has failed", time.Hour, func() bool { return s.waitsFor("win-1") == api.ReasonFailed })
		s.record("the replacement failed: %s", s.instance("win-1").Status.Failure.Message)
		s.pass(time.Hour)
		if pods := s.podsOn("win-1"); len(pods) != 2 || s.node("win-1").Spec.Unschedulable {
			s.t.Errorf("win-1 has %d pods, and is cordoned: %t", len(pods), s.node("win-1").Spec.Unschedulable)
		}
		s.record("the user removes the pod, and retries")
		s.drop("Pod", types.NamespacedName{Namespace: "default", Name: "pinned-2"})
		s.annotate("win-1", api.AnnotationRetry, "true")
		s.until("win-1 has left", time.Hour, func() bool { return len(s.allInstances()) == 1 && len(s.nodes()) == 1 })

		s.record("the WindowsInstance is applied again")
		i := &v1alpha1.WindowsInstance{}
		i.Namespace, i.Name, i.Generation = "ns", "win-1", 1
		i.Spec.Address, i.Spec.Username, i.Spec.ReplaceWith = s.hosts[0].address, "Administrator", "win-2"
		s.must(s.client.Create(s.ctx, i))
		s.pass(time.Hour)
		if got := s.waitsFor("win-1"); got != api.ReasonReplaced || s.hosts[0].version != "" {
			s.t.Errorf("win-1 waits for %q and has version %q, want it to stay away", got, s.hosts[0].version)
		}
		s.must(s.client.Delete(s.ctx, s.instance("win-1")))
		s.until("the WindowsInstance is gone", time.Hour, func() bool { return len(s.allInstances()) == 1 })
	})
}

// TestStoryReplacementIsCanceled: the user removes spec.replaceWith while pods leave. The node returns to service.
func TestStoryReplacementIsCanceled(t *testing.T) {
	runStory(t, "replacement-canceled", 2, atMost(1), func(s *story) {
		s.replacementDrains()
		s.pass(time.Minute)
		s.replaceWith("win-1", "")
		s.until("win-1 is in service", time.Minute, func() bool { return !s.node("win-1").Spec.Unschedulable })
		s.pass(time.Hour)
		if i := s.instance("win-1"); i.Status.Maintenance != nil || i.Status.Failure != nil || s.ready() != 2 {
			s.t.Errorf("maintenance %+v, failure %+v, %d nodes are ready", i.Status.Maintenance, i.Status.Failure, s.ready())
		}
	})
}

// TestStoryReplacementBreaksDuringDrain: the new host stops working while pods leave the old one. The old node stays, and returns to service.
func TestStoryReplacementBreaksDuringDrain(t *testing.T) {
	runStory(t, "replacement-breaks", 2, atMost(1), func(s *story) {
		s.replacementDrains()
		s.record("win-2 loses power")
		s.hosts[1].off = true
		s.pass(time.Minute)
		s.budgets["web"] = 1
		s.until("win-1 is in service again", time.Hour, func() bool {
			return !s.node("win-1").Spec.Unschedulable && s.instance("win-1").Status.Failure != nil
		})
		s.record("the replacement failed: %s", s.instance("win-1").Status.Failure.Message)
		s.hosts[1].off = false
		s.until("both work", time.Hour, func() bool { return s.ready() == 2 })
	})
}
