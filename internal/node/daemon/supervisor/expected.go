package supervisor

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// endsWithin is the maximum time between seeing a change of the Node and the exit of a service because of it.
const endsWithin = 30 * time.Second

// Follow records the Node's addresses; node is nil when there is none. When the addresses of its Node change, kube-proxy from Kubernetes 1.37 on
// exits with an error, to restart with the new ones (OnNodeChange and OnNodeDelete in pkg/proxy/node.go). That does not count as a crash.
func (s *Supervisor) Follow(node *corev1.Node) {
	found := addressesOf(node)
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.addressesKnown && !slices.Equal(s.addresses, found)
	s.addressesKnown, s.addresses = true, found
	if changed {
		s.expected[desired.KubeProxyService] = time.Now()
		s.restartRequested.Send() // the crash may be counted already
	}
}

func addressesOf(node *corev1.Node) (all []string) {
	if node == nil {
		return nil
	}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP {
			all = append(all, string(a.Type)+" "+a.Address)
		}
	}
	return all
}

// expectedEnd returns when the service was last expected to exit on its own; zero for never.
func (s *Supervisor) expectedEnd(name string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expected[name]
}

// dropExpected removes the crashes around the time at which the service was expected to exit.
func (h *restartHistory) dropExpected(expected time.Time) {
	counted := len(h.crashes)
	h.crashes = slices.DeleteFunc(h.crashes, func(t time.Time) bool { return t.Sub(expected).Abs() <= endsWithin })
	if len(h.crashes) < counted {
		h.isLooping = h.isLooping && len(h.crashes) >= loopCrashes
	}
}
