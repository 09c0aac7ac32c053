package sim_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestSimulatedNetworksKeepTheContract(t *testing.T) {
	for _, how := range []string{"alone", "of a computer"} {
		t.Run(how, func(t *testing.T) {
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
				if how == "of a computer" {
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
	made, err := h.CreateNetwork(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestARestartOfWindowsLeavesPersistentNetworksOnly(t *testing.T) {
	w := mustNewComputer(t, nil)
	h := w.HNS()
	base, passing := pods("base"), pods("passing")
	base.Persistent = true
	kept := mustMakeNetwork(t, h, base)
	on := mustMakeNetwork(t, h, passing)
	before := w.Host().Networks
	if _, err := before.CreateEndpoint(t.Context(), hns.Endpoint{Network: kept.ID, Name: "VIPEndpoint", Host: true}); err != nil {
		t.Fatal(err)
	}
	h.Add(hns.State{LoadBalancers: []hns.LoadBalancer{{External: 80}}})
	if err := h.AddRemotes(t.Context(), on.ID, []hns.RemoteSubnet{{Prefix: netip.MustParsePrefix("10.1.0.0/24")}}); err != nil {
		t.Fatal(err)
	}
	w.Restart()
	state, err := w.Host().Networks.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Networks) != 1 || state.Networks[0].ID != kept.ID || state.Endpoints != nil || state.LoadBalancers != nil {
		t.Errorf("after the restart there is %+v, want the network %s only", state, kept.Name)
	}
	if _, err := before.Look(t.Context()); !errors.Is(err, sim.ErrPower) {
		t.Errorf("a program of the time before sees %v, want ErrPower", err)
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
		t.Errorf("left is %+v, want one load balancer and the network", left)
	}
}

func TestANetworkGetsItsAddressesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := sim.NewHNS(sim.HNSOptions{Settle: time.Minute})
		start := time.Now()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.CreateNetwork(impatient, pods("one")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("CreateNetwork() = %v, want that the time is over", err)
		}
		if n := h.State().Networks[0]; n.RouterMAC != "" || n.ManagementIP.IsValid() {
			t.Errorf("%+v has addresses already", n)
		}
		two := mustMakeNetwork(t, h, pods("two"))
		if took := time.Since(start); took != time.Minute+time.Second || two.RouterMAC == "" || !two.ManagementIP.IsValid() {
			t.Errorf("%+v was made in %v", two, took)
		}
		if one := h.State().Networks[0]; one.RouterMAC == "" || one.RouterMAC == two.RouterMAC {
			t.Errorf("routers have %q and %q, want two different ones", one.RouterMAC, two.RouterMAC)
		}
	})
}

func TestTheServiceCanBeSlowAndFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := sim.NewHNS(sim.HNSOptions{})
		h.Slow(time.Minute)
		start := time.Now()
		if _, err := h.Look(t.Context()); err != nil || time.Since(start) != time.Minute {
			t.Errorf("Look() = %v in %v, want it to take a minute", err, time.Since(start))
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Look(impatient); !errors.Is(err, hns.ErrUnavailable) || time.Since(start) != time.Minute+time.Second {
			t.Errorf("Look() = %v, %v after the start, want it to give up after a second", err, time.Since(start))
		}
		h.Slow(0)
		h.FailNext(hns.ErrExists, hns.ErrUnavailable)
		for _, want := range []error{hns.ErrExists, hns.ErrUnavailable, nil} {
			if _, err := h.Networks(t.Context()); !errors.Is(err, want) {
				t.Errorf("Networks() = %v, want %v", err, want)
			}
		}
		if diff := cmp.Diff(map[string]int{"Look": 2, "Networks": 3}, h.Calls()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		h.ResetCalls()
		if len(h.Calls()) > 0 {
			t.Errorf("afterwards there are calls %v", h.Calls())
		}
	})
}

func TestAnOldWindowsSupportsOnlyTheDefaultVXLANPort(t *testing.T) {
	h := sim.NewHNS(sim.HNSOptions{Build: 17763})
	n := pods("pods")
	n.VXLANPort = 9898
	if _, err := h.CreateNetwork(t.Context(), n); err == nil || len(h.State().Networks) > 0 {
		t.Errorf("CreateNetwork() = %v, and there are %+v", err, h.State().Networks)
	}
	n.VXLANPort = hns.DefaultVXLANPort
	mustMakeNetwork(t, h, n)
}

func TestARestartedServiceCanHaveLostAllObjects(t *testing.T) {
	h := sim.NewHNS(sim.HNSOptions{})
	n := mustMakeNetwork(t, h, pods("pods"))
	e, err := h.CreateEndpoint(t.Context(), hns.Endpoint{Network: n.ID, Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.CreateEndpoint(t.Context(), hns.Endpoint{Network: n.ID, Name: "two"}); err != nil {
		t.Fatal(err)
	}
	h.Edit(n.ID, func(n *hns.Network) { n.ManagementIP = netip.Addr{} })
	h.Lose(e.ID)
	h.Restart(false)
	if s := h.State(); len(s.Networks) != 1 || s.Networks[0].ManagementIP.IsValid() || len(s.Endpoints) != 1 || s.Endpoints[0].Name != "two" {
		t.Errorf("after the first restart there is %+v", s)
	}
	h.Restart(true)
	if diff := cmp.Diff(hns.State{}, h.State()); diff != "" {
		t.Errorf("after the second restart (-want +got):\n%s", diff)
	}
}
