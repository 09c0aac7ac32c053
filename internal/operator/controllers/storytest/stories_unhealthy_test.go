package storytest

import (
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api"
)

// breakServices breaks a service of each host some time after the host got the version.
func (s *story) breakServices(after time.Duration) {
	for _, h := range s.hosts {
		i := s.instance(h.name)
		arrived := h.version == s.version && i.Status.Payload.Since != nil && time.Since(i.Status.Payload.Since.Time) >= after
		if arrived && h.serviceFault == "" {
			h.serviceFault = "kube-proxy: it exited with code 1"
			s.record("kube-proxy dies on %s", h.name)
		}
	}
}

// The services of a version fail while its canaries soak. Formerly each failed canary was replaced, until all nodes had the version.
func TestStoryCanaryBecomesUnhealthy(t *testing.T) {
	runStory(t, "canary-gets-sick", 5, withCanary(2), func(s *story) {
		s.settled(1)
		for began := time.Now(); time.Since(began) < 2*time.Hour; {
			s.breakServices(40 * time.Second)
			s.tick()
		}
		if n := s.at(s.version); n != 1 {
			s.t.Errorf("%d nodes have the version that does not work, want one", n)
		}
		s.record("win-1 waits for nothing, win-2 for %s; failure of win-1: %s", s.instance("win-2").Status.Plan.WaitsFor, s.instance("win-1").Status.Failure.Message)
		s.record("a user repairs the node and resumes the rollout")
		s.hosts[0].serviceFault = ""
		s.tick()
		s.annotate("win-1", api.AnnotationRetry, "true")
		s.until("all have the version", 2*time.Hour, func() bool { return s.at(s.version) == 5 })
	})
}

// Without a canary, a version that never worked also stops.
func TestStoryVersionNeverWorks(t *testing.T) {
	runStory(t, "version-never-works", 5, atMost(1), func(s *story) {
		s.settled(1)
		for began := time.Now(); time.Since(began) < 3*time.Hour; {
			s.breakServices(40 * time.Second)
			s.tick()
		}
		if n := s.at(s.version); n > 3 {
			s.t.Errorf("%d nodes have the version that does not work, want three at most", n)
		}
	})
}

// A canary that loses its power is replaced once.
func TestStoryCanariesDie(t *testing.T) {
	runStory(t, "canaries-die", 5, withCanary(3), func(s *story) {
		s.settled(1)
		for began := time.Now(); time.Since(began) < 3*time.Hour; {
			for _, h := range s.hosts {
				if h.version == s.version && !h.off && !s.node(h.name).Spec.Unschedulable {
					h.off = true
					s.record("%s loses its power", h.name)
				}
			}
			s.tick()
		}
		died := 0
		for _, h := range s.hosts {
			if h.off {
				died++
			}
		}
		if died != 2 {
			s.t.Errorf("%d nodes died of the version, want two", died)
		}
		s.record("they have power again")
		for _, h := range s.hosts {
			h.off = false
		}
		s.until("all have the version", 2*time.Hour, func() bool { return s.at(s.version) == 5 })
	})
}

// A repair has failed when the operator is upgraded. When the node works again, it gets the version only in its upgrade.
func TestStoryRepairAfterAnUpgradeOfTheOperator(t *testing.T) {
	runStory(t, "repair-after-an-upgrade", 3, withCanary(1), func(s *story) {
		s.joined()
		s.hosts[2].off = true
		s.pass(15 * time.Minute)
		s.becomeFormer()
		s.addPod("win-3", "web")
		s.pass(time.Minute)
		s.record("win-3 has power again")
		s.hosts[2].off = false
		s.pass(2 * time.Minute)
		if h := s.hosts[2]; h.version != oldVersion {
			s.t.Errorf("win-3 has version %s before its turn", h.version)
		}
		s.until("all have the version", 2*time.Hour, func() bool { return s.at(s.version) == 3 })
	})
}

// The host of a node of a previous version is announced again, as after the loss of its WindowsInstance.
func TestStoryInstanceOfOldNodeIsRecreated(t *testing.T) {
	runStory(t, "instance-is-recreated", 3, withCanary(1), func(s *story) {
		s.settled(1)
		s.until("the first has the version, and soaks", time.Hour, func() bool { return s.at(s.version) == 1 })
		i := s.instance("win-3")
		i.Finalizers = nil
		s.must(s.client.Update(s.ctx, i))
		s.must(s.client.Delete(s.ctx, i))
		s.record("the WindowsInstance of win-3 is lost and recreated")
		s.announce(s.hosts[2])
		s.pass(2 * time.Minute)
		if h := s.hosts[2]; h.version != oldVersion {
			s.t.Errorf("win-3 has version %s before its turn", h.version)
		}
		s.until("all have the version", 2*time.Hour, func() bool { return s.at(s.version) == 3 })
	})
}
