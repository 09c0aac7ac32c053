package storytest

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// loseNode deletes the Node of a host without power, as a cloud controller does for a stopped machine.
func (s *story) loseNode(h *storyHost) {
	s.t.Helper()
	h.off = true
	node := s.node(h.name)
	s.must(s.client.Delete(s.ctx, node))
	s.record("%s loses its power, and its Node is deleted", h.name)
}

func (s *story) hasNode(name string) bool {
	err := s.client.Get(s.ctx, types.NamespacedName{Name: name}, &corev1.Node{})
	s.must(client.IgnoreNotFound(err))
	return !apierrors.IsNotFound(err)
}

// passAlone lets time pass in which no other node may be taken out of service and no failure recorded.
func (s *story) passAlone(d time.Duration) {
	s.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		s.tick()
		if s.out() > 0 {
			s.t.Fatalf("another node was taken out of service while win-1 has none\n%s", s.summary())
		}
		if f := s.instance("win-1").Status.Failure; f != nil {
			s.t.Fatalf("a missing Node is recorded as a failure: %+v", f)
		}
	}
}

func TestStoryNodeDeletedWhileItDrains(t *testing.T) {
	runStory(t, "node-deleted-while-it-drains", 2, atMost(1), func(s *story) {
		s.settled(1)
		s.budgets["web"] = 0
		s.until("win-1 is drained", time.Hour, func() bool { return s.node("win-1").Spec.Unschedulable })
		s.loseNode(s.hosts[0])
		s.passAlone(20 * time.Minute)
		s.hosts[0].off = false
		s.record("win-1 has power again")
		s.until("win-1 has registered", time.Hour, func() bool { return s.hasNode("win-1") })
		s.pass(10 * time.Minute)
		if s.hosts[0].version != oldVersion {
			s.t.Error("the node was upgraded with a pod on it that may not be evicted")
		}
		s.record("the budget allows one eviction at a time")
		s.budgets["web"] = 1
		s.until("all have the version", 2*time.Hour, func() bool { return s.at(s.version) == 2 })
	})
}

func TestStoryNodeDeletedWhileItIsVerified(t *testing.T) {
	runStory(t, "node-deleted-while-it-is-verified", 2, atMost(1), func(s *story) {
		s.settled(1)
		s.until("win-1 begins its upgrade", time.Hour, func() bool { return s.hosts[0].targetVersion == s.version })
		s.loseNode(s.hosts[0])
		s.passAlone(20 * time.Minute)
		s.hosts[0].off = false
		s.record("win-1 has power again, and its Node pods")
		s.until("win-1 has registered", time.Hour, func() bool {
			s.hosts[0].advance()
			return s.hasNode("win-1")
		})
		s.addPod("win-1", "web")
		s.until("all have the version", 2*time.Hour, func() bool { return s.at(s.version) == 2 })
	})
}
