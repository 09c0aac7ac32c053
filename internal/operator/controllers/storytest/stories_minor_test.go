package storytest

import (
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/payload"
)

// kubelet returns the version that the host's kubelet reports.
func (h *storyHost) kubelet() string {
	for _, r := range kubeversions.Of("1.1.0", h.story.content) {
		if r.Version == h.version {
			return r.Kubelet
		}
	}
	return ""
}

// carries restarts the operator with a payload of several kubelet minor versions.
func (s *story) carries(kubelets ...string) {
	wicd := payload.File{Path: payload.WICD, Component: "wicd", Version: "v1", Group: payload.Base, SHA256: storyWICD, Size: 1}
	s.content = payload.New(append(controllertest.Kubelets(kubelets...), wicd), payload.File{})
	s.startOperator()
}

// countKubelet counts the nodes with a kubelet version.
func (s *story) countKubelet(kubelet string) (n int) {
	for _, node := range s.nodes() {
		if node.Status.NodeInfo.KubeletVersion == kubelet {
			n++
		}
	}
	return n
}

// TestStoryClusterUpgrade: three API servers go from 1.33 to 1.34, one after the other. Nodes follow only after the last one, within the budget.
func TestStoryClusterUpgrade(t *testing.T) {
	runStory(t, "cluster-moves", 3, atMost(1), func(s *story) {
		s.apiServers = []string{"v1.33.4", "v1.33.4", "v1.33.4"}
		s.carries("v1.33.13", "v1.34.4", "v1.36.3")
		s.announce(s.hosts...)
		s.until("all have the kubelet of the cluster", time.Hour, func() bool { return s.countKubelet("v1.33.13") == 3 && s.ready() == 3 })
		for i := range s.apiServers {
			if n := s.countKubelet("v1.33.13"); n != 3 {
				s.t.Errorf("with API servers %v, %d nodes have the old kubelet, want all 3", s.apiServers, n)
			}
			s.record("API server %d goes to v1.34.1", i+1)
			s.apiServers[i] = "v1.34.1"
			s.pass(10 * time.Minute)
		}
		s.until("all have the new kubelet", 2*time.Hour, func() bool { return s.countKubelet("v1.34.4") == 3 && s.at(s.version) == 3 })
	})
}

// TestStoryOperatorUpgradeKeepsMinorVersion: a new operator has later patches of the same minor versions. Nodes get the patch and keep the
// minor.
func TestStoryOperatorUpgradeKeepsMinorVersion(t *testing.T) {
	runStory(t, "operator-keeps-the-minor", 2, atMost(1), func(s *story) {
		s.apiServers = []string{"v1.34.1"}
		s.carries("v1.33.13", "v1.34.4")
		s.announce(s.hosts...)
		s.until("all are nodes", time.Hour, func() bool { return s.countKubelet("v1.34.4") == 2 && s.ready() == 2 })
		s.record("another operator has v1.33.14, v1.34.5 and v1.36.3")
		s.carries("v1.33.14", "v1.34.5", "v1.36.3")
		s.until("all have the patch", 2*time.Hour, func() bool { return s.at(controllertest.Version(s.releases)) == 2 })
		if n := s.countKubelet("v1.34.5"); n != 2 {
			s.t.Errorf("%d nodes have kubelet v1.34.5, want both", n)
		}
	})
}

// TestStoryTooOldClusterIsLeftAlone: no host joins while the operator's oldest kubelet is newer than the API server.
func TestStoryTooOldClusterIsLeftAlone(t *testing.T) {
	runStory(t, "cluster-is-too-old", 2, atMost(1), func(s *story) {
		s.apiServers = []string{"v1.32.9"}
		s.carries("v1.33.13", "v1.34.4")
		s.announce(s.hosts...)
		s.pass(20 * time.Minute)
		for _, h := range s.hosts {
			if h.joins > 0 {
				s.t.Errorf("%s was joined to a cluster of %v", h.name, s.apiServers)
			}
		}
		s.record("the cluster goes to v1.33.1")
		s.apiServers[0] = "v1.33.1"
		s.until("all are nodes", time.Hour, func() bool { return s.countKubelet("v1.33.13") == 2 && s.ready() == 2 })
	})
}

// TestStoryOperatorStartsDuringClusterUpgrade: operator and cluster are upgraded together, and the last old API server is down when the new
// operator starts. Since it returns, no node may follow yet.
func TestStoryOperatorStartsDuringClusterUpgrade(t *testing.T) {
	runStory(t, "operator-starts-while-cluster-moves", 2, atMost(1), func(s *story) {
		s.apiServers = []string{"v1.34.1"}
		s.carries("v1.34.4", "v1.35.2")
		s.announce(s.hosts...)
		s.until("all are nodes", time.Hour, func() bool { return s.countKubelet("v1.34.4") == 2 && s.ready() == 2 })
		s.record("another operator starts and finds only an API server of v1.35.1")
		s.apiServers = []string{"v1.35.1"}
		s.carries("v1.34.4", "v1.35.2")
		s.pass(30 * time.Second)
		s.record("the API server of v1.34.1 returns")
		s.apiServers = []string{"v1.35.1", "v1.34.1"}
		s.pass(20 * time.Minute)
		if n := s.countKubelet("v1.34.4"); n != 2 || s.ready() != 2 {
			s.t.Errorf("%d nodes have the old kubelet, %d are in service, want both", n, s.ready())
		}
		s.record("all API servers go to v1.35.1")
		s.apiServers = []string{"v1.35.1"}
		s.until("all have the new kubelet", 2*time.Hour, func() bool { return s.countKubelet("v1.35.2") == 2 && s.ready() == 2 })
	})
}
