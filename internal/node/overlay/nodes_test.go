package overlay_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/overlay"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func TestThreeNodesGetRemoteSubnetsOfEachOther(t *testing.T) {
	story(t, func(e *env) {
		e.linux(1)
		one, two, three := e.windows(1, sim.HNSOptions{}).start(), e.windows(2, sim.HNSOptions{}).start(), e.windows(3, sim.HNSOptions{}).start()
		e.await(time.Minute, "all have published the addresses of their routers", func() bool { return one.published() && two.published() && three.published() })
		e.await(time.Minute, "all have the remote subnets of all others", func() bool {
			return one.has(linuxRemote(1), two.remote(), three.remote()) && two.has(linuxRemote(1), one.remote(), three.remote()) && three.has(linuxRemote(1), one.remote(), two.remote())
		})
		want := []hns.Network{{
			Name: "BaseOVNKubernetesHybridOverlayNetwork", Type: hns.Overlay, Persistent: true, ManagementIP: netip.MustParseAddr("192.0.2.1"),
			Subnets:   []hns.Subnet{{Prefix: netip.MustParsePrefix("100.64.0.0/30"), Gateway: netip.MustParseAddr("100.64.0.2"), VNI: 4098}},
			RouterMAC: "00-15-5D-02-01-02",
		}, {
			Name: "OVNKubernetesHybridOverlayNetwork", Type: hns.Overlay, HostRoute: true, AutomaticDNS: true, ManagementIP: netip.MustParseAddr("192.0.2.1"),
			Subnets:   []hns.Subnet{{Prefix: netip.MustParsePrefix("10.132.1.0/24"), Gateway: netip.MustParseAddr("10.132.1.1"), VNI: 4097}},
			RouterMAC: "00-15-5D-02-01-03",
			Remotes: []hns.RemoteSubnet{
				linuxRemote(1),
				{Prefix: netip.MustParsePrefix("10.132.2.0/24"), VNI: 4097, Host: netip.MustParseAddr("192.0.2.2"), RouterMAC: "00-15-5D-02-02-03"},
				{Prefix: netip.MustParsePrefix("10.132.3.0/24"), VNI: 4097, Host: netip.MustParseAddr("192.0.2.3"), RouterMAC: "00-15-5D-02-03-03"},
			},
		}}
		if diff := cmp.Diff(want, one.service.State().Networks, compared()); diff != "" {
			t.Errorf("networks of %s (-want +got):\n%s", one.node, diff)
		}
	})
}

func TestEachNodeChangeIsOneCall(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(1)

		h.service.ResetCalls()
		e.linux(2)
		e.await(time.Second, "a node joined", func() bool { return h.has(linuxRemote(1), linuxRemote(2)) })
		e.passes(time.Minute)
		h.wantChanges(map[string]int{"AddRemotes": 1})

		h.service.ResetCalls()
		e.annotate("linux-2", overlay.LinuxSubnetsAnnotation, `{"default":["10.128.77.0/24"]}`)
		moved := linuxRemote(2)
		moved.Prefix = netip.MustParsePrefix("10.128.77.0/24")
		e.await(time.Second, "its subnet changed", func() bool { return h.has(linuxRemote(1), moved) })
		e.passes(time.Minute)
		h.wantChanges(map[string]int{"AddRemotes": 1, "RemoveRemotes": 1})

		h.service.ResetCalls()
		e.cluster.Delete(nodePath("linux-2"))
		e.await(time.Second, "it left", func() bool { return h.has(linuxRemote(1)) })
		e.passes(time.Minute)
		h.wantChanges(map[string]int{"RemoveRemotes": 1})
	})
}

func TestNodeHeartbeatsCauseNoCalls(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(1)
		e.passes(time.Second)
		h.service.ResetCalls()
		for i := range 50 {
			e.annotate("linux-1", "example.com/beat", fmt.Sprint(i))
		}
		e.passes(time.Second)
		if calls := h.service.Calls(); len(calls) > 1 || calls["Networks"] > 1 { // one resync can be due
			t.Errorf("calls: %v", calls)
		}
	})
}

func TestThousandNodesAtStartNeedFewCalls(t *testing.T) {
	story(t, func(e *env) {
		var remotes []hns.RemoteSubnet
		for i := range 1000 {
			e.linux(i)
			remotes = append(remotes, linuxRemote(i))
		}
		h := e.windows(1, sim.HNSOptions{})
		h.service.Slow(100 * time.Millisecond)
		h.start()
		e.await(5*time.Second, "all remote subnets are there", func() bool { return h.has(remotes...) })
		h.wantChanges(map[string]int{"CreateNetwork": 2, "AddRemotes": 4})
	})
}

func TestRejectedRemoteSubnetBlocksNoOther(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(0)
		// Another program has added a remote subnet that overlaps the one of a node.
		n, _ := h.network(overlay.Network)
		foreign := linuxRemote(5)
		foreign.VNI = 4242
		h.service.Edit(n.ID, func(n *hns.Network) { n.Remotes = []hns.RemoteSubnet{foreign} })
		want := []hns.RemoteSubnet{foreign}
		for i := range 20 {
			e.linux(i)
			if i != 5 {
				want = append(want, linuxRemote(i))
			}
		}
		e.await(time.Minute, "the other remote subnets are there", func() bool { return h.has(want...) })
		e.passes(time.Minute)
		if !h.has(want...) {
			t.Errorf("remote subnets are %v", n.Remotes)
		}
		h.service.Edit(n.ID, func(n *hns.Network) { n.Remotes = nil })
		e.await(time.Minute, "the last remote subnet exists as well", func() bool { return h.has(append(want[1:], linuxRemote(5))...) })
	})
}

