package supervisor

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// nodeWith returns a Node with these internal addresses and a host name.
func nodeWith(addresses ...string) *corev1.Node {
	node := &corev1.Node{Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "win-1"}}}}
	for _, a := range addresses {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return node
}

func TestKubeProxyExitIsExpectedWhenNodeAddressesChange(t *testing.T) {
	renamed := nodeWith("10.0.0.1")
	renamed.Status.Addresses[0].Address = "win-2"
	for name, test := range map[string]struct {
		seen []*corev1.Node
		want bool
	}{
		"the first time":         {[]*corev1.Node{nodeWith("10.0.0.1")}, false},
		"the same":               {[]*corev1.Node{nodeWith("10.0.0.1"), nodeWith("10.0.0.1")}, false},
		"another name":           {[]*corev1.Node{nodeWith("10.0.0.1"), renamed}, false},
		"another address":        {[]*corev1.Node{nodeWith("10.0.0.1"), nodeWith("10.0.0.2")}, true},
		"one more address":       {[]*corev1.Node{nodeWith("10.0.0.1"), nodeWith("10.0.0.1", "10.0.0.2")}, true},
		"addresses that come":    {[]*corev1.Node{nodeWith(), nodeWith("10.0.0.1")}, true},
		"a Node that is deleted": {[]*corev1.Node{nodeWith("10.0.0.1"), nil}, true},
		"an added Node":          {[]*corev1.Node{nil, nodeWith("10.0.0.1")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Supervisor{restartRequested: state.NewSignal(), expected: map[string]time.Time{}}
			for _, node := range test.seen {
				s.Follow(node)
			}
			if got := !s.expectedEnd(desired.KubeProxyService).IsZero(); got != test.want {
				t.Errorf("kube-proxy is expected to end: %t, want %t", got, test.want)
			}
			if woken := len(s.restartRequested) > 0; woken != test.want {
				t.Errorf("the supervisor is woken: %t, want %t", woken, test.want)
			}
			if !s.expectedEnd(desired.KubeletService).IsZero() {
				t.Error("the kubelet is expected to end")
			}
		})
	}
}

func TestExpectedExitIsNoCrash(t *testing.T) {
	const minute = time.Minute
	for name, test := range map[string]struct {
		ends      []time.Duration
		expected  time.Duration
		crashes   int
		isLooping bool
	}{
		"seen before the end":          {[]time.Duration{minute}, minute - endsWithin, 0, false},
		"seen after the end":           {[]time.Duration{minute}, minute + endsWithin, 0, false},
		"long before":                  {[]time.Duration{minute}, minute - endsWithin - 1, 1, false},
		"long after":                   {[]time.Duration{minute}, minute + endsWithin + 1, 1, false},
		"the third of three":           {[]time.Duration{minute, 2 * minute, 3 * minute}, 3 * minute, 2, false},
		"one of four":                  {[]time.Duration{1, minute, 2 * minute, 3 * minute}, 3 * minute, 3, true},
		"none of three in a real loop": {[]time.Duration{1, minute, 2 * minute}, 4 * minute, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := historyOf(1, test.ends...)
			c.dropExpected(at(test.expected))
			if len(c.crashes) != test.crashes || c.isLooping != test.isLooping {
				t.Errorf("%d crashes, it loops: %t; want %d, %t", len(c.crashes), c.isLooping, test.crashes, test.isLooping)
			}
		})
	}
}
