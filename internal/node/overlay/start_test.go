package overlay_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/overlay"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func TestRestartOfTheProgramChangesNothing(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(1)
		h.stop()
		h.service.ResetCalls()
		h.start()
		e.passes(time.Minute)
		h.wantChanges(map[string]int{})
		e.linux(2)
		e.await(time.Second, "it works", func() bool { return h.has(linuxRemote(1), linuxRemote(2)) })
	})
}

func TestLateAddressesAreAwaited(t *testing.T) {
	story(t, func(e *env) {
		e.linux(1)
		h := e.windows(1, sim.HNSOptions{Settle: 25 * time.Second}).start()
		e.await(2*time.Minute, "the overlay is configured", func() bool { return h.has(linuxRemote(1)) && h.published() })
		h.wantChanges(map[string]int{"CreateNetwork": 2, "AddRemotes": 1})
		if h.log.count("Connecting to the API server again") == 0 {
			t.Error("the program still waits for connections that were cut")
		}
	})
}

// TestNetworkWithoutAddressesIsRecreated: Windows may create a network and never report its addresses, so that pods cannot use it. A network
// that pods use stays, whatever Windows reports later.
func TestNetworkWithoutAddressesIsRecreated(t *testing.T) {
	for name, loses := range map[string]func(*hns.Network){
		"of the host": func(n *hns.Network) { n.ManagementIP = netip.Addr{} }, "of the router": func(n *hns.Network) { n.RouterMAC = "" },
	} {
		for _, wasUsed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", used before: ", wasUsed), func(t *testing.T) {
				story(t, func(e *env) {
					h := e.overlaid(1)
					h.stop()
					before, _ := h.network(overlay.Network)
					h.service.Edit(before.ID, loses)
					if !wasUsed {
						h.forget()
						h.service.Edit(before.ID, func(n *hns.Network) { n.Remotes = nil })
					}
					h.start()
					e.passes(time.Second) // the remote subnets are back
					h.service.ResetCalls()
					e.passes(109 * time.Second)
					h.wantChanges(map[string]int{})
					if wasUsed {
						e.passes(time.Hour)
						h.wantChanges(map[string]int{})
						return
					}
					e.await(time.Minute, "the network is another one", func() bool {
						n, _ := h.network(overlay.Network)
						return n.ID != before.ID && n.ManagementIP.IsValid() && h.published() && h.has(linuxRemote(1))
					})
					h.wantChanges(map[string]int{"DeleteNetwork": 1, "CreateNetwork": 1, "AddRemotes": 1})
				})
			})
		}
	}
}

func TestUnreadableRouterAddressIsLogged(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(0)
		h.stop()
		n, _ := h.network(overlay.Network)
		h.service.Edit(n.ID, func(n *hns.Network) { n.RouterMAC = "nonsense" })
		h.service.ResetCalls()
		h.start()
		e.passes(5 * time.Minute)
		h.wantChanges(map[string]int{})
		if h.log.count("Windows has not reported the addresses of the network") == 0 {
			t.Error("the log does not report why other nodes cannot reach the pods")
		}
	})
}

// TestOverlayWaitsForTheBaseNetwork: a network cannot be created on a switch that is not ready.
func TestOverlayWaitsForTheBaseNetwork(t *testing.T) {
	story(t, func(e *env) {
		h := e.windows(1, sim.HNSOptions{})
		base := h.service.Add(hns.State{Networks: []hns.Network{{Name: overlay.BaseNetwork, Type: hns.Overlay, Persistent: true,
			Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("100.64.0.0/30"), Gateway: netip.MustParseAddr("100.64.0.2"), VNI: 4098}}}}}).Networks[0]
		h.start()
		e.passes(30 * time.Second)
		h.wantChanges(map[string]int{})
		h.service.Edit(base.ID, func(n *hns.Network) { n.ManagementIP = netip.MustParseAddr("192.0.2.1") })
		e.await(3*time.Second, "the overlay is configured", h.published)
		h.wantChanges(map[string]int{"CreateNetwork": 1})
	})
}