func TestOwnSubnetChanges(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(1)
		h.service.ResetCalls()
		e.annotate(h.node, overlay.SubnetAnnotation, "10.132.200.0/24")
		e.await(5*time.Second, "the network has the new subnet", func() bool {
			n, _ := h.network(overlay.Network)
			return h.has(linuxRemote(1)) && n.Subnets[0].Prefix == netip.MustParsePrefix("10.132.200.0/24")
		})
		e.await(5*time.Second, "the new address of the router is published", h.published)
		h.wantChanges(map[string]int{"DeleteNetwork": 1, "CreateNetwork": 1, "AddRemotes": 1})
	})
}

// TestNothingIsRemovedWhileOwnNodeIsMissing: a deleted Node is recreated with the next heartbeat of its kubelet. Until then the networks must
// stay.
func TestNothingIsRemovedWhileOwnNodeIsMissing(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(1)
		h.service.ResetCalls()
		e.cluster.Delete(nodePath(h.node))
		e.cluster.Delete(nodePath("linux-1"))
		e.passes(10 * time.Minute)
		h.wantChanges(map[string]int{})
		e.node(h.node, "windows", "192.0.2.1", nil)
		e.passes(time.Minute)
		h.wantChanges(map[string]int{})
		e.annotate(h.node, overlay.SubnetAnnotation, "10.132.1.0/24")
		e.await(5*time.Second, "the remote subnet of the removed node is removed", func() bool { return h.has() })
		e.await(5*time.Second, "the new Node has the address of the router", h.published)
		h.wantChanges(map[string]int{"RemoveRemotes": 1})
	})
}

func TestInvalidNodeIsLoggedOnce(t *testing.T) {
	story(t, func(e *env) {
		e.linux(1)
		e.node("odd", "linux", "192.0.2.50", map[string]string{overlay.LinuxSubnetsAnnotation: "none", overlay.RouterMACAnnotation: "0a:58:0a:80:00:07"})
		h := e.windows(1, sim.HNSOptions{}).start()
		e.await(time.Minute, "the overlay is configured", func() bool { return h.published() && h.has(linuxRemote(1)) })
		e.passes(10 * time.Minute)
		if n := h.log.count(`Pods of a node are unreachable","node":"odd"`); n != 1 {
			t.Errorf("it was logged %d times, want once", n)
		}
	})
}

// TestNodeCannotClaimSubnetOfAnotherNode: a kubelet may write any subnet to its own Node.
func TestNodeCannotClaimSubnetOfAnotherNode(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(1)
		for name, subnet := range map[string]string{"a-same": "10.128.1.0/24", "a-part": "10.128.1.64/30", "a-more": "10.128.0.0/15", "a-own": "10.132.1.128/25"} {
			e.node(name, "windows", "192.0.2.66", map[string]string{overlay.SubnetAnnotation: subnet, overlay.RouterMACAnnotation: "00-15-5d-00-00-66"})
		}
		e.passes(time.Minute)
		if n, _ := h.network(overlay.Network); !h.has(linuxRemote(1)) {
			t.Errorf("remote subnets are %v", n.Remotes)
		}
		for _, reported := range []string{`"node":"a-same","error":"its subnet 10.128.1.0/24 overlaps 10.128.1.0/24, which node linux-1 has"`, `"node":"a-own","error":"its subnet 10.132.1.128/25 overlaps 10.132.1.0/24, which node win-1 has"`} {
			if h.log.count(reported) != 1 {
				t.Errorf("the log does not have %s once:\n%s", reported, h.log)
			}
		}
		h.stop()
		h.start()
		e.passes(time.Minute)
		if n, _ := h.network(overlay.Network); !h.has(linuxRemote(1)) {
			t.Errorf("after a restart, remote subnets are %v", n.Remotes)
		}
	})
}

// TestNodeProblemIsLoggedOnce expects such a Node to be used anyway.
func TestNodeProblemIsLoggedOnce(t *testing.T) {
	story(t, func(e *env) {
		e.linux(1)
		h := e.windows(1, sim.HNSOptions{})
		h.options.Settings.Ranges = ovnRanges()
		e.node("win-2", "windows", "192.0.100.2", map[string]string{overlay.SubnetAnnotation: "10.160.2.0/24", overlay.RouterMACAnnotation: "00-15-5d-00-00-66"})
		h.start()
		second := hns.RemoteSubnet{Prefix: netip.MustParsePrefix("10.160.2.0/24"), VNI: overlay.VNI, Host: netip.MustParseAddr("192.0.100.2"), RouterMAC: "00-15-5D-00-00-66"}
		e.await(time.Minute, "the overlay is configured", func() bool { return h.published() && h.has(linuxRemote(1), second) })
		e.passes(10 * time.Minute)
		for _, reported := range []string{"its InternalIP 192.0.100.2 is also that of node linux-1", "routes only the first range"} {
			if n := h.log.count(`"node":"win-2","error":"its `); n != 2 || h.log.count(reported) != 1 {
				t.Errorf("%q is not in the log once:\n%s", reported, h.log)
			}
		}
	})
}
