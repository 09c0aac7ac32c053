package storytest

import (
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
)

// A renamed host leaves a Node behind that never becomes Ready again.
func TestStoryOrphanNodeDoesNotBlockRollout(t *testing.T) {
	runStory(t, "node-without-an-instance", 2, atMost(1), func(s *story) {
		s.settled(1)
		s.must(s.client.Create(s.ctx, controllertest.OrphanNode("former-name")))
		s.until("all have the version", time.Hour, func() bool { return s.at(s.version) == 2 })
		s.pass(time.Hour)
		if got := s.rules().Status.Rollout; got.Orphans != 1 || got.Nodes != 2 || got.OutOfService != 0 || !strings.Contains(got.Message, "no WindowsInstance for Node former-name") {
			s.t.Errorf("the rollout's status is %+v", got)
		}
		if n := s.emitted(api.MetricOrphanNodes); n != 1 {
			s.t.Errorf("metric %s is %v", api.MetricOrphanNodes, n)
		}
		s.must(s.client.Delete(s.ctx, s.node("former-name")))
		s.pass(time.Minute)
		if n := s.emitted(api.MetricOrphanNodes); n != 0 {
			s.t.Errorf("without the Node, metric %s is %v", api.MetricOrphanNodes, n)
		}
	})
}
