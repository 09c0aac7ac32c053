package acceptance

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// withAddress returns a machine whose interface has its address while hasAddress returns true.
func withAddress(c *computer, hasAddress func() bool) Machine {
	m := c.machine()
	m.Host.Networks = c.HNS()
	m.Addresses = func() ([]net.Addr, error) {
		if !hasAddress() {
			return nil, nil
		}
		return []net.Addr{&net.IPNet{IP: net.IPv4(192, 0, 2, 10), Mask: net.CIDRMask(24, 32)}}, nil
	}
	return m
}

// runHNS runs line hns on a computer with a running Host Network Service, and expects it to revert all changes.
func runHNS(t *testing.T, c *computer) Report {
	t.Helper()
	c.put(t, networkService)
	m := withAddress(c, func() bool { return true })
	before := c.state(t)
	r, err := Run(t.Context(), m, Options{Only: []string{"hns"}, Out: io.Discard, Allowed: []string{NetworkCut}})
	if err != nil || len(r.Lines) != 1 {
		t.Fatalf("Run() = %+v, %v", r.Lines, err)
	}
	state, err := m.Host.Networks.List(t.Context())
	if err != nil || len(state.Networks)+len(state.Endpoints) > 0 {
		t.Errorf("objects left behind: %+v, %v", state, err)
	}
	if diff := cmp.Diff(before, c.state(t)); diff != "" {
		t.Errorf("the computer differs from before (-before +after):\n%s", diff)
	}
	return r
}

func TestOverlayNetworksAreCreatedAndDeleted(t *testing.T) {
	const (
		base, pods  = "network " + testBase + " ", "network " + testNetwork + " "
		made, named = "was created as the overlay requests it", "was created with the name of the adapter, as the overlay then requests it"
	)
	for name, test := range map[string]struct {
		adapter  string
		quirks   sim.NetworkQuirks
		want     Verdict
		wantSeen []string
	}{
		"a usual Windows": {want: Confirmed, wantSeen: []string{
			base + made, pods + made, "300 remote subnets in one request: 300 present", "after the restart of service hns: 2 networks",
		}},
		"an adapter has one switch":       {quirks: sim.NetworkQuirks{Adapters: []string{"Ethernet"}}, want: Confirmed, wantSeen: []string{pods + made}},
		"the adapter of a foreign switch": {adapter: "vEthernet (LAN)", quirks: sim.NetworkQuirks{Adapters: []string{"LAN"}}, want: Confirmed},
		"Windows omits requested fields":  {quirks: sim.NetworkQuirks{OmitsAdapter: true, OmitsVNI: true}, want: Confirmed},
		"an overlay needs an adapter":     {quirks: sim.NetworkQuirks{NeedsAdapter: true}, want: Confirmed, wantSeen: []string{pods + named}},
		"Windows chooses another adapter": {
			quirks: sim.NetworkQuirks{ChoosesAddress: "198.51.100.7"}, want: Confirmed, wantSeen: []string{"with address 198.51.100.7", named},
		},
		"no adapter of that name": {
			quirks: sim.NetworkQuirks{Adapters: []string{"LAN"}}, want: Refuted, wantSeen: []string{"was created without the name of an adapter"},
		},
		"no adapter for the network of pods": {
			quirks: sim.NetworkQuirks{Adapters: []string{"Ethernet"}, NeedsAdapter: true}, want: Refuted, wantSeen: []string{pods + "was not created with"},
		},
		"no route of the host": {quirks: sim.NetworkQuirks{RefusesHostRoute: true}, want: Refuted, wantSeen: []string{"policy HostRoute"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newComputer(t)
				defer c.PowerOff()
				if test.adapter != "" {
					c.SetInterfaces(wicdapi.Interface{Name: test.adapter, Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.10/24")}, DefaultRoute: true})
				}
				c.HNS().SetQuirks(test.quirks)
				a := runHNS(t, c).Lines[0]
				if a.Verdict != test.want {
					t.Errorf("verdict %s, want %s: %s", a.Verdict, test.want, a.Seen)
				}
				for _, want := range test.wantSeen {
					if !strings.Contains(a.Seen, want) {
						t.Errorf("missing %q in: %s", want, a.Seen)
					}
				}
			})
		})
	}
}

