package storytest

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// of gives a pod an owning ReplicaSet.
func of(owner string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: new(true)}}
	}
}

func toleratesAll(pod *corev1.Pod) {
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

// TestStoryPodsReturnDespiteCordon: the pod of a Deployment that tolerates every taint is replaced on the node from which it was evicted, and
// is not evicted again.
func TestStoryPodsReturnDespiteCordon(t *testing.T) {
	runStory(t, "pods-come-back", 2, atMost(1), func(s *story) {
		s.settled(1)
		s.addPod("win-1", "agent", of("agent"), toleratesAll)
		s.until("all have the version", time.Hour, func() bool { return s.at(s.version) == 2 })
		if n := strings.Count(strings.Join(s.lines, "\n"), "pod agent-"); n != 1 {
			s.t.Errorf("the pod was evicted %d times, want once", n)
		}
	})
}

// TestStoryPodDoesNotTerminate: a container cannot be removed until Windows restarts. The user has requested the restart and allows a forced drain.
func TestStoryPodDoesNotTerminate(t *testing.T) {
	r := atMost(1)
	r.Drain.Timeout, r.Drain.OnTimeout = "10m", v1alpha1.DrainForce
	runStory(t, "pod-does-not-end", 1, r, func(s *story) {
		s.joined()
		s.addPod("win-1", "web", func(pod *corev1.Pod) { pod.Finalizers = append(pod.Finalizers, "story/stuck") })
		s.requestReboot("win-1")
		s.until("the host has restarted", time.Hour, func() bool { return s.hosts[0].bootID == 2 && s.ready() == 1 })
	})
}

// TestStorySettle: a node is drained once the pods of the previous one are Ready elsewhere, or after two minutes
// (https://github.com/Azure/AKS/issues/1293).
func TestStorySettle(t *testing.T) {
	runStory(t, "settle", 3, atMost(1), func(s *story) {
		s.settled(0)
		s.addPod("win-1", "quick", of("quick"))
		s.addPod("win-2", "slow", of("slow")) // its replacements never become Ready
		s.until("all have the version", time.Hour, func() bool { return s.at(s.version) == 3 })
	})
}

// TestStorySettleTimeIsConfigurable: spec.rollout.drain.settle overrides the default time.
func TestStorySettleTimeIsConfigurable(t *testing.T) {
	r := atMost(1)
	r.Drain.Settle = "10m"
	runStory(t, "settle-time-configured", 2, r, func(s *story) {
		s.settled(0)
		s.addPod("win-1", "quick", of("quick"))
		s.until("all have the version", time.Hour, func() bool { return s.at(s.version) == 2 })
	})
}

// TestStoryDrainWithoutEvictions: if no pod had to leave a node, the rollout does not wait for pods to settle, even if DaemonSet pods run there.
func TestStoryDrainWithoutEvictions(t *testing.T) {
	runStory(t, "drain-without-evictions", 2, atMost(1), func(s *story) {
		s.settled(0)
		daemon := func(pod *corev1.Pod) {
			of("logs")(pod)
			pod.OwnerReferences[0].Kind = "DaemonSet"
		}
		s.addPod("win-1", "logs", daemon)
		s.addPod("win-2", "logs", daemon)
		s.until("all have the version", 2*time.Minute, func() bool { return s.at(s.version) == 2 })
	})
}
