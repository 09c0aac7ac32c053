package overlay_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/overlay"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// forget removes the program's record of the networks that it created.
func (h *host) forget() { _ = os.Remove(filepath.Join(h.options.CertDir, "made-networks")) }

// TestNetworksStayWithIncompleteReadback: what Windows does not return, or returns in another form, is no reason to remove a network. This applies to
// networks of this program, of one without its record, and of OVN-Kubernetes' own program.
func TestNetworksStayWithIncompleteReadback(t *testing.T) {
	for name, quirks := range map[string]sim.NetworkQuirks{
		"nothing":     {OmitsVNI: true, OmitsVXLANPort: true, OmitsAdapter: true},
		"no VNI":      {OmitsVNI: true},
		"no port":     {OmitsVXLANPort: true},
		"the virtual": {RenamesAdapter: true},
	} {
		for _, forgets := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", forgets: ", forgets), func(t *testing.T) {
				story(t, func(e *env) {
					e.linux(1)
					h := e.windows(1, sim.HNSOptions{Quirks: quirks})
					h.options.Settings = overlay.Settings{VXLANPort: 9898, Adapter: "Ethernet"}
					h.start()
					e.await(time.Minute, "the overlay is configured", func() bool { return h.published() && h.has(linuxRemote(1)) })
					h.wantChanges(map[string]int{"CreateNetwork": 2, "AddRemotes": 1})
					h.service.ResetCalls()
					for range 3 {
						h.stop()
						if forgets {
							h.forget()
						}
						h.service.Restart(false)
						h.start()
						e.passes(5 * time.Minute)
					}
					h.wantChanges(map[string]int{})
				})
			})
		}
	}
}

// TestChangedVXLANPortIsAppliedWithoutReadback: a change of settings is detected even if Windows does not return the setting, because it is
// stored.
func TestChangedVXLANPortIsAppliedWithoutReadback(t *testing.T) {
	story(t, func(e *env) {
		h := e.windows(1, sim.HNSOptions{Quirks: sim.NetworkQuirks{OmitsVXLANPort: true, OmitsVNI: true}})
		h.options.Settings.VXLANPort = 9898
		h.start()
		e.await(time.Minute, "the overlay is configured", h.published)
		h.stop()
		for _, port := range []uint16{4789, 9898} {
			h.options.Settings.VXLANPort = port
			h.start()
			e.await(time.Minute, "the networks have the other port", func() bool {
				n, once := h.network(overlay.Network)
				return once && n.VXLANPort == hns.OwnVXLANPort(port) && h.published()
			})
			h.stop()
		}
	})
}

// TestNetworksOfEarlierVersionAreRecorded: they match the settings when this version first sees them.
func TestNetworksOfEarlierVersionAreRecorded(t *testing.T) {
	story(t, func(e *env) {
		h := e.windows(1, sim.HNSOptions{})
		h.start()
		e.await(time.Minute, "the overlay is configured", h.published)
		h.stop()
		h.forget()
		h.service.ResetCalls()
		h.start()
		e.passes(10 * time.Minute)
		h.wantChanges(map[string]int{})
		h.stop()
		h.options.Settings.VXLANPort = 9898
		h.start()
		e.await(time.Minute, "the networks have the other port", func() bool {
			n, once := h.network(overlay.Network)
			return once && n.VXLANPort == 9898 && h.published()
		})
	})
}

func TestPodNetworkUsesSwitchOfBaseNetwork(t *testing.T) {
	adapters := []string{"Ethernet", "Ethernet 2"}
	for name, test := range map[string]struct {
		quirks  sim.NetworkQuirks
		adapter string // of the network of pods
		calls   map[string]int
	}{
		"the adapter is bound":     {sim.NetworkQuirks{Adapters: adapters}, "", map[string]int{"CreateNetwork": 2}},
		"an adapter must be named": {sim.NetworkQuirks{NeedsAdapter: true}, "Ethernet", map[string]int{"CreateNetwork": 3}},
		"Windows takes another":    {sim.NetworkQuirks{ChoosesAddress: "198.51.100.7"}, "Ethernet", map[string]int{"CreateNetwork": 3, "DeleteNetwork": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(e *env) {
				h := e.windows(1, sim.HNSOptions{Quirks: test.quirks})
				h.options.Settings.Adapter = "vEthernet (Ethernet) 2"
				h.start()
				e.await(time.Minute, "the overlay is configured", h.published)
				e.passes(10 * time.Minute)
				h.wantChanges(test.calls)
				base, _ := h.network(overlay.BaseNetwork)
				pods, once := h.network(overlay.Network)
				if base.Adapter != "Ethernet" || pods.Adapter != test.adapter || !once || pods.ManagementIP != netip.MustParseAddr("192.0.2.1") {
					t.Errorf("the base is on %q, the network of pods on %q with address %s; want %q", base.Adapter, pods.Adapter, pods.ManagementIP, test.adapter)
				}
				h.stop()
				h.start()
				e.passes(time.Minute)
				h.wantChanges(test.calls)
			})
		})
	}
}

