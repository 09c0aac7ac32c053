package overlay_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/hns"
	"github.com/windows-machine-config/wmco/internal/overlay"
	"github.com/windows-machine-config/wmco/internal/sim"
)

func TestThreeNodesKnowEachOther(t *testing.T) {
	story(t, func(w *world) {
		w.linux(1)
		one, two, three := w.windows(1, sim.HNSOptions{}).start(), w.windows(2, sim.HNSOptions{}).start(), w.windows(3, sim.HNSOptions{}).start()
		w.awaits(time.Minute, "all have told the addresses of their routers", func() bool { return one.told() && two.told() && three.told() })
		w.awaits(time.Minute, "all have ways to all others", func() bool {
			return one.has(linuxWay(1), two.way(), three.way()) && two.has(linuxWay(1), one.way(), three.way()) && three.has(linuxWay(1), one.way(), two.way())
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
				linuxWay(1),
				{Prefix: netip.MustParsePrefix("10.132.2.0/24"), VNI: 4097, Host: netip.MustParseAddr("192.0.2.2"), RouterMAC: "00-15-5D-02-02-03"},
				{Prefix: netip.MustParsePrefix("10.132.3.0/24"), VNI: 4097, Host: netip.MustParseAddr("192.0.2.3"), RouterMAC: "00-15-5D-02-03-03"},
			},
		}}
		if diff := cmp.Diff(want, one.service.State().Networks, compared()); diff != "" {
			t.Errorf("networks of %s (-want +got):\n%s", one.node, diff)
		}
	})
}

func TestEachChangeOfANodeIsOneCall(t *testing.T) {
	story(t, func(w *world) {
		w.linux(1)
		h := w.windows(1, sim.HNSOptions{}).start()
		w.awaits(time.Minute, "the overlay is there", func() bool { return h.told() && h.has(linuxWay(1)) })

		h.service.ResetCalls()
		w.linux(2)
		w.awaits(time.Second, "a node joined", func() bool { return h.has(linuxWay(1), linuxWay(2)) })
		w.passes(time.Minute)
		h.wantChanges(map[string]int{"AddRemotes": 1})

		h.service.ResetCalls()
		w.annotate("linux-2", overlay.LinuxSubnetsAnnotation, `{"default":["10.128.77.0/24"]}`)
		moved := linuxWay(2)
		moved.Prefix = netip.MustParsePrefix("10.128.77.0/24")
		w.awaits(time.Second, "its subnet changed", func() bool { return h.has(linuxWay(1), moved) })
		w.passes(time.Minute)
		h.wantChanges(map[string]int{"AddRemotes": 1, "RemoveRemotes": 1})

		h.service.ResetCalls()
		w.cluster.Delete(nodePath("linux-2"))
		w.awaits(time.Second, "it left", func() bool { return h.has(linuxWay(1)) })
		w.passes(time.Minute)
		h.wantChanges(map[string]int{"RemoveRemotes": 1})
	})
}

func TestHeartbeatsOfNodesCostNothing(t *testing.T) {
	story(t, func(w *world) {
		w.linux(1)
		h := w.windows(1, sim.HNSOptions{}).start()
		w.awaits(time.Minute, "the overlay is there", func() bool { return h.told() && h.has(linuxWay(1)) })
		w.passes(time.Second)
		h.service.ResetCalls()
		for i := range 50 {
			w.annotate("linux-1", "example.com/beat", fmt.Sprint(i))
		}
		w.passes(time.Second)
		if calls := h.service.Calls(); len(calls) > 1 || calls["Networks"] > 1 { // the look that is due anyway
			t.Errorf("calls: %v", calls)
		}
	})
}

func TestThousandNodesAtStartAreFewCalls(t *testing.T) {
	story(t, func(w *world) {
		var ways []hns.RemoteSubnet
		for i := range 1000 {
			w.linux(i)
			ways = append(ways, linuxWay(i))
		}
		h := w.windows(1, sim.HNSOptions{})
		h.service.Slow(100 * time.Millisecond)
		h.start()
		w.awaits(5*time.Second, "all ways are there", func() bool { return h.has(ways...) })
		h.wantChanges(map[string]int{"CreateNetwork": 2, "AddRemotes": 4})
	})
}