func TestInterruptedStartIsCompleted(t *testing.T) {
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
		"base without overlay":       {[]hns.Network{base}, map[string]int{"CreateNetwork": 1, "AddRemotes": 1}},
		"base without address":       {[]hns.Network{with(base, func(n *hns.Network) { n.ManagementIP = netip.Addr{} })}, map[string]int{"CreateNetwork": 1, "AddRemotes": 1}},
		"network without remotes":    {[]hns.Network{base, pods}, map[string]int{"AddRemotes": 1}},
		"network with an old subnet": {[]hns.Network{base, with(pods, func(n *hns.Network) { n.Subnets[0].Prefix = netip.MustParsePrefix("10.132.9.0/24") })}, map[string]int{"DeleteNetwork": 1, "CreateNetwork": 1, "AddRemotes": 1}},
		"network without route":      {[]hns.Network{base, with(pods, func(n *hns.Network) { n.HostRoute = false })}, map[string]int{"AddHostRoute": 1, "AddRemotes": 1}},
		"network of another program": {[]hns.Network{foreign}, map[string]int{"CreateNetwork": 2, "AddRemotes": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(e *env) {
				e.linux(1)
				h := e.windows(1, sim.HNSOptions{})
				h.service.Add(hns.State{Networks: test.there})
				h.start()
				e.await(2*time.Minute, "the overlay is configured", func() bool { return h.published() && h.has(linuxRemote(1)) })
				e.passes(time.Minute)
				h.wantChanges(test.want)
				if _, kept := h.network("vxlan0"); kept != (test.there[0].Name == "vxlan0") {
					t.Error("a network of another program was removed")
				}
			})
		})
	}
}

// cutHNS ends the program at one of its calls, before or after it was executed.
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

func TestStartInterruptedAtAnyCallIsCompleted(t *testing.T) {
	for at := 1; at <= 3; at++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("call %d, after it %t", at, after), func(t *testing.T) {
				story(t, func(e *env) {
					e.linux(1)
					h := e.windows(1, sim.HNSOptions{})
					ctx, cancel := context.WithCancel(context.Background())
					cut := h.options
					cut.HNS = &cutHNS{HNS: h.service, at: at, after: after, cut: cancel}
					overlay.Run(ctx, cut)
					if ctx.Err() == nil {
						t.Fatal("it was not interrupted")
					}
					h.start()
					e.await(time.Minute, "the overlay is configured", func() bool { return h.published() && h.has(linuxRemote(1)) })
					if n := h.changes()["CreateNetwork"]; n != 2 {
						t.Errorf("%d networks were created, want 2", n)
					}
				})
			})
		}
	}
}

func TestConfiguredVXLANPortIsUsed(t *testing.T) {
	story(t, func(e *env) {
		e.linux(1)
		h := e.windows(1, sim.HNSOptions{})
		h.options.Settings.VXLANPort = 9898
		h.start()
		e.await(time.Minute, "the overlay is configured", func() bool { return h.published() && h.has(linuxRemote(1)) })
		for _, n := range h.service.State().Networks {
			if n.VXLANPort != 9898 {
				t.Errorf("network %s has port %d", n.Name, n.VXLANPort)
			}
		}
		h.stop()
		h.options.Settings.VXLANPort = 4789
		h.service.ResetCalls()
		h.start()
		e.await(time.Minute, "the overlay is restored", func() bool {
			n, _ := h.network(overlay.Network)
			return h.published() && h.has(linuxRemote(1)) && n.VXLANPort == 0
		})
		h.wantChanges(map[string]int{"DeleteNetwork": 2, "CreateNetwork": 2, "AddRemotes": 1})
	})
}

func TestUnsupportedVXLANPortIsLoggedOnce(t *testing.T) {
	story(t, func(e *env) {
		h := e.windows(1, sim.HNSOptions{Build: 17763})
		h.options.Settings.VXLANPort = 9898
		h.start()
		e.passes(10 * time.Minute)
		if networks := h.service.State().Networks; len(networks) > 0 {
			t.Errorf("networks were created: %v", networks)
		}
		if n := h.log.count("supports only VXLAN port"); n != 1 {
			t.Errorf("it was logged %d times, want once:\n%s", n, h.log)
		}
		if h.log.count("Connecting to the API server again") > 0 {
			t.Error("it reconnects without a lost connection")
		}
	})
}
