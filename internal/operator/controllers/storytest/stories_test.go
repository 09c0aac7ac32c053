package storytest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

func atMost(n int32) v1alpha1.RolloutSpec {
	most := intstr.FromInt32(n)
	return v1alpha1.RolloutSpec{MaxUnavailable: &most}
}

// withCanary returns a rollout with one canary and maxUnavailable n.
func withCanary(n int32) v1alpha1.RolloutSpec {
	r := atMost(n)
	r.Canary = &v1alpha1.CanarySpec{Count: 1, Soak: "5m"}
	return r
}

// firstFails settles the hosts and makes the version fail on the first one upgraded.
func (s *story) firstFails(podsEach int) {
	s.t.Helper()
	s.hosts[0].refuses = s.version
	s.settled(podsEach)
	s.until("the first node failed and is back", time.Hour, func() bool {
		return s.instance("win-1").Status.Failure != nil && s.instance("win-1").Status.Maintenance == nil
	})
}

func TestStoryFreshFleet(t *testing.T) {
	runStory(t, "fresh-fleet-of-50", 50, atMost(3), func(s *story) {
		s.announce(s.hosts...)
		s.until("50 nodes", 2*time.Hour, func() bool { return s.ready() == 50 })
	})
}

// A cache that lags behind a join must not make the host wait for a slot and join again.
func TestStoryCacheLags(t *testing.T) {
	item := atMost(2)
	item.MaxConcurrentJoins = 1
	runStory(t, "cache-lags", 4, item, func(s *story) {
		s.lags = true
		s.announce(s.hosts...)
		s.until("4 nodes", 2*time.Hour, func() bool {
			for _, slot := range s.others {
				_ = slot.Close() // the other hosts in these slots have joined
			}
			s.others = nil
			return s.ready() == 4
		})
		for _, h := range s.hosts {
			// A host whose Node does not appear within minutes is joined again, regardless of the cache.
			if s.noQuirks && h.joins != 1 {
				s.t.Errorf("%s was joined %d times, want once", h.name, h.joins)
			}
		}
	})
}

func TestStoryUpgrade(t *testing.T) {
	runStory(t, "upgrade-of-10", 10, atMost(3), func(s *story) {
		s.settled(2)
		s.until("all have the version", time.Hour, func() bool { return s.at(s.version) == 10 })
	})
}

func TestStoryBadCanary(t *testing.T) {
	runStory(t, "bad-canary", 10, withCanary(3), func(s *story) {
		s.firstFails(1)
		s.pass(time.Hour)
		if n := s.at(oldVersion); n != 10 {
			s.t.Errorf("%d nodes kept their version, want all 10", n)
		}
		s.record("the user repairs the host and requests a retry")
		s.hosts[0].refuses, s.hosts[0].refused = "", ""
		s.annotate("win-1", api.AnnotationRetry, "true")
		s.until("all have the version", 2*time.Hour, func() bool { return s.at(s.version) == 10 })
	})
}

func TestStoryHostDiesMidDrain(t *testing.T) {
	runStory(t, "host-dies-mid-drain", 3, atMost(1), func(s *story) {
		s.settled(2)
		s.until("win-1 is drained", time.Hour, func() bool { return s.node("win-1").Spec.Unschedulable })
		s.hosts[0].off = true
		s.record("win-1 loses its power")
		s.pass(30 * time.Minute)
		s.hosts[0].off = false
		s.record("win-1 has power again")
		s.until("all have the version", 2*time.Hour, func() bool { return s.at(s.version) == 3 })
	})
}

func TestStoryBudgetBlocksDrain(t *testing.T) {
	runStory(t, "budget-blocks-drain", 3, atMost(1), func(s *story) {
		s.settled(1)
		s.budgets["web"] = 0
		s.until("the drain is blocked", 10*time.Minute, func() bool {
			return kube.Condition(s.instance("win-1"), api.ConditionReady).Reason == api.ReasonDrainBlocked
		})
		s.record("condition Draining: %s", kube.Condition(s.instance("win-1"), api.ConditionDraining).Message)
		s.pass(20 * time.Minute)
		s.record("the budget allows one")
		s.budgets["web"] = 1
		s.until("all have the version", 2*time.Hour, func() bool { return s.at(s.version) == 3 })
	})
}

