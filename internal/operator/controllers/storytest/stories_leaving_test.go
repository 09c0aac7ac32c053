package storytest

import (
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api"
)

func TestStoryLeaving(t *testing.T) {
	runStory(t, "leaving-and-back", 3, atMost(1), func(s *story) {
		s.settled(2)
		s.until("all have the version", time.Hour, func() bool { return s.at(s.version) == 3 })
		s.record("win-1 is removed")
		s.must(s.client.Delete(s.ctx, s.instance("win-1")))
		s.until("win-1 has left", time.Hour, func() bool { return len(s.nodes()) == 2 && len(s.allInstances()) == 2 })
		s.record("win-1 comes back")
		s.announce(s.hosts[0])
		s.until("win-1 is a node again", time.Hour, func() bool { return s.at(s.version) == 3 })
	})
}

func TestStoryForeignFinalizerHoldsInstance(t *testing.T) {
	runStory(t, "foreign-finalizer", 2, atMost(1), func(s *story) {
		s.settled(1)
		i := s.instance("win-1")
		i.Finalizers = append(i.Finalizers, "story/backup")
		s.must(s.client.Update(s.ctx, i))
		s.must(s.client.Delete(s.ctx, s.instance("win-1")))
		s.until("win-1 has left", time.Hour, func() bool { return len(s.nodes()) == 1 })
		s.record("a foreign finalizer keeps the instance")
		s.pass(time.Hour)
		if visits := s.hosts[0].left; visits != 1 {
			s.t.Errorf("win-1 was made to leave %d times", visits)
		}
	})
}

func TestStoryDeadHostLeaves(t *testing.T) {
	runStory(t, "dead-host-leaves", 3, atMost(1), func(s *story) {
		s.settled(1)
		s.until("all have the version", time.Hour, func() bool { return s.at(s.version) == 3 })
		s.hosts[0].off, s.hosts[1].off = true, true
		s.pass(time.Minute)
		s.record("win-1 and win-2 are dead, and removed")
		s.must(s.client.Delete(s.ctx, s.instance("win-1")))
		s.must(s.client.Delete(s.ctx, s.instance("win-2")))
		s.pass(10 * time.Minute)
		s.record("the user releases win-1")
		s.annotate("win-1", api.AnnotationRelease, "true")
		s.until("win-1 is gone", time.Minute, func() bool { return len(s.allInstances()) == 2 })
		s.until("win-2 is gone", 2*time.Hour, func() bool { return len(s.allInstances()) == 1 && len(s.nodes()) == 1 })
	})
}

func TestStoryRemovedDuringJoin(t *testing.T) {
	runStory(t, "removed-during-join", 2, atMost(1), func(s *story) {
		s.announce(s.hosts...)
		s.tick()
		s.must(s.client.Delete(s.ctx, s.instance("win-1")))
		s.until("win-1 has left", time.Hour, func() bool { return len(s.allInstances()) == 1 && s.ready() == 1 })
		if s.hosts[0].version != "" {
			s.t.Error("objects of the operator remain on win-1")
		}
	})
}
