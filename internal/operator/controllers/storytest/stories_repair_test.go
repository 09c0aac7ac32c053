package storytest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

func TestStoryRejoinHasALimit(t *testing.T) {
	runStory(t, "rejoin-has-a-limit", 2, atMost(1), func(s *story) {
		s.joined()
		s.lines = nil
		s.requestReboot("win-1")
		s.until("win-1 restarts", time.Hour, func() bool { return s.hosts[0].bootID == 2 })
		s.hosts[0].failingJoins = 99
		s.record("its kubelet does not come back")
		s.pass(6 * time.Hour)
		if n := 99 - s.hosts[0].failingJoins; n != join.MaxRepairs {
			s.t.Errorf("it was joined again %d times, want %d", n, join.MaxRepairs)
		}
		if s.instance("win-1").Status.Failure == nil {
			s.t.Error("the failed restart is not reported")
		}
		s.hosts[0].failingJoins = 0
		s.record("a user repairs it")
		s.until("win-1 is back", time.Hour, func() bool { return s.ready() == 2 })
	})
}

func TestStoryLostResponseIsForgotten(t *testing.T) {
	runStory(t, "lost-answer-is-forgotten", 1, atMost(1), func(s *story) {
		s.joined()
		s.lines = nil
		s.requestReboot("win-1")
		s.hosts[0].loses = 2
		s.until("win-1 has restarted", time.Hour, func() bool { return s.hosts[0].bootID == 2 && s.ready() == 1 })
		s.pass(time.Hour)
		if reason := kube.Condition(s.instance("win-1"), api.ConditionReady).Reason; reason != api.ReasonReady {
			s.t.Errorf("an hour later Ready has reason %s", reason)
		}
	})
}

func TestStoryRepairAvoidsFailedVersion(t *testing.T) {
	runStory(t, "repair-avoids-failed-version", 3, withCanary(1), func(s *story) {
		s.firstFails(0)
		s.record("the kubelet of win-2 dies")
		s.hosts[1].failingJoins = 1
		s.pass(time.Hour)
		if s.hosts[1].version != oldVersion || s.instance("win-1").Status.Failure == nil {
			s.t.Error("the failed version spread to other nodes")
		}
		s.record("the kubelet of win-2 works again")
		s.hosts[1].failingJoins = 0
		s.pass(time.Minute)
	})
}

func TestStoryStuckPodIsWrittenOnce(t *testing.T) {
	runStory(t, "stuck-pod", 1, atMost(1), func(s *story) {
		s.every = 2 * time.Second
		s.settled(1)
		pod := &s.podsOn("win-1")[0]
		pod.Finalizers = append(pod.Finalizers, "story/stuck")
		s.must(s.client.Update(s.ctx, pod))
		s.until("the drain hangs", time.Hour, func() bool {
			return kube.Condition(s.instance("win-1"), api.ConditionReady).Reason == api.ReasonPodStuck
		})
		before := s.writes
		s.pass(10 * time.Minute)
		if n := s.writes - before; n > 0 {
			s.t.Errorf("%d writes in ten minutes in which nothing happened", n)
		}
	})
}

func TestStoryKeyRotationDuringAStoppedRollout(t *testing.T) {
	runStory(t, "key-rotation-while-stopped", 3, withCanary(1), func(s *story) {
		s.firstFails(0)
		s.record("the SSH key is replaced")
		s.rotate(1)
		s.until("all hosts have the key", time.Hour, func() bool {
			for _, h := range s.hosts {
				if len(h.keys) != 1 || h.keys[0] != s.line(1) {
					return false
				}
			}
			return true
		})
		if s.at(oldVersion) != 3 {
			s.t.Error("nodes have not kept their version")
		}
	})
}

// TestStorySigningKeyIsLost: nodes reject settings signed with an unknown key, so that all are joined again: those of this version as soon as their
// settings are outdated, those of the previous one when they are upgraded.
func TestStorySigningKeyIsLost(t *testing.T) {
	runStory(t, "signing-key-is-lost", 3, atMost(1), func(s *story) {
		s.settled(0)
		s.until("one has the version", time.Hour, func() bool { return s.at(s.version) == 1 })
		s.record("a user deletes the signing key")
		s.must(s.client.Delete(s.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: api.SigningKeySecret}}))
		s.until("all have the version and the new key", 6*time.Hour, func() bool {
			want, err := s.store.Read(s.ctx, s.version, controllertest.ClusterID)
			for _, h := range s.hosts {
				if err != nil || h.signingKey != want.Node.SigningKey {
					return false
				}
			}
			_, settings := s.publishedKeys(s.version)
			return s.at(s.version) == 3 && !slices.ContainsFunc(s.nodes(), func(n corev1.Node) bool { return n.Annotations[api.AnnotationSettings] != settings })
		})
	})
}

// A host that loses power after its Node exists and before it has recorded its join is not taken for another operator's. It joins again without
// waiting until its node counts as broken.
func TestStoryJoinEndsAfterTheNodeRegistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, 1, atMost(1))
		s.hosts[0].losesPower = true
		s.announce(s.hosts[0])
		s.until("the host loses its power", time.Hour, func() bool { return !s.hosts[0].losesPower })
		s.until("the host has joined", 5*time.Minute, func() bool { return s.ready() == 1 })
		if h := s.hosts[0]; h.unfinished || h.joins != 1 {
			t.Errorf("%d joins, unfinished %v; this shows nothing", h.joins, h.unfinished)
		}
	})
}