// The API server returns this error if two budgets select one pod.
func TestStoryEvictionIsAnError(t *testing.T) {
	runStory(t, "eviction-is-an-error", 2, atMost(1), func(s *story) {
		s.settled(1)
		cause := "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
		s.refuses = &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: cause}}
		s.until("the status has the reason", 10*time.Minute, func() bool {
			return strings.Contains(kube.Condition(s.instance("win-1"), api.ConditionDraining).Message, cause)
		})
		if reason := kube.Condition(s.instance("win-1"), api.ConditionReady).Reason; reason != api.ReasonDrainBlocked {
			s.t.Errorf("Ready has reason %s, want %s", reason, api.ReasonDrainBlocked)
		}
		before := s.writes
		s.pass(10 * time.Minute)
		if n := s.writes - before; n > 10*60/2+30 { // evictions count as writes
			s.t.Errorf("%d writes in ten minutes in which nothing happened", n)
		}
		s.record("the user deletes one budget")
		s.refuses = nil
		s.until("all have the version", 2*time.Hour, func() bool { return s.at(s.version) == 2 })
	})
}

func TestStoryOperatorRestartsAtEveryTick(t *testing.T) {
	runStory(t, "operator-restarts", 4, atMost(2), func(s *story) {
		s.settled(1)
		s.until("all have the version", 2*time.Hour, func() bool {
			s.startOperator()
			return s.at(s.version) == 4
		})
	})
}

func TestStoryConnectionsBreak(t *testing.T) {
	runStory(t, "connections-break", 6, atMost(2), func(s *story) {
		for n, h := range s.hosts {
			h.loses = n + 1
		}
		s.settled(1)
		for n, h := range s.hosts {
			h.loses = n%3 + 1
		}
		s.until("all have the version", 2*time.Hour, func() bool { return s.at(s.version) == 6 })
		for n, h := range s.hosts {
			h.loses = n%3 + 1
			s.must(s.client.Delete(s.ctx, s.instance(h.name)))
		}
		s.until("all have left", 2*time.Hour, func() bool { return len(s.allInstances()) == 0 && len(s.nodes()) == 0 })
	})
}

func TestStoryReboot(t *testing.T) {
	runStory(t, "reboot-requested", 3, atMost(1), func(s *story) {
		s.settled(1)
		s.until("all have the version", time.Hour, func() bool { return s.at(s.version) == 3 })
		for _, name := range []string{"win-1", "win-2"} {
			node := s.node(name)
			node.Annotations[api.AnnotationReboot] = "please"
			s.must(s.client.Update(s.ctx, node))
		}
		s.until("both have restarted", time.Hour, func() bool {
			return s.hosts[0].bootID == 2 && s.hosts[1].bootID == 2 && s.ready() == 3
		})
		s.until("the annotations are gone", time.Hour, func() bool {
			_, found := s.node("win-2").Annotations[api.AnnotationReboot]
			return !found
		})
	})
}

func TestStoryForeignCordonIsKept(t *testing.T) {
	runStory(t, "foreign-cordon", 2, atMost(1), func(s *story) {
		s.settled(1)
		node := s.node("win-2")
		node.Spec.Unschedulable = true
		s.must(s.client.Update(s.ctx, node))
		s.record("a user cordons win-2")
		s.until("win-2 has the version", time.Hour, func() bool { return s.hosts[1].version == s.version })
		s.pass(10 * time.Minute)
		if !s.node("win-2").Spec.Unschedulable {
			s.t.Error("a foreign cordon was removed")
		}
		if s.at(s.version) != 0 || s.hosts[0].version != oldVersion {
			s.t.Error("win-1 was upgraded while the only other node was out of service")
		}
		s.record("the user uncordons win-2")
		node = s.node("win-2")
		node.Spec.Unschedulable = false
		s.must(s.client.Update(s.ctx, node))
		s.until("all have the version", time.Hour, func() bool { return s.at(s.version) == 2 })
	})
}

