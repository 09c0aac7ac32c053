package overlay

import "testing"

// TestAHeartbeatIsNoChange: a cluster of a thousand nodes has several heartbeats a second.
func TestAHeartbeatIsNoChange(t *testing.T) {
	s := newState("win-1")
	changed := func() bool {
		select {
		case <-s.changed:
			return true
		default:
			return false
		}
	}
	n := windowsNode("win-2", "192.0.2.2", "10.132.2.0/24", "00-15-5D-00-00-02")
	s.replace(map[string]Node{"win-2": n})
	if !changed() {
		t.Error("new Nodes are no change")
	}
	again := n
	again.InternalIPs = []string{"192.0.2.2"}
	s.put(again)
	s.replace(map[string]Node{"win-2": again})
	s.remove("win-3")
	if changed() {
		t.Error("the same Nodes are a change")
	}
	for name, change := range map[string]func(*Node){
		"system":  func(n *Node) { n.Windows = false },
		"subnet":  func(n *Node) { n.Subnet = "10.132.3.0/24" },
		"subnets": func(n *Node) { n.LinuxSubnets = "{}" },
		"router":  func(n *Node) { n.RouterMAC = "" },
		"address": func(n *Node) { n.InternalIPs = nil },
	} {
		s.put(n)
		changed()
		other := n
		change(&other)
		s.put(other)
		if !changed() {
			t.Errorf("%s: another one is no change", name)
		}
	}
	s.remove("win-2")
	if !changed() {
		t.Error("a Node that is gone is no change")
	}
}
