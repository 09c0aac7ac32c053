package overlay

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestHeartbeatIsNoChange: a cluster of a thousand nodes has several heartbeats a second.
func TestHeartbeatIsNoChange(t *testing.T) {
	s, key := newState("win-1"), types.NamespacedName{Name: "win-2"}
	changed := func() bool {
		select {
		case <-s.changed:
			return true
		default:
			return false
		}
	}
	n := windowsNode("win-2", "192.0.2.2", "10.132.2.0/24", "00-15-5D-00-00-02")
	s.Replace(map[types.NamespacedName]Node{key: n})
	if !changed() {
		t.Error("new Nodes do not count as changes")
	}
	again := n
	again.InternalIPs = []string{"192.0.2.2"}
	s.Put(key, again)
	s.Replace(map[types.NamespacedName]Node{key: again})
	s.Remove(types.NamespacedName{Name: "win-3"})
	if changed() {
		t.Error("the same Nodes count as a change")
	}
	for name, change := range map[string]func(*Node){
		"system":  func(n *Node) { n.Windows = false },
		"subnet":  func(n *Node) { n.Subnet = "10.132.3.0/24" },
		"subnets": func(n *Node) { n.LinuxSubnets = "{}" },
		"router":  func(n *Node) { n.RouterMAC = "" },
		"address": func(n *Node) { n.InternalIPs = nil },
	} {
		s.Put(key, n)
		changed()
		other := n
		change(&other)
		s.Put(key, other)
		if !changed() {
			t.Errorf("%s: another one does not count as a change", name)
		}
	}
	s.Remove(key)
	if !changed() {
		t.Error("a removed Node does not count as a change")
	}
}
