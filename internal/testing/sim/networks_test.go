package sim_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestSimulatedNetworksKeepTheContract(t *testing.T) {
	for _, kind := range []string{"alone", "of a computer"} {
		t.Run(kind, func(t *testing.T) {
			contract.Networks(t, func(t *testing.T) contract.NetworksFixture {
				w := mustNewComputer(t, nil)
				h := w.HNS()
				f := contract.NetworksFixture{
					Networks: h, Overlay: h,
					Balance: func(_ *testing.T, b hns.LoadBalancer) string {
						return h.Add(hns.State{LoadBalancers: []hns.LoadBalancer{b}}).LoadBalancers[0].ID
					},
					Stop: func(*testing.T) { h.Stop() }, Start: func(*testing.T) { h.Start(false) },
				}
				if kind == "of a computer" {
					f.Networks = w.Host().Networks
				}
				return f
			})
		})
	}
}

// pods returns an overlay network for tests.
func pods(name string) hns.Network {
	return hns.Network{
		Name: name, Type: hns.Overlay,
		Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.250.1.0/30"), Gateway: netip.MustParseAddr("10.250.1.1"), VNI: 4097}},
	}
}

func mustMakeNetwork(t *testing.T, h *sim.HNS, n hns.Network) hns.Network {
	t.Helper()
	created, err := h.CreateNetwork(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func TestRestartKeepsOnlyPersistentNetworks(t *testing.T) {
	w := mustNewComputer(t, nil)
	h := w.HNS()
	base, volatile := pods("base"), pods("passing")
	base.Persistent = true
	kept := mustMakeNetwork(t, h, base)
	temporary := mustMakeNetwork(t, h, volatile)
	before := w.Host().Networks
	if _, err := before.CreateEndpoint(t.Context(), hns.Endpoint{Network: kept.ID, Name: "VIPEndpoint", Host: true}); err != nil {
		t.Fatal(err)
	}
	h.Add(hns.State{LoadBalancers: []hns.LoadBalancer{{External: 80}}})
	if err := h.AddRemotes(t.Context(), temporary.ID, []hns.RemoteSubnet{{Prefix: netip.MustParsePrefix("10.1.0.0/24")}}); err != nil {
		t.Fatal(err)
	}
	w.Restart()
	state, err := w.Host().Networks.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Networks) != 1 || state.Networks[0].ID != kept.ID || state.Endpoints != nil || state.LoadBalancers != nil {
		t.Errorf("after the restart: %+v, want only network %s", state, kept.Name)
	}
	if _, err := before.List(t.Context()); !errors.Is(err, sim.ErrPower) {
		t.Errorf("a program from before the restart got %v, want ErrPower", err)
	}
}

func TestPowerCanBeCutDuringChangesOfNetworks(t *testing.T) {
	w := mustNewComputer(t, nil)
	n := mustMakeNetwork(t, w.HNS(), pods("pods"))
	item := w.HNS().Add(hns.State{LoadBalancers: []hns.LoadBalancer{{External: 80}, {External: 81}}})
	w.CutPowerAfter(1)
	if err := w.Host().Networks.Remove(t.Context(), hns.State{LoadBalancers: item.LoadBalancers, Networks: []hns.Network{n}}); !errors.Is(err, sim.ErrPower) {
		t.Errorf("Remove() = %v, want ErrPower", err)
	}
	if left := w.HNS().State(); len(left.LoadBalancers) != 1 || len(left.Networks) != 1 {
		t.Errorf("remaining objects %+v, want one load balancer and the network", left)
	}
}

func TestOldWindowsSupportsOnlyDefaultVXLANPort(t *testing.T) {
	h := sim.NewHNS(sim.HNSOptions{Build: 17763})
	n := pods("pods")
	n.VXLANPort = 9898
	if _, err := h.CreateNetwork(t.Context(), n); err == nil || len(h.State().Networks) > 0 {
		t.Errorf("CreateNetwork() = %v, networks %+v", err, h.State().Networks)
	}
	n.VXLANPort = hns.DefaultVXLANPort
	mustMakeNetwork(t, h, n)
}
