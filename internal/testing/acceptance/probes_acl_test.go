package acceptance

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

const namespaceOfPod = "0c4b0e5e-3a0b-4a38-8f5c-0c6d1f6f2f10"

// podNetworks is a simulated Host Network Service whose rules decide about connections.
type podNetworks struct {
	*sim.HNS
	windows *sim.Windows
	// quirk is what this Windows does in another way than the product assumes.
	quirk string

	mu        sync.Mutex
	pod       string // ID of its endpoint
	listeners map[netip.AddrPort]chan net.Conn
}

func (p *podNetworks) CreateNamespace(context.Context) (string, error) {
	p.windows.AddNetwork(namespaceOfPod)
	return strings.ToUpper(namespaceOfPod), nil
}

func (p *podNetworks) Attach(_ context.Context, endpoint, _ string) (uint32, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pod = endpoint
	return 7, nil
}

func (p *podNetworks) CreateLoadBalancer(_ context.Context, b hns.LoadBalancer) (string, error) {
	return p.Add(hns.State{LoadBalancers: []hns.LoadBalancer{b}}).LoadBalancers[0].ID, nil
}

func (p *podNetworks) SetUncheckedACLs(_ context.Context, endpoint string, acls []hns.ACL) error {
	p.ReplaceACLs(endpoint, acls)
	return nil
}

func (p *podNetworks) Listen(_ context.Context, _ uint32, at netip.AddrPort) (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := pipeListener{make(chan net.Conn), make(chan struct{}), new(sync.Once)}
	p.listeners[at] = l.accepted
	return l, nil
}

func (p *podNetworks) Dial(ctx context.Context, compartment uint32, to netip.AddrPort) (net.Conn, error) {
	seen, target := to.Addr(), to
	state := p.State()
	for _, b := range state.LoadBalancers {
		for _, e := range state.Endpoints {
			if p.quirk != "load balancers do not work" && slices.Contains(b.VIPs, to.Addr()) && slices.Contains(b.Endpoints, e.ID) {
				target = netip.AddrPortFrom(e.Address, b.Internal)
			}
		}
	}
	if p.quirk != "rules apply before load balancing" {
		seen = target.Addr()
	}
	direction := hns.Out
	if compartment == 0 {
		direction, seen = hns.In, p.source(state)
	}
	p.mu.Lock()
	accepted, pod := p.listeners[target], p.pod
	p.mu.Unlock()
	if accepted == nil || !p.allows(p.RulesOf(pod), direction, seen, target.Port()) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	client, server := net.Pipe()
	select {
	case accepted <- connFrom{server, net.TCPAddrFromAddrPort(netip.AddrPortFrom(seen, 50000))}:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// source is the address from which the machine reaches the pod.
func (p *podNetworks) source(state hns.State) netip.Addr {
	for _, e := range state.Endpoints {
		if e.Name == testEndpoint && p.quirk != "connections of the machine have another source" {
			return e.Address
		}
	}
	return netip.MustParseAddr("10.244.250.77")
}

// allows decides about a connection: the lowest priority number first, and what no rule matches is closed.
func (p *podNetworks) allows(acls []hns.ACL, direction hns.Direction, remote netip.Addr, port uint16) bool {
	switch {
	case p.quirk == "no connection passes":
		return false
	case len(acls) == 0:
		return p.quirk != "Windows Firewall blocks endpoints without rules"
	}
	slices.SortStableFunc(acls, func(a, b hns.ACL) int {
		if p.quirk == "the highest priority number decides" {
			a, b = b, a
		}
		return cmp.Compare(a.Priority, b.Priority)
	})
	for _, a := range acls {
		ports := slices.Concat(a.LocalPorts, a.RemotePorts)
		if a.Direction == direction &&
			(len(a.Remote) == 0 || slices.ContainsFunc(a.Remote, func(r netip.Prefix) bool { return r.Contains(remote) })) &&
			(len(ports) == 0 || p.quirk == "ports are ignored" || slices.ContainsFunc(ports, func(r hns.PortRange) bool { return r.First <= port && port <= r.Last })) {
			return a.Action == hns.Allow
		}
	}
	return false
}

type connFrom struct {
	net.Conn
	remote net.Addr
}

// RemoteAddr implements net.Conn.
func (c connFrom) RemoteAddr() net.Addr { return c.remote }

type pipeListener struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     *sync.Once
}

// Accept implements net.Listener.
func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l pipeListener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

// Addr implements net.Listener.
func (pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// runACLs runs line acl, and expects it to revert all changes.
func runACLs(t *testing.T, hasCompartments bool, quirk string, service sim.NetworkQuirks) (a Answer) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newComputer(t)
		defer c.PowerOff()
		c.put(t, networkService)
		m := withAddress(c, func() bool { return true })
		c.HNS().SetQuirks(service)
		if hasCompartments {
			m.Host.Networks = &podNetworks{HNS: c.HNS(), windows: c.Windows, quirk: quirk, listeners: map[netip.AddrPort]chan net.Conn{}}
		}
		m.Host.EndpointACLs = c.HNS()
		before := c.state(t)
		r, err := Run(t.Context(), m, Options{Only: []string{"acl"}, Out: io.Discard, Allowed: []string{NetworkCut}})
		if err != nil || len(r.Lines) != 1 {
			t.Fatalf("Run() = %+v, %v", r.Lines, err)
		}
		state, err := m.Host.Networks.List(t.Context())
		if err != nil || len(state.Networks)+len(state.Endpoints)+len(state.LoadBalancers) > 0 {
			t.Errorf("objects left behind: %+v, %v", state, err)
		}
		if left, err := m.Host.Containers.RemoveNamespace(t.Context(), namespaceOfPod); left || err != nil {
			t.Errorf("the namespace was left behind: %v, %v", left, err)
		}
		if diff := gocmp.Diff(before, c.state(t)); diff != "" {
			t.Errorf("the computer differs from before (-before +after):\n%s", diff)
		}
		a = r.Lines[0]
	})
	return a
}