// TestWrongAdapterIsReported: a host on which Windows always chooses the wrong adapter keeps its network and reports that.
func TestWrongAdapterIsReported(t *testing.T) {
	story(t, func(e *env) {
		h := e.windows(1, sim.HNSOptions{Quirks: sim.NetworkQuirks{ChoosesAddress: "198.51.100.7"}}).reporting()
		h.start()
		e.await(time.Minute, "the network exists", func() bool { _, once := h.network(overlay.Network); return once })
		e.passes(90 * time.Second)
		h.wantProblem(api.ReasonOverlayAdapterUnexpected, "adapter with address 198.51.100.7, but the node has 192.0.2.1")
		h.wantChanges(map[string]int{"CreateNetwork": 2})
	})
}

// TestDifferingNetworkIsReportedAndKept: if Windows returns something else than what this program requested, it is reported. The
// network stays, however often the program starts, because Windows may return the same for the next one.
func TestDifferingNetworkIsReportedAndKept(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*hns.Network)
		want string
	}{
		"another port":    {func(n *hns.Network) { n.VXLANPort = 8472 }, "VXLAN port 8472 instead of 9898"},
		"another VNI":     {func(n *hns.Network) { n.Subnets[0].VNI = 4711 }, "VNI 4711 instead of 4097"},
		"another gateway": {func(n *hns.Network) { n.Subnets[0].Gateway = netip.MustParseAddr("10.132.1.9") }, "gateway 10.132.1.9 instead of 10.132.1.1"},
		"another subnet":  {func(n *hns.Network) { n.Subnets[0].Prefix = netip.MustParsePrefix("10.139.1.0/24") }, "subnet 10.139.1.0/24 instead of 10.132.1.0/24"},
		"nothing":         {func(n *hns.Network) { n.VXLANPort, n.Subnets, n.Adapter = 0, nil, "" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(e *env) {
				h := e.windows(1, sim.HNSOptions{}).reporting()
				h.options.Settings.VXLANPort = 9898
				h.start()
				e.await(time.Minute, "the overlay is configured", h.published)
				h.service.ResetCalls()
				made, _ := h.network(overlay.Network)
				h.service.Edit(made.ID, test.edit)
				for range 2 {
					e.passes(90 * time.Second)
					reported := map[string]string{}
					for _, p := range h.problems() {
						if p.Reason != api.ReasonOverlayLinuxNodesMissing {
							reported[p.Reason] = p.Message
						}
					}
					if got := reported[api.ReasonOverlayNetworkUnexpected]; !strings.Contains(got, test.want) || (got == "") != (test.want == "") || len(reported) > 1 {
						t.Errorf("reported %v, want %q", reported, test.want)
					}
					h.stop()
					h.start()
				}
				h.wantChanges(map[string]int{})
				h.service.Edit(made.ID, func(n *hns.Network) { n.VXLANPort, n.Subnets = made.VXLANPort, made.Subnets })
				e.await(time.Minute, "no problem is reported any more", func() bool { return len(h.problems()) == 0 })
			})
		})
	}
}

// TestRefusedHostRouteIsRetried: if Windows refuses the host's route, the network stays. Only the route is retried.
func TestRefusedHostRouteIsRetried(t *testing.T) {
	story(t, func(e *env) {
		e.linux(1)
		h := e.windows(1, sim.HNSOptions{Quirks: sim.NetworkQuirks{RefusesHostRoute: true}}).reporting()
		h.start()
		e.await(time.Minute, "the overlay is configured", func() bool { return h.published() && h.has(linuxRemote(1)) })
		e.passes(90 * time.Second)
		h.wantProblem(api.ReasonOverlayHostRouteRefused, "the host cannot reach the pods of this node")
		e.passes(10 * time.Minute)
		h.stop()
		h.start()
		e.passes(10 * time.Minute)
		calls := h.changes()
		if calls["CreateNetwork"] != 2 || calls["DeleteNetwork"] != 0 || calls["AddHostRoute"] < 10 || calls["AddHostRoute"] > 30 {
			t.Errorf("calls in 20 minutes: %v", calls)
		}
		h.service.SetQuirks(sim.NetworkQuirks{})
		e.await(2*time.Minute, "the network has the route", func() bool { n, _ := h.network(overlay.Network); return n.HostRoute })
		e.await(time.Minute, "no problem is reported any more", func() bool { return len(h.problems()) == 0 })
		h.service.ResetCalls()
		e.passes(10 * time.Minute)
		h.wantChanges(map[string]int{})
	})
}