func TestRestartOfTheProgramChangesNothing(t *testing.T) {
	story(t, func(w *world) {
		w.linux(1)
		h := w.windows(1, sim.HNSOptions{}).start()
		w.awaits(time.Minute, "the overlay is there", func() bool { return h.told() && h.has(linuxWay(1)) })
		h.stop()
		h.service.ResetCalls()
		h.start()
		w.passes(time.Minute)
		h.wantChanges(map[string]int{})
		w.linux(2)
		w.awaits(time.Second, "it works", func() bool { return h.has(linuxWay(1), linuxWay(2)) })
	})
}

func TestRefusedWayKeepsNoOtherAway(t *testing.T) {
	story(t, func(w *world) {
		h := w.windows(1, sim.HNSOptions{}).start()
		w.awaits(time.Minute, "the overlay is there", h.told)
		// Somebody else has put a way to the subnet of a node there.
		n, _ := h.network(overlay.Network)
		foreign := linuxWay(5)
		foreign.VNI = 4242
		h.service.Edit(n.ID, func(n *hns.Network) { n.Remotes = []hns.RemoteSubnet{foreign} })
		want := []hns.RemoteSubnet{foreign}
		for i := range 20 {
			w.linux(i)
			if i != 5 {
				want = append(want, linuxWay(i))
			}
		}
		w.awaits(time.Minute, "the other ways are there", func() bool { return h.has(want...) })
		w.passes(time.Minute)
		if !h.has(want...) {
			t.Errorf("ways are %v", n.Remotes)
		}
		h.service.Edit(n.ID, func(n *hns.Network) { n.Remotes = nil })
		w.awaits(time.Minute, "the last way is there as well", func() bool { return h.has(append(want[1:], linuxWay(5))...) })
	})
}

func TestHNSThatForgotEverythingIsMended(t *testing.T) {
	story(t, func(w *world) {
		w.linux(1)
		h := w.windows(1, sim.HNSOptions{}).start()
		w.awaits(time.Minute, "the overlay is there", func() bool { return h.told() && h.has(linuxWay(1)) })
		w.passes(20 * time.Second)
		h.service.ResetCalls()
		h.service.Restart(true)
		w.awaits(3*time.Second, "all is back", func() bool { return h.has(linuxWay(1)) })
		w.awaits(3*time.Second, "the new address of the router is told", h.told)
		h.wantChanges(map[string]int{"CreateNetwork": 2, "AddRemotes": 1})
	})
}

func TestHNSThatRestartsWithWhatItHadIsLeftAlone(t *testing.T) {
	story(t, func(w *world) {
		w.linux(1)
		h := w.windows(1, sim.HNSOptions{}).start()
		w.awaits(time.Minute, "the overlay is there", func() bool { return h.told() && h.has(linuxWay(1)) })
		before := h.service.State()
		h.service.ResetCalls()
		h.service.Stop()
		w.passes(10 * time.Minute)
		w.linux(2)
		w.passes(time.Minute)
		h.wantChanges(map[string]int{})
		h.service.Start(false)
		w.awaits(3*time.Second, "what happened meanwhile is made up for", func() bool { return h.has(linuxWay(1), linuxWay(2)) })
		w.passes(time.Minute)
		h.wantChanges(map[string]int{"AddRemotes": 1})
		if after := h.service.State(); after.Networks[0].ID != before.Networks[0].ID || after.Networks[1].ID != before.Networks[1].ID {
			t.Error("networks were made anew")
		}
		if is, again := h.log.count("The overlay is not as it should be"), h.log.count("The overlay is as it should be"); is != 1 || again < 1 {
			t.Errorf("it was said %d times that HNS does not answer, and %d times that it does", is, again)
		}
	})
}

func TestLossIsNoticedAlsoWhileNodesChange(t *testing.T) {
	story(t, func(w *world) {
		w.linux(1)
		h := w.windows(1, sim.HNSOptions{}).start()
		w.awaits(time.Minute, "the overlay is there", func() bool { return h.told() && h.has(linuxWay(1)) })
		n, _ := h.network(overlay.Network)
		h.service.Edit(n.ID, func(n *hns.Network) { n.Remotes = nil })
		for i := range 6 {
			w.linux(2 + i)
			w.passes(5 * time.Second)
		}
		if !h.has(ways(8)[1:]...) {
			t.Error("what was lost is not back after 30 seconds")
		}
	})
}

