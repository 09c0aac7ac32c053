package storytest

import (
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// silence cuts hosts off from the API server, or reconnects them. Their pods keep running.
func (s *story) silence(kubeletSilent bool, hosts ...*storyHost) {
	for _, h := range hosts {
		h.kubeletSilent = kubeletSilent
	}
	s.record("%d hosts are silent: %v", len(hosts), kubeletSilent)
}

// The API servers' load balancer is down for a while. Formerly, all nodes were then considered broken, drained, and upgraded at once.
func TestStoryFleetIsSilent(t *testing.T) {
	runStory(t, "fleet-is-silent", 6, withCanary(1), func(s *story) {
		s.settled(2)
		s.until("the first has the version, and soaks", time.Hour, func() bool { return s.at(s.version) == 1 })
		s.silence(true, s.hosts...)
		s.pass(30 * time.Minute)
		for _, i := range s.allInstances() {
			if i.Status.Maintenance != nil {
				s.t.Errorf("%s: %s began", i.Name, i.Status.Maintenance.Action)
			}
		}
		s.record("rollout: %s", s.rules().Status.Rollout.Message)
		if s.emitted(api.MetricRolloutWaiting, api.ReasonFleetSilent) == 0 {
			s.t.Error("the metric of alert WindowsFleetSilent counts no waiting host")
		}
		s.silence(false, s.hosts...)
		s.until("all have the version", 2*time.Hour, func() bool { return s.at(s.version) == 6 })
	})
}

// A node that is silent for a moment is left alone, although it is out of service anyway.
func TestStoryNodeIsSilentForAMoment(t *testing.T) {
	night := atMost(2)
	night.MaintenanceWindows = []v1alpha1.MaintenanceWindow{{Schedule: "0 20 * * *", Duration: "2h"}}
	runStory(t, "node-is-silent-for-a-moment", 3, night, func(s *story) {
		s.settled(1)
		s.pass(10 * time.Minute)
		s.silence(true, s.hosts[0])
		s.pass(9 * time.Minute)
		s.silence(false, s.hosts[0])
		s.pass(time.Hour)
		s.silence(true, s.hosts[0])
		s.pass(time.Hour)
		s.record("win-1 waits for %s", s.instance("win-1").Status.Plan.WaitsFor)
		s.silence(false, s.hosts[0])
		s.until("all have the version", 30*time.Hour, func() bool { return s.at(s.version) == 3 })
	})
}

// An action that began on a broken node is postponed when the node works again: it has pods, and other nodes may be due first.
func TestStoryBrokenNodeRecoversDuringDrain(t *testing.T) {
	runStory(t, "broken-node-comes-back", 3, atMost(1), func(s *story) {
		s.hosts[2].refuses = "" // all hosts are good
		s.settled(0)
		s.addPod("win-3", "web")
		pod := &s.podsOn("win-3")[0]
		pod.Finalizers = append(pod.Finalizers, "story/stuck")
		s.must(s.client.Update(s.ctx, pod))
		s.silence(true, s.hosts[2])
		s.until("the drain of win-3 hangs", 2*time.Hour, func() bool {
			m := s.instance("win-3").Status.Maintenance
			return m != nil && m.BrokenSince != nil
		})
		s.silence(false, s.hosts[2])
		s.until("the drain is postponed", time.Minute, func() bool {
			m := s.instance("win-3").Status.Maintenance
			return m == nil || m.BrokenSince == nil
		})
		pod = &s.podsOn("win-3")[0]
		pod.Finalizers = []string{"story/grace"}
		s.must(s.client.Update(s.ctx, pod))
		s.until("all have the version", 2*time.Hour, func() bool { return s.at(s.version) == 3 })
	})
}

// A removal skips the drain only for a node that is gone.
func TestStoryNodeIsSilentForAMomentDuringItsRemoval(t *testing.T) {
	runStory(t, "silent-during-its-removal", 2, atMost(1), func(s *story) {
		s.settled(0)
		s.until("all have the version", time.Hour, func() bool { return s.at(s.version) == 2 })
		s.addPod("win-1", "web")
		s.budgets["web"] = 0
		s.must(s.client.Delete(s.ctx, s.instance("win-1")))
		s.until("the drain is blocked", 10*time.Minute, func() bool { return s.node("win-1").Annotations[api.AnnotationCordoned] != "" })
		s.silence(true, s.hosts[0])
		s.pass(2 * time.Minute)
		s.silence(false, s.hosts[0])
		if s.hosts[0].left != 0 {
			s.t.Error("the host was cleaned with its pods on it")
		}
		s.budgets["web"] = 1
		s.until("the host has left", time.Hour, func() bool { return len(s.allInstances()) == 1 })
	})
}