// TestUnlistedNetworkIsNotRecreated: a service that has just started does not list all networks. One that is found by its ID is not created
// again, and one that is not even found has half a minute to appear.
func TestUnlistedNetworkIsNotRecreated(t *testing.T) {
	for _, findsLate := range []bool{false, true} {
		t.Run(fmt.Sprint("finds late: ", findsLate), func(t *testing.T) {
			story(t, func(e *env) {
				h := e.windows(1, sim.HNSOptions{Quirks: sim.NetworkQuirks{ListsLate: 20 * time.Second, FindsLate: findsLate}}).start()
				e.await(time.Minute, "the overlay is configured", h.published)
				h.service.ResetCalls()
				h.service.Restart(false)
				e.passes(time.Minute)
				h.stop()
				h.service.Restart(false)
				h.start()
				e.passes(5 * time.Minute)
				h.wantChanges(map[string]int{})
				h.service.Restart(true) // now they are lost
				e.await(time.Minute, "they are created again", h.published)
			})
		})
	}
}

// TestListDecidesAboutUnknownNetwork: if it is unknown whether a network exists, the list decides after two minutes.
func TestListDecidesAboutUnknownNetwork(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(0)
		h.service.Refuse("HasNetwork", errors.New("no answer"))
		h.service.ResetCalls()
		h.service.Restart(true)
		e.passes(110 * time.Second)
		h.wantChanges(map[string]int{})
		e.await(30*time.Second, "the networks are created", h.published)
		h.wantChanges(map[string]int{"CreateNetwork": 2})
	})
}

// TestQuirksRemoveNoNetwork simulates two hours of a host, with restarts of everything, on Windows with various quirks.
func TestQuirksRemoveNoNetwork(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			story(t, func(e *env) {
				e.linux(1)
				quirks := sim.RandomQuirks(seed).Network
				h := e.windows(1, sim.HNSOptions{Quirks: quirks})
				h.options.Settings = overlay.Settings{VXLANPort: 9898, Adapter: "vEthernet (Ethernet)"}
				h.start()
				e.await(3*time.Minute, "the overlay is configured", func() bool { return h.published() && h.has(linuxRemote(1)) })
				before := h.ids()
				for round := range 6 {
					switch round % 3 {
					case 0:
						h.service.Restart(false)
					case 1:
						h.stop()
						h.start()
					case 2:
						h.stop()
						h.service.Restart(false)
						h.start()
					}
					e.passes(20 * time.Minute)
				}
				if calls := h.changes(); calls["DeleteNetwork"] > 0 || h.ids() != before || !h.has(linuxRemote(1)) {
					t.Errorf("networks %s instead of %s, calls %v, with %+v\n%s", h.ids(), before, calls, quirks, h.log)
				}
			})
		})
	}
}

func (h *host) ids() string {
	var ids []string
	for _, n := range h.service.State().Networks {
		ids = append(ids, n.ID)
	}
	return strings.Join(ids, " ")
}

// TestNetworksOfOriginalOperatorAreKept: the original operator's networks name no adapter, and this program has no record of them.
func TestNetworksOfOriginalOperatorAreKept(t *testing.T) {
	story(t, func(e *env) {
		e.linux(1)
		h := e.windows(1, sim.HNSOptions{Quirks: sim.NetworkQuirks{OmitsVNI: true}})
		h.options.Settings.Adapter = "Ethernet"
		address := netip.MustParseAddr("192.0.2.1")
		h.service.Add(hns.State{Networks: []hns.Network{
			{Name: overlay.BaseNetwork, Type: hns.Overlay, Persistent: true, ManagementIP: address, RouterMAC: "00-15-5D-00-00-01", Adapter: "LAN",
				Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("100.64.0.0/30"), Gateway: netip.MustParseAddr("100.64.0.2")}}},
			{Name: overlay.Network, Type: hns.Overlay, ManagementIP: address, RouterMAC: "00-15-5D-00-00-02", HostRoute: true,
				Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.132.1.0/24"), Gateway: netip.MustParseAddr("10.132.1.1")}}},
		}})
		h.start()
		e.await(time.Minute, "the overlay is configured", func() bool { return h.published() && h.has(linuxRemote(1)) })
		e.passes(10 * time.Minute)
		h.wantChanges(map[string]int{"AddRemotes": 1})
	})
}