// A service that has just started may not have read its networks yet.
func TestNetworkThatComesBackByItselfIsNotMadeAgain(t *testing.T) {
	story(t, func(w *world) {
		w.linux(1)
		h := w.windows(1, sim.HNSOptions{}).start()
		w.awaits(time.Minute, "the overlay is there", func() bool { return h.told() && h.has(linuxWay(1)) })
		had := h.service.State()
		h.service.ResetCalls()
		h.service.Restart(true)
		w.passes(500 * time.Millisecond)
		h.service.Add(had)
		w.passes(time.Minute)
		h.wantChanges(map[string]int{})
		if !h.has(linuxWay(1)) {
			t.Error("the networks are not what they were")
		}
	})
}

func TestWhatIsLostBehindItsBackIsBackWithin30Seconds(t *testing.T) {
	for name, test := range map[string]struct {
		lose func(h *host, base, pods hns.Network)
		want map[string]int
	}{
		"network of pods": {func(h *host, _, pods hns.Network) { h.service.Lose(pods.ID) }, map[string]int{"CreateNetwork": 1, "AddRemotes": 1}},
		"base network":    {func(h *host, base, _ hns.Network) { h.service.Lose(base.ID) }, map[string]int{"CreateNetwork": 1}},
		"one way": {func(h *host, _, pods hns.Network) {
			h.service.Edit(pods.ID, func(n *hns.Network) { n.Remotes = n.Remotes[1:] })
		}, map[string]int{"AddRemotes": 1}},
		"all ways": {func(h *host, _, pods hns.Network) { h.service.Edit(pods.ID, func(n *hns.Network) { n.Remotes = nil }) }, map[string]int{"AddRemotes": 1}},
		"a way is altered": {func(h *host, _, pods hns.Network) {
			h.service.Edit(pods.ID, func(n *hns.Network) { n.Remotes[0].Host = netip.MustParseAddr("192.0.2.99") })
		}, map[string]int{"AddRemotes": 1, "RemoveRemotes": 1}},
		"a stale way": {func(h *host, _, pods hns.Network) {
			h.service.Edit(pods.ID, func(n *hns.Network) { n.Remotes = append(n.Remotes, linuxWay(9)) })
		}, map[string]int{"RemoveRemotes": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *world) {
				w.linux(1)
				w.linux(2)
				h := w.windows(1, sim.HNSOptions{}).start()
				w.awaits(time.Minute, "the overlay is there", func() bool { return h.told() && h.has(linuxWay(1), linuxWay(2)) })
				w.passes(time.Minute)
				h.service.ResetCalls()
				base, _ := h.network(overlay.BaseNetwork)
				pods, _ := h.network(overlay.Network)
				test.lose(h, base, pods)
				if h.has(linuxWay(1), linuxWay(2)) {
					t.Fatal("nothing was lost")
				}
				w.awaits(30*time.Second, "all is back", func() bool { return h.has(linuxWay(1), linuxWay(2)) && h.told() })
				h.wantChanges(test.want)
			})
		})
	}
}

func TestOwnSubnetChanges(t *testing.T) {
	story(t, func(w *world) {
		w.linux(1)
		h := w.windows(1, sim.HNSOptions{}).start()
		w.awaits(time.Minute, "the overlay is there", func() bool { return h.told() && h.has(linuxWay(1)) })
		h.service.ResetCalls()
		w.annotate(h.node, overlay.SubnetAnnotation, "10.132.200.0/24")
		w.awaits(5*time.Second, "the network has the new subnet", func() bool {
			n, _ := h.network(overlay.Network)
			return h.has(linuxWay(1)) && n.Subnets[0].Prefix == netip.MustParsePrefix("10.132.200.0/24")
		})
		w.awaits(5*time.Second, "the new address of the router is told", h.told)
		h.wantChanges(map[string]int{"DeleteNetwork": 1, "CreateNetwork": 1, "AddRemotes": 1})
	})
}