// The kubelets of two compromised hosts label their Nodes as Linux; win-2's also in its status.
func TestStoryNodeLabeledAsLinux(t *testing.T) {
	runStory(t, "node-labeled-as-linux", 3, atMost(1), func(s *story) {
		s.settled(1)
		s.until("all have the version", time.Hour, func() bool { return s.at(s.version) == 3 })
		for name, system := range map[string]string{"win-1": "windows", "win-2": "linux"} {
			node := s.node(name)
			node.Status.NodeInfo.OperatingSystem = system
			s.must(s.client.Status().Update(s.ctx, node))
			node = s.node(name)
			node.Labels[corev1.LabelOSStable], node.Labels[api.LabelBYOH] = "linux", "false" // the operator restores the other label
			s.must(s.client.Update(s.ctx, node))
		}
		s.record("win-1 and win-2 are labeled as Linux nodes")
		s.until("the status of win-2 has the reason", time.Minute, func() bool {
			return kube.Condition(s.instance("win-2"), api.ConditionReady).Reason == api.ReasonNodeNotWindows
		})
		if reason := kube.Condition(s.instance("win-1"), api.ConditionReady).Reason; reason != api.ReasonReady {
			s.t.Errorf("win-1 is %q, want it to go on as a Windows node", reason)
		}
		s.must(s.client.Delete(s.ctx, s.instance("win-1")))
		s.must(s.client.Delete(s.ctx, s.instance("win-2")))
		s.until("both instances are gone", 10*time.Minute, func() bool { return len(s.allInstances()) == 1 })
		if nodes := s.nodes(); len(nodes) != 2 || nodes[0].Name != "win-2" {
			s.t.Errorf("%d nodes are left, want win-2's, which may not be deleted, and win-3's", len(nodes))
		}
	})
}

func TestStoryTakeOver(t *testing.T) {
	runStory(t, "take-over", 2, atMost(1), func(s *story) {
		for _, h := range s.hosts {
			h.others, h.version = true, "10.18.0-other"
			h.joinedAt = time.Now().Add(-time.Hour)
			h.advance()
			s.addPod(h.name, "web")
		}
		s.announce(s.hosts...)
		s.until("both are adopted", time.Hour, func() bool { return s.at(s.version) == 2 })
	})
}

func TestStoryManyHostsFlap(t *testing.T) {
	runStory(t, "flapping", 200, atMost(20), func(s *story) {
		s.every = 20 * time.Second
		s.settled(0)
		s.until("all have the version", 12*time.Hour, func() bool {
			for n := range 20 {
				h := s.hosts[n*10]
				if s.random.IntN(40) == 0 {
					h.off = !h.off
				}
			}
			return s.at(s.version) >= 180
		})
		for _, h := range s.hosts {
			h.off = false
		}
		s.until("all have the version", 12*time.Hour, func() bool { return s.at(s.version) == 200 })
		s.lines = s.lines[:5*20] // of the first 20 hosts; the other lines repeat theirs
	})
}

func TestStoryClockJumps(t *testing.T) {
	r := atMost(1)
	r.Drain.Timeout = "10m"
	runStory(t, "clock-jumps", 3, r, func(s *story) {
		s.settled(1)
		s.until("win-1 is drained", time.Hour, func() bool { return s.node("win-1").Spec.Unschedulable })
		time.Sleep(26 * time.Hour)
		s.record("the operator slept for a day")
		s.until("all have the version", time.Hour, func() bool { return s.at(s.version) == 3 })
	})
}

func TestStoryDrainTimeouts(t *testing.T) {
	for _, test := range []struct {
		policy v1alpha1.DrainTimeoutPolicy
		name   string
	}{{v1alpha1.DrainForce, "drain-forced"}, {v1alpha1.DrainAbort, "drain-aborted"}} {
		t.Run(test.name, func(t *testing.T) {
			r := atMost(1)
			r.Drain = v1alpha1.DrainSpec{Timeout: "10m", OnTimeout: test.policy}
			runStory(t, test.name, 2, r, func(s *story) {
				s.settled(1)
				s.budgets["web"] = 0
				s.pass(25 * time.Minute)
				if test.policy == v1alpha1.DrainForce {
					s.until("all have the version", time.Hour, func() bool { return s.at(s.version) == 2 })
					return
				}
				if n := s.at(oldVersion); n != 2 {
					s.t.Errorf("%d nodes serve with their version, want both", n)
				}
			})
		})
	}
}

