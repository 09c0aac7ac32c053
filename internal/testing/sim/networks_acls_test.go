package sim_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestSimulatedACLsKeepTheContract(t *testing.T) {
	for _, how := range []string{"alone", "of a computer"} {
		t.Run(how, func(t *testing.T) {
			contract.ACLs(t, func(t *testing.T) contract.ACLsFixture {
				w := mustNewComputer(t, nil)
				h := w.HNS()
				f := contract.ACLsFixture{ACLs: h, NetworksFixture: contract.NetworksFixture{
					Networks: h, Overlay: h, Stop: func(*testing.T) { h.Stop() }, Start: func(*testing.T) { h.Start(false) },
				}}
				if how == "of a computer" {
					f.ACLs, f.Networks = w.Host().EndpointACLs, w.Host().Networks
				}
				return f
			})
		})
	}
}

// dns returns rules of which each list has two entries.
func dns() []hns.ACL {
	return []hns.ACL{
		{
			Action: hns.Allow, Direction: hns.Out, Protocol: hns.UDP, Priority: 1000, RemotePorts: []hns.PortRange{{First: 53, Last: 53}, {First: 5353, Last: 5353}},
			Remote: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("10.2.0.0/16")},
		},
		{Action: hns.Allow, Direction: hns.In, Priority: 65500},
	}
}

// newEndpoint returns a service with one endpoint.
func newEndpoint(t *testing.T) (h *sim.HNS, endpoint string) {
	t.Helper()
	h = sim.NewHNS(sim.HNSOptions{})
	n := mustMakeNetwork(t, h, pods("pods"))
	e, err := h.CreateEndpoint(t.Context(), hns.Endpoint{Network: n.ID, Name: "pod"})
	if err != nil {
		t.Fatal(err)
	}
	return h, e.ID
}

func mustSetACLs(t *testing.T, h *sim.HNS, endpoint string, acls []hns.ACL) {
	t.Helper()
	if err := h.SetACLs(t.Context(), endpoint, acls); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyDifferentACLsAreWritten(t *testing.T) {
	h, id := newEndpoint(t)
	expect := func(what string, want int) {
		t.Helper()
		if got := h.ACLWrites(); got != want {
			t.Errorf("after %s, ACLs were written %d times, want %d", what, got, want)
		}
	}
	mustSetACLs(t, h, id, nil)
	expect("none", 0)
	mustSetACLs(t, h, id, dns())
	expect("some", 1)
	reversed := dns()
	reversed[0], reversed[1] = reversed[1], reversed[0]
	mustSetACLs(t, h, id, reversed)
	expect("the same in another order", 1)
	h.ReplaceACLs(id, append(dns(), hns.ACL{Foreign: true}))
	mustSetACLs(t, h, id, dns())
	expect("another program's", 2)
	if err := h.SetACLs(t.Context(), id, []hns.ACL{{}}); !errors.Is(err, hns.ErrPolicy) {
		t.Errorf("an empty rule: %v", err)
	}
	expect("invalid ones", 2)
	h.SetQuirks(sim.NetworkQuirks{OmitsACLPorts: true})
	mustSetACLs(t, h, id, dns())
	expect("those that the service does not return as they are", 3)
}

func TestACLsAreReturnedInAnotherOrder(t *testing.T) {
	h, id := newEndpoint(t)
	mustSetACLs(t, h, id, dns())
	read := func() []hns.ACL {
		t.Helper()
		all, err := h.ACLs(t.Context())
		if err != nil || len(all[id]) != 2 {
			t.Fatalf("the endpoint has %+v (%v)", all[id], err)
		}
		return all[id]
	}
	if got := read(); got[1].Remote[0] != dns()[0].Remote[1] || got[1].RemotePorts[0].First != 5353 || got[0].Direction != hns.In {
		t.Errorf("ACLs are %+v, want each list reversed", got)
	}
	read()[1].Remote[0] = netip.Prefix{} // of a caller's own copy
	h.SetQuirks(sim.NetworkQuirks{OmitsACLPorts: true})
	if got := read(); got[1].Remote[0] != dns()[0].Remote[1] || got[1].RemotePorts != nil {
		t.Errorf("ACLs are %+v, want no ports", got)
	}
}

func TestOnlyLocalEndpointsHaveACLs(t *testing.T) {
	h, id := newEndpoint(t)
	remote := h.Add(hns.State{Endpoints: []hns.Endpoint{{Name: "remote", Remote: true}}}).Endpoints[0].ID
	if err := h.SetACLs(t.Context(), remote, dns()); err == nil || errors.Is(err, hns.ErrNotFound) {
		t.Errorf("ACLs of a remote endpoint: %v", err)
	}
	if all, err := h.ACLs(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("endpoints have ACLs %+v (%v), want only those of %s", all, err, id)
	}
}

// TestACLsEndWithTheirEndpoint creates another endpoint with the same ID afterwards.
func TestACLsEndWithTheirEndpoint(t *testing.T) {
	for how, end := range map[string]func(h *sim.HNS, endpoint hns.Endpoint){
		"removed":                  func(h *sim.HNS, e hns.Endpoint) { h.Lose(e.ID) },
		"removed with its network": func(h *sim.HNS, e hns.Endpoint) { h.Lose(e.Network) },
		"lost by the service":      func(h *sim.HNS, _ hns.Endpoint) { h.Restart(true) },
	} {
		h, id := newEndpoint(t)
		mustSetACLs(t, h, id, dns())
		e := h.State().Endpoints[0]
		end(h, e)
		h.Add(hns.State{Endpoints: []hns.Endpoint{e}})
		if all, err := h.ACLs(t.Context()); err != nil || len(all) != 1 || all[id] != nil {
			t.Errorf("%s: ACLs are %+v (%v)", how, all, err)
		}
	}
}

func TestARestartOfWindowsRemovesACLs(t *testing.T) {
	w := mustNewComputer(t, nil)
	h := w.HNS()
	n := pods("pods")
	n.Persistent = true
	e, err := h.CreateEndpoint(t.Context(), hns.Endpoint{Network: mustMakeNetwork(t, h, n).ID, Name: "pod"})
	if err != nil {
		t.Fatal(err)
	}
	before := w.Host().EndpointACLs
	if err := before.SetACLs(t.Context(), e.ID, dns()); err != nil {
		t.Fatal(err)
	}
	w.Restart()
	h.Add(hns.State{Endpoints: []hns.Endpoint{e}})
	if all, err := h.ACLs(t.Context()); err != nil || all[e.ID] != nil {
		t.Errorf("ACLs are %+v (%v)", all, err)
	}
	if _, err := before.ACLs(t.Context()); !errors.Is(err, sim.ErrPower) {
		t.Errorf("a program of the last boot: %v", err)
	}
	if err := before.SetACLs(t.Context(), e.ID, nil); !errors.Is(err, sim.ErrPower) {
		t.Errorf("a program of the last boot: %v", err)
	}
}