// A Node that somebody deletes comes back with the next heartbeat of its kubelet. Until then nothing follows from what is not there.
func TestNothingGoesWhileTheOwnNodeIsAbsent(t *testing.T) {
	story(t, func(w *world) {
		w.linux(1)
		h := w.windows(1, sim.HNSOptions{}).start()
		w.awaits(time.Minute, "the overlay is there", func() bool { return h.told() && h.has(linuxWay(1)) })
		h.service.ResetCalls()
		w.cluster.Delete(nodePath(h.node))
		w.cluster.Delete(nodePath("linux-1"))
		w.passes(10 * time.Minute)
		h.wantChanges(map[string]int{})
		w.node(h.node, "windows", "192.0.2.1", nil)
		w.passes(time.Minute)
		h.wantChanges(map[string]int{})
		w.annotate(h.node, overlay.SubnetAnnotation, "10.132.1.0/24")
		w.awaits(5*time.Second, "the way to the node that left is gone", func() bool { return h.has() })
		w.awaits(5*time.Second, "the address of the router is told to the new Node", h.told)
		h.wantChanges(map[string]int{"RemoveRemotes": 1})
	})
}

func TestWindowsTakesItsTime(t *testing.T) {
	story(t, func(w *world) {
		w.linux(1)
		h := w.windows(1, sim.HNSOptions{Settle: 25 * time.Second}).start()
		w.awaits(2*time.Minute, "the overlay is there", func() bool { return h.has(linuxWay(1)) && h.told() })
		h.wantChanges(map[string]int{"CreateNetwork": 2, "AddRemotes": 1})
		if h.log.count("Connecting to the API server again") == 0 {
			t.Error("the connections that were cut are still waited for")
		}
	})
}

// A network cannot be created on a switch that is not ready.
func TestOverlayWaitsForTheSwitchBelowIt(t *testing.T) {
	story(t, func(w *world) {
		h := w.windows(1, sim.HNSOptions{})
		base := h.service.Add(hns.State{Networks: []hns.Network{{Name: overlay.BaseNetwork, Type: hns.Overlay, Persistent: true,
			Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("100.64.0.0/30"), Gateway: netip.MustParseAddr("100.64.0.2"), VNI: 4098}}}}}).Networks[0]
		h.start()
		w.passes(30 * time.Second)
		h.wantChanges(map[string]int{})
		h.service.Edit(base.ID, func(n *hns.Network) { n.ManagementIP = netip.MustParseAddr("192.0.2.1") })
		w.awaits(3*time.Second, "the overlay is there", h.told)
		h.wantChanges(map[string]int{"CreateNetwork": 1})
	})
}

func TestLeftoversOfACutStartAreMended(t *testing.T) {
	prefix := netip.MustParsePrefix("10.132.1.0/24")
	subnet := hns.Subnet{Prefix: prefix, Gateway: prefix.Addr().Next(), VNI: overlay.VNI}
	base := hns.Network{Name: overlay.BaseNetwork, Type: hns.Overlay, Persistent: true, ManagementIP: netip.MustParseAddr("192.0.2.1"),
		Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("100.64.0.0/30"), Gateway: netip.MustParseAddr("100.64.0.2"), VNI: 4098}}}
	pods := hns.Network{Name: overlay.Network, Type: hns.Overlay, HostRoute: true, AutomaticDNS: true, Subnets: []hns.Subnet{subnet},
		ManagementIP: netip.MustParseAddr("192.0.2.1"), RouterMAC: "00-15-5D-00-00-77"}
	with := func(n hns.Network, change func(*hns.Network)) hns.Network {
		n.Subnets = slices.Clone(n.Subnets)
		change(&n)
		return n
	}
	foreign := hns.Network{Name: "vxlan0", Type: hns.Overlay, Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.244.1.0/24"), VNI: 4096}}}
	for name, test := range map[string]struct {
		there []hns.Network
		want  map[string]int
	}{
		"base without overlay":     {[]hns.Network{base}, map[string]int{"CreateNetwork": 1, "AddRemotes": 1}},
		"base without address":     {[]hns.Network{with(base, func(n *hns.Network) { n.ManagementIP = netip.Addr{} })}, map[string]int{"CreateNetwork": 1, "AddRemotes": 1}},
		"network without ways":     {[]hns.Network{base, pods}, map[string]int{"AddRemotes": 1}},
		"network of another time":  {[]hns.Network{base, with(pods, func(n *hns.Network) { n.Subnets[0].Prefix = netip.MustParsePrefix("10.132.9.0/24") })}, map[string]int{"DeleteNetwork": 1, "CreateNetwork": 1, "AddRemotes": 1}},
		"network without route":    {[]hns.Network{base, with(pods, func(n *hns.Network) { n.HostRoute = false })}, map[string]int{"DeleteNetwork": 1, "CreateNetwork": 1, "AddRemotes": 1}},
		"network of somebody else": {[]hns.Network{foreign}, map[string]int{"CreateNetwork": 2, "AddRemotes": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *world) {
				w.linux(1)
				h := w.windows(1, sim.HNSOptions{})
				h.service.Add(hns.State{Networks: test.there})
				h.start()
				w.awaits(2*time.Minute, "the overlay is there", func() bool { return h.told() && h.has(linuxWay(1)) })
				w.passes(time.Minute)
				h.wantChanges(test.want)
				if _, kept := h.network("vxlan0"); kept != (test.there[0].Name == "vxlan0") {
					t.Error("a network of somebody else has gone")
				}
			})
		})
	}
}