func TestStoryReadinessGate(t *testing.T) {
	r := atMost(1)
	r.ReadinessGates = []string{"StorageReady"}
	runStory(t, "readiness-gate", 2, r, func(s *story) {
		open := func() {
			for _, n := range s.nodes() {
				controllertest.SetNodeCondition(&n, "StorageReady", corev1.ConditionTrue, "")
				s.must(s.client.Status().Update(s.ctx, &n))
			}
		}
		s.settled(1)
		s.until("win-1 waits at the gate", time.Hour, func() bool { return s.hosts[0].version == s.version })
		s.pass(5 * time.Minute)
		s.record("the readiness gate of the user is True")
		open()
		s.until("all have the version", time.Hour, func() bool { return s.at(s.version) == 2 })
	})
}

func TestStoryKeyRotation(t *testing.T) {
	runStory(t, "key-rotation", 4, atMost(1), func(s *story) {
		s.settled(0)
		s.until("all have the version", time.Hour, func() bool { return s.at(s.version) == 4 })
		s.hosts[2].off, s.hosts[3].off = true, true
		s.pass(time.Minute)
		s.record("the SSH key is replaced; win-3 and win-4 are unreachable")
		s.rotate(1)
		s.until("two hosts have the key", time.Hour, func() bool { return len(s.hosts[0].keys) == 1 && s.hosts[0].keys[0] == s.line(1) })
		s.pass(20 * time.Minute)
		s.record("win-3 and win-4 are back")
		s.hosts[2].off, s.hosts[3].off = false, false
		s.until("all hosts have the key", time.Hour, func() bool {
			for _, h := range s.hosts {
				if len(h.keys) != 1 || h.keys[0] != s.line(1) {
					return false
				}
			}
			return s.ready() == 4
		})
	})
}

func TestStoryProxyChangesDuringUpgrade(t *testing.T) {
	runStory(t, "proxy-during-upgrade", 4, atMost(2), func(s *story) {
		s.settled(1)
		s.until("the first are drained", time.Hour, func() bool { return s.out() == 2 })
		s.record("a proxy is configured")
		config := s.rules()
		config.Spec.Proxy.HTTPProxy = "http://proxy.example.com:3128"
		config.Generation++
		s.must(s.client.Update(s.ctx, config))
		s.until("all have the version and the proxy", time.Hour, func() bool {
			_, settings := s.publishedKeys(s.version)
			for _, n := range s.nodes() {
				if n.Annotations[api.AnnotationSettings] != settings {
					return false
				}
			}
			return s.at(s.version) == 4
		})
	})
}

func TestStoryBrokenNodeIsRepaired(t *testing.T) {
	runStory(t, "repair", 2, atMost(1), func(s *story) {
		s.settled(0)
		s.until("all have the version", time.Hour, func() bool { return s.at(s.version) == 2 })
		s.hosts[0].failingJoins, s.hosts[1].failingJoins = 1, 99
		s.record("the kubelets of both hosts die; another join repairs win-1")
		s.until("win-1 is back", 2*time.Hour, func() bool { return s.ready() == 1 })
		s.until("win-2 waits for the user", 24*time.Hour, func() bool {
			return kube.Condition(s.instance("win-2"), api.ConditionReady).Reason == api.ReasonRepairFailed
		})
		s.record("%s", kube.Condition(s.instance("win-2"), api.ConditionReady).Message)
		s.hosts[1].failingJoins = 0
		s.record("the user repairs win-2")
		s.until("win-2 is back", time.Hour, func() bool { return s.ready() == 2 })
		if s.instance("win-2").Status.Failure != nil {
			s.t.Error("the failure is still noted")
		}
	})
}