// TestNetworkFactsAreCompared expects all facts before and after, although this computer reports only those of the Host Network Service.
func TestNetworkFactsAreCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newComputer(t)
		defer c.PowerOff()
		r := runHNS(t, c)
		for _, prefix := range []string{"hns-before-", "hns-after-"} {
			if facts := r.networkFacts(prefix); len(facts) != len(networkFactNames()) {
				t.Errorf("facts %s: %d, want %d", prefix, len(facts), len(networkFactNames()))
			}
		}
	})
	before := networkFacts{
		"addresses": {Text: "a"}, "routes": {Document: []byte(`["r"]`)}, "adapters": {Error: "no"}, "dns-servers": {Text: "d"}, "hns": {Text: "1"},
	}
	after := networkFacts{"addresses": {Text: "b"}, "routes": {Document: []byte(`["r"]`)}, "adapters": {Text: "x"}, "hns": {Text: "2"}}
	const want = "that changed: addresses; unchanged: routes"
	if got := before.compare(after); !strings.HasSuffix(got, want) {
		t.Errorf("compare() = %q, want %q", got, want)
	}
}

func TestHNSLineIsUntriedWithoutHostNetworkService(t *testing.T) {
	c := newComputer(t)
	m := withAddress(c, func() bool { return true })
	r, err := Run(t.Context(), m, Options{Only: []string{"hns"}, Out: io.Discard, Allowed: []string{NetworkCut}})
	if err != nil || r.Lines[0].Verdict != Untried || !strings.Contains(r.Lines[0].Seen, "without feature Containers") {
		t.Errorf("got %+v, %v", r.Lines, err)
	}
}

func TestNetworksAreDeletedAfterLongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newComputer(t)
		defer c.PowerOff()
		c.put(t, networkService)
		var m Machine
		m = withAddress(c, func() bool {
			state, err := m.Host.Networks.List(t.Context())
			return err == nil && len(state.Networks) == 0
		})
		m.Host.Networks = slowNetworks{c.HNS()}
		r, err := Run(t.Context(), m, Options{Only: []string{"hns"}, Out: io.Discard, Allowed: []string{NetworkCut}})
		if err != nil || r.Lines[0].Verdict != Refuted || !strings.Contains(r.Lines[0].Seen, errCutOff.Error()) ||
			!strings.Contains(r.Lines[0].Seen, "has its address 0 s after") {
			t.Errorf("got %+v, %v", r.Lines, err)
		}
		if state, err := m.Host.Networks.List(t.Context()); err != nil || len(state.Networks) > 0 {
			t.Errorf("objects left behind: %+v, %v", state, err)
		}
	})
}

func TestNetworksRequirePermission(t *testing.T) {
	c := newComputer(t)
	r, err := Run(t.Context(), c.machine(), Options{Only: []string{"hns"}, Out: io.Discard})
	if err != nil || r.Lines[0].Verdict != Untried || r.Lines[0].Seen != "it requires --network-cut-allowed" {
		t.Errorf("got %+v, %v", r.Lines, err)
	}
}

// TestNetworksOfKilledRunAreDeleted also has another program's network, which stays.
func TestNetworksOfKilledRunAreDeleted(t *testing.T) {
	c := newComputer(t)
	m := withAddress(c, func() bool { return true })
	o := Options{Out: io.Discard}
	s, release, err := open(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	n := &networkTrial{session: s, service: c.HNS()}
	err = s.change(change{Kind: kindNetworks}, func() error {
		for _, network := range append(n.wanted(), hns.Network{Name: "nat", Type: hns.L2Bridge}) {
			made, err := c.HNS().CreateNetwork(t.Context(), network)
			if err != nil {
				return err
			}
			if _, err := c.HNS().CreateEndpoint(t.Context(), hns.Endpoint{Network: made.ID, Name: "of " + network.Name}); err != nil && network.Name != "nat" {
				return err
			}
		}
		return nil
	})
	release()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), m, o); err != nil {
		t.Fatal(err)
	}
	state, err := m.Host.Networks.List(t.Context())
	if err != nil || len(state.Networks) != 1 || state.Networks[0].Name != "nat" || m.Host.Disk.Exists(Root) {
		t.Errorf("objects left behind: %+v, %v", state, err)
	}
}

// slowNetworks blocks when adding remote subnets.
type slowNetworks struct{ overlayNetworks }

type overlayNetworks interface {
	hostapi.Networks
	overlayService
}

func (slowNetworks) AddRemotes(ctx context.Context, _ string, _ []hns.RemoteSubnet) error {
	<-ctx.Done()
	return ctx.Err()
}