// cutHNS ends the program at one of its calls, before or after the call was done.
type cutHNS struct {
	overlay.HNS
	calls, at int
	after     bool
	cut       func()
}

func (c *cutHNS) passing(done bool) {
	if !done {
		c.calls++
	}
	if c.calls == c.at && done == c.after {
		c.cut()
	}
}

// CreateNetwork implements overlay.HNS.
func (c *cutHNS) CreateNetwork(ctx context.Context, n hns.Network) (hns.Network, error) {
	c.passing(false)
	if ctx.Err() != nil {
		return hns.Network{}, ctx.Err()
	}
	n, err := c.HNS.CreateNetwork(ctx, n)
	c.passing(true)
	return n, err
}

// AddRemotes implements overlay.HNS.
func (c *cutHNS) AddRemotes(ctx context.Context, network string, remotes []hns.RemoteSubnet) error {
	c.passing(false)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := c.HNS.AddRemotes(ctx, network, remotes)
	c.passing(true)
	return err
}

func TestStartCutAnywhereIsFinishedByTheNext(t *testing.T) {
	for at := 1; at <= 3; at++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("call %d, after it %t", at, after), func(t *testing.T) {
				story(t, func(w *world) {
					w.linux(1)
					h := w.windows(1, sim.HNSOptions{})
					ctx, cancel := context.WithCancel(context.Background())
					cut := h.options
					cut.HNS = &cutHNS{HNS: h.service, at: at, after: after, cut: cancel}
					overlay.Run(ctx, cut)
					if ctx.Err() == nil {
						t.Fatal("it was not cut")
					}
					h.start()
					w.awaits(time.Minute, "the overlay is there", func() bool { return h.told() && h.has(linuxWay(1)) })
					if n := h.changes()["CreateNetwork"]; n != 2 {
						t.Errorf("%d networks were made, want 2", n)
					}
				})
			})
		}
	}
}

func TestAnotherPortForVXLAN(t *testing.T) {
	story(t, func(w *world) {
		w.linux(1)
		h := w.windows(1, sim.HNSOptions{})
		h.options.Settings.VXLANPort = 9898
		h.start()
		w.awaits(time.Minute, "the overlay is there", func() bool { return h.told() && h.has(linuxWay(1)) })
		for _, n := range h.service.State().Networks {
			if n.VXLANPort != 9898 {
				t.Errorf("network %s has port %d", n.Name, n.VXLANPort)
			}
		}
		h.stop()
		h.options.Settings.VXLANPort = 4789
		h.service.ResetCalls()
		h.start()
		w.awaits(time.Minute, "the overlay is there again", func() bool {
			n, _ := h.network(overlay.Network)
			return h.told() && h.has(linuxWay(1)) && n.VXLANPort == 0
		})
		h.wantChanges(map[string]int{"DeleteNetwork": 2, "CreateNetwork": 2, "AddRemotes": 1})
	})
}