func TestRulesOfEndpointsAreConfirmedByPackets(t *testing.T) {
	a := runACLs(t, true, "", sim.NetworkQuirks{})
	if a.Verdict != Confirmed {
		t.Errorf("the verdict is %s: %s", a.Verdict, a.Seen)
	}
	for _, want := range []string{
		"rules for 4,000 addresses are returned as written",
		"with only the pod's port allowed from the machine, connections to the pod pass",
		"with only the pod's port allowed from the machine, connections from the pod are blocked",
		"with a rule for one direction only, which allows, connections from the pod are blocked",
		"with block before allow at one priority, connections to the pod are blocked",
		"after a write that adds another port, an open connection continues",
		"rules apply after load balancing",
		"the address of the host's endpoint",
	} {
		if !strings.Contains(a.Seen, want) {
			t.Errorf("the report lacks %q:\n%s", want, a.Seen)
		}
	}
}

func TestRulesThatActOtherwiseAreRefuted(t *testing.T) {
	for quirk, want := range map[string]string{
		"the highest priority number decides":            "connections to the pod are blocked, and should not",
		"ports are ignored":                              "connections to the pod pass, and should not",
		"rules apply before load balancing":              "rules apply before load balancing",
		"connections of the machine have another source": "which the product would not allow",
	} {
		t.Run(quirk, func(t *testing.T) {
			if a := runACLs(t, true, quirk, sim.NetworkQuirks{}); a.Verdict != Refuted || !strings.Contains(a.Seen, want) {
				t.Errorf("the verdict is %s, want %q: %s", a.Verdict, want, a.Seen)
			}
		})
	}
}

// TestRulesAreTriedWithWindowsFirewall: rules of endpoints open it, too.
func TestRulesAreTriedWithWindowsFirewall(t *testing.T) {
	a := runACLs(t, true, "Windows Firewall blocks endpoints without rules", sim.NetworkQuirks{})
	if a.Verdict != Confirmed || !strings.Contains(a.Seen, "without rules, connections to the pod are blocked") {
		t.Errorf("the verdict is %s: %s", a.Verdict, a.Seen)
	}
}

// TestRulesAreNotConfirmedWithoutLoadBalancing: part of the claim was not tried.
func TestRulesAreNotConfirmedWithoutLoadBalancing(t *testing.T) {
	a := runACLs(t, true, "load balancers do not work", sim.NetworkQuirks{})
	if a.Verdict != Untried || !strings.Contains(a.Seen, "rules and load balancing were not tried") || !strings.Contains(a.Seen, "with nothing allowed, connections to the pod are blocked") {
		t.Errorf("the verdict is %s: %s", a.Verdict, a.Seen)
	}
}

func TestRulesThatAreReturnedInAnotherFormAreRefuted(t *testing.T) {
	a := runACLs(t, true, "", sim.NetworkQuirks{OmitsACLPorts: true})
	if a.Verdict != Refuted || !strings.Contains(a.Seen, "rules are returned as") {
		t.Errorf("the verdict is %s: %s", a.Verdict, a.Seen)
	}
}

// TestRulesWithoutPacketsProveNothing has a Windows whose compartments cannot be entered, and one in which nothing reaches the endpoint.
func TestRulesWithoutPacketsProveNothing(t *testing.T) {
	for _, hasCompartments := range []bool{false, true} {
		a := runACLs(t, hasCompartments, "no connection passes", sim.NetworkQuirks{})
		if a.Verdict != Untried || !strings.Contains(a.Seen, "packets were not seen") || !strings.Contains(a.Seen, "rules are returned as written") {
			t.Errorf("the verdict is %s: %s", a.Verdict, a.Seen)
		}
	}
}

func TestNamespaceOfKilledRunIsRemoved(t *testing.T) {
	c := newComputer(t)
	c.AddNetwork(namespaceOfPod)
	o := Options{Out: io.Discard}
	s, release, err := open(t.Context(), c.machine(), o)
	if err != nil {
		t.Fatal(err)
	}
	err = s.change(change{kindNamespace, namespaceOfPod}, func() error { return nil })
	release()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), c.machine(), o); err != nil {
		t.Fatal(err)
	}
	if left, err := c.Host().Containers.RemoveNamespace(t.Context(), namespaceOfPod); left || err != nil {
		t.Errorf("the namespace was left behind: %v, %v", left, err)
	}
}
