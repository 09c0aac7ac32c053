package storytest

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// initialize acts as a cloud controller does.
func (s *story) initialize(name string) {
	before := s.node(name)
	node := before.DeepCopy()
	node.Spec.Taints, node.Spec.ProviderID = nil, "lab:///"+name
	s.must(s.client.Patch(s.ctx, node, client.MergeFrom(before)))
	s.record("the cloud initializes %s", name)
}

// TestStoryCloudIsSlow: nothing changes on the Node of win-2 while its cloud is silent, and yet the delay is reported after join.CloudTimeout.
func TestStoryCloudIsSlow(t *testing.T) {
	runStory(t, "cloud-is-slow", 2, atMost(1), func(s *story) {
		reason := func(name string) string { return kube.Condition(s.instance(name), api.ConditionReady).Reason }
		s.hosts[0].ofCloud, s.hosts[1].ofCloud = true, true
		s.announce(s.hosts...)
		s.until("win-1 waits for its cloud", time.Hour, func() bool { return reason("win-1") == api.ReasonWaitingForCloud })
		s.initialize("win-1")
		s.until("win-1 is Ready", time.Minute, func() bool { return reason("win-1") == api.ReasonReady })
		s.until("win-2 waits for its cloud", time.Hour, func() bool {
			return reason("win-2") == api.ReasonWaitingForCloud || reason("win-2") == api.ReasonCloudNotInitialized // before win-1 was Ready
		})
		s.until("win-2 has waited for too long", join.CloudTimeout+time.Minute, func() bool { return reason("win-2") == api.ReasonCloudNotInitialized })
		s.pass(time.Hour)
		if joins := s.hosts[1].joins; joins != 1 {
			s.t.Errorf("win-2 was joined %d times; nothing of the host helps", joins)
		}
		s.initialize("win-2")
		s.until("win-2 is Ready", time.Minute, func() bool { return reason("win-2") == api.ReasonReady })
	})
}