func TestPortThatThisWindowsCannotHaveIsSaid(t *testing.T) {
	story(t, func(w *world) {
		h := w.windows(1, sim.HNSOptions{Build: 17763})
		h.options.Settings.VXLANPort = 9898
		h.start()
		w.passes(10 * time.Minute)
		if networks := h.service.State().Networks; len(networks) > 0 {
			t.Errorf("networks were made: %v", networks)
		}
		if n := h.log.count("can have no other VXLAN port"); n != 1 {
			t.Errorf("it was said %d times, want once:\n%s", n, h.log)
		}
		if h.log.count("Connecting to the API server again") > 0 {
			t.Error("connections that nothing has cut are made anew")
		}
	})
}

func TestUnreadableNodeIsToldOnce(t *testing.T) {
	story(t, func(w *world) {
		w.linux(1)
		w.node("odd", "linux", "192.0.2.50", map[string]string{overlay.LinuxSubnetsAnnotation: "none", overlay.RouterMACAnnotation: "0a:58:0a:80:00:07"})
		h := w.windows(1, sim.HNSOptions{}).start()
		w.awaits(time.Minute, "the overlay is there", func() bool { return h.told() && h.has(linuxWay(1)) })
		w.passes(10 * time.Minute)
		if n := h.log.count(`There is no way to the pods of a node","node":"odd"`); n != 1 {
			t.Errorf("it was said %d times, want once", n)
		}
	})
}

// A kubelet may write any subnet to its own Node.
func TestNodeThatClaimsTheSubnetOfAnotherGetsNoneOfItsPackets(t *testing.T) {
	story(t, func(w *world) {
		w.linux(1)
		h := w.windows(1, sim.HNSOptions{}).start()
		w.awaits(time.Minute, "the overlay is there", func() bool { return h.told() && h.has(linuxWay(1)) })
		for name, subnet := range map[string]string{"a-same": "10.128.1.0/24", "a-part": "10.128.1.64/30", "a-more": "10.128.0.0/15", "a-own": "10.132.1.128/25"} {
			w.node(name, "windows", "192.0.2.66", map[string]string{overlay.SubnetAnnotation: subnet, overlay.RouterMACAnnotation: "00-15-5d-00-00-66"})
		}
		w.passes(time.Minute)
		if n, _ := h.network(overlay.Network); !h.has(linuxWay(1)) {
			t.Errorf("ways are %v", n.Remotes)
		}
		for _, said := range []string{`"node":"a-same","error":"its subnet 10.128.1.0/24 shares addresses with 10.128.1.0/24, which node linux-1 has"`, `which node win-1 has`} {
			if h.log.count(said) != 1 {
				t.Errorf("the log does not have %s once:\n%s", said, h.log)
			}
		}
		h.stop()
		h.start()
		w.passes(time.Minute)
		if n, _ := h.network(overlay.Network); !h.has(linuxWay(1)) {
			t.Errorf("after a restart, ways are %v", n.Remotes)
		}
	})
}

func TestSubnetOutsideOfTheRangesIsNotBelieved(t *testing.T) {
	story(t, func(w *world) {
		w.linux(1)
		h := w.windows(1, sim.HNSOptions{})
		h.options.Settings.Ranges = overlay.Ranges{
			Cluster: []overlay.Range{{Prefix: netip.MustParsePrefix("10.128.0.0/14"), HostPrefix: 24}},
			Hybrid:  []overlay.Range{{Prefix: netip.MustParsePrefix("10.132.0.0/14"), HostPrefix: 24}},
		}
		w.node("a-world", "windows", "192.0.2.66", map[string]string{overlay.SubnetAnnotation: "8.0.0.0/5", overlay.RouterMACAnnotation: "00-15-5d-00-00-66"})
		h.start()
		w.awaits(time.Minute, "the overlay is there", func() bool { return h.told() && h.has(linuxWay(1)) })
		if h.log.count(`"node":"a-world","error":"its subnet 8.0.0.0/5 is none that a node gets of the hybrid cluster network [10.132.0.0/14/24]"`) != 1 {
			t.Errorf("the log does not say so:\n%s", h.log)
		}
	})
}
