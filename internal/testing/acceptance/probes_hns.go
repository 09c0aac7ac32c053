package acceptance

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// Names and numbers of the networks of probe hns. They are like the overlay's, with different names.
const (
	triedPrefix     = "wmco-acceptance"
	triedBase       = triedPrefix + "-base"
	triedNetwork    = triedPrefix + "-pods"
	triedEndpoint   = triedPrefix + "-host"
	triedVNI        = 4097
	triedRemotes    = 300
	triedBalancers  = 300
	firstPort       = 20000
	cutPatience     = 3 * time.Minute
	probeInterval   = 2 * time.Second
	adapterPatience = 2 * time.Minute
)

// overlayService is the Host Network Service as the overlay and kube-proxy use it.
type overlayService interface {
	CreateNetwork(ctx context.Context, n hns.Network) (hns.Network, error)
	AddRemotes(ctx context.Context, network string, remotes []hns.RemoteSubnet) error
}

// balancerService makes load balancers.
type balancerService interface {
	CreateLoadBalancer(ctx context.Context, b hns.LoadBalancer) (id string, err error)
}

// networkTrial is the state of one run of probe hns.
type networkTrial struct {
	*session
	service  overlayService
	adapter  string
	gateway  string
	address  netip.Addr
	pods     hns.Network
	endpoint hns.Endpoint
	findings
}

var errCutOff = errors.New("the machine had no network for 3 minutes")

func (n *networkTrial) note(format string, values ...any) {
	n.seen = append(n.seen, fmt.Sprintf(format, values...))
	n.say("  %s", n.seen[len(n.seen)-1])
}

func (n *networkTrial) fail(format string, values ...any) {
	n.wrong = append(n.wrong, fmt.Sprintf(format, values...))
	n.say("  %s", n.wrong[len(n.wrong)-1])
}

// tryHNS creates the networks of the overlay, checks them, and deletes them again. If the machine is cut off for too long, it deletes them
// immediately.
func tryHNS(ctx context.Context, s *session) (string, error) {
	service, can := s.Host.Networks.(overlayService)
	address, found := s.joinAddress()
	if !can || !found {
		return "", untriedf("there is no Host Network Service to make networks with, or no address")
	}
	before, err := s.Host.Networks.Look(ctx)
	if err != nil {
		return "", untriedf("the Host Network Service does not answer; it takes feature Containers: %w", err)
	}
	for _, other := range before.Networks {
		if other.Type == hns.Overlay {
			return "", untriedf("there is an overlay network %s already", other.Name)
		}
	}
	n := &networkTrial{session: s, service: service, address: address}
	n.adapter, n.gateway = s.adapterOf(address), s.gateway(ctx)
	n.recordNetwork(ctx, "before")
	guarded, stop := context.WithCancelCause(ctx)
	gap := n.guard(guarded, stop)
	err = s.change(change{Kind: kindNetworks}, func() error { n.try(guarded); return nil })
	cause := context.Cause(guarded)
	s.say("  deleting the networks")
	removal := n.removeNetworks(context.WithoutCancel(ctx))
	n.awaitAddress(context.WithoutCancel(ctx))
	stop(nil)
	n.note("longest time without the gateway: %.0f s", (<-gap).Seconds())
	n.recordNetwork(context.WithoutCancel(ctx), "after")
	if errors.Is(cause, errCutOff) {
		n.fail("%v", cause)
	}
	if err := errors.Join(err, removal); err != nil {
		n.fail("deleting the networks: %v", err)
	}
	return n.findings.result()
}

// try creates all objects. It stops early when ctx ends.
func (n *networkTrial) try(ctx context.Context) {
	base, pods := n.wanted()
	if _, ok := n.create(ctx, base); !ok {
		return
	}
	made, ok := n.create(ctx, pods)
	if !ok {
		return
	}
	n.pods = made
	n.recordDocuments(ctx, "made")
	n.checkEcho(ctx, pods)
	began := time.Now()
	var err error
	n.endpoint, err = n.Host.Networks.CreateEndpoint(ctx, hns.Endpoint{Network: made.ID, Name: triedEndpoint, Host: true})
	if err != nil {
		n.fail("the host's endpoint is not made: %v", err)
	} else {
		n.note("the host's endpoint was made after %.1f s", time.Since(began).Seconds())
	}
	n.addRemotes(ctx)
	n.recordDocuments(ctx, "with-remotes")
	n.addBalancers(ctx)
	n.restartService(ctx)
}

// wanted returns the networks with the same properties as the overlay's.
func (n *networkTrial) wanted() (base, pods hns.Network) {
	first, own := netip.MustParsePrefix("100.64.0.0/30"), netip.MustParsePrefix("10.244.250.0/24")
	return hns.Network{
			Name: triedBase, Type: hns.Overlay, Adapter: n.adapter, Persistent: true,
			Subnets: []hns.Subnet{{Prefix: first, Gateway: netip.MustParseAddr("100.64.0.2"), VNI: triedVNI + 1}},
		}, hns.Network{
			Name: triedNetwork, Type: hns.Overlay, Adapter: n.adapter, HostRoute: true, AutomaticDNS: true,
			Subnets: []hns.Subnet{{Prefix: own, Gateway: netip.MustParseAddr("10.244.250.1"), VNI: triedVNI}},
		}
}

// create creates a network. If Windows refuses it, create retries without the policies that some builds refuse.
func (n *networkTrial) create(ctx context.Context, wanted hns.Network) (made hns.Network, ok bool) {
	var other hns.Network
	for _, try := range []struct {
		what string
		edit func(*hns.Network)
	}{
		{"as the overlay wants it", func(*hns.Network) {}},
		{"without the name of an adapter", func(w *hns.Network) { w.Adapter = "" }},
		{"without the route of the host", func(w *hns.Network) { w.Adapter, w.HostRoute = "", false }},
	} {
		other = wanted
		try.edit(&other)
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, adapterPatience)
		made, err := n.service.CreateNetwork(limited, other)
		cancel()
		if err == nil {
			n.note("network %s was made %s, after %.1f s", wanted.Name, try.what, time.Since(began).Seconds())
			return made, true
		}
		n.fail("network %s is not made %s, after %.1f s: %v", wanted.Name, try.what, time.Since(began).Seconds(), err)
		if ctx.Err() != nil {
			break
		}
		n.removeNamed(ctx, wanted.Name)
	}
	return hns.Network{}, false
}

// checkEcho compares the network that Windows returns with the requested one.
func (n *networkTrial) checkEcho(ctx context.Context, wanted hns.Network) {
	state, err := n.Host.Networks.Look(ctx)
	if err != nil {
		n.fail("the Host Network Service does not answer: %v", err)
		return
	}
	for _, found := range state.Networks {
		if found.Name != wanted.Name {
			continue
		}
		n.note("asked for adapter %q, port %d, host route %v, subnets %v; Windows returns adapter %q, port %d, host route %v, subnets %v, router %v, address %v",
			wanted.Adapter, wanted.VXLANPort, wanted.HostRoute, wanted.Subnets, found.Adapter, found.VXLANPort, found.HostRoute, found.Subnets,
			found.RouterMAC != "", found.ManagementIP == n.address)
		return
	}
	n.fail("the list has no network %s", wanted.Name)
}

func (n *networkTrial) addRemotes(ctx context.Context) {
	var remotes []hns.RemoteSubnet
	for i := range triedRemotes {
		remotes = append(remotes, hns.RemoteSubnet{
			Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 245 + byte(i>>8), byte(i), 0}), 24), VNI: triedVNI,
			Host: netip.AddrFrom4([4]byte{198, 51, 100, byte(1 + i%250)}), RouterMAC: fmt.Sprintf("00-15-5D-00-%02X-%02X", i>>8, i&0xff),
		})
	}
	began := time.Now()
	err := n.service.AddRemotes(ctx, n.pods.ID, remotes)
	count := n.remotes(ctx)
	n.note("%d remote subnets in one request: %d are there after %.1f s", triedRemotes, count, time.Since(began).Seconds())
	if err != nil {
		n.fail("remote subnets: %v", err)
	} else if count != triedRemotes {
		n.fail("only %d of %d remote subnets are there", count, triedRemotes)
	}
}

// remotes returns the number of remote subnets of the network.
func (n *networkTrial) remotes(ctx context.Context) int {
	state, err := n.Host.Networks.Look(ctx)
	if err != nil {
		return 0
	}
	for _, found := range state.Networks {
		if found.ID == n.pods.ID {
			return len(found.Remotes)
		}
	}
	return 0
}

// addBalancers creates load balancers until Windows refuses one: its port range is the limit.
func (n *networkTrial) addBalancers(ctx context.Context) {
	service, can := n.Host.Networks.(balancerService)
	if !can || n.endpoint.ID == "" {
		return
	}
	began := time.Now()
	for i := range triedBalancers {
		_, err := service.CreateLoadBalancer(ctx, hns.LoadBalancer{
			VIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}).Next()}, Endpoints: []string{n.endpoint.ID}, Protocol: hns.TCP,
			External: 80, Internal: firstPort, DSR: true,
		})
		if err != nil {
			n.note("load balancer %d is refused after %.1f s: %v", i+1, time.Since(began).Seconds(), err)
			return
		}
	}
	n.note("%d load balancers with direct server return were made after %.1f s", triedBalancers, time.Since(began).Seconds())
}

// restartService restarts the Host Network Service and notes which objects it has afterwards.
func (n *networkTrial) restartService(ctx context.Context) {
	const service = "hns"
	if err := errors.Join(n.Host.Services.Stop(ctx, service), n.Host.Services.Start(ctx, service)); err != nil {
		n.fail("restarting service %s: %v", service, err)
		return
	}
	began := time.Now()
	for _, after := range n.moments() {
		if backoff.Sleep(ctx, time.Until(began.Add(after))) != nil {
			return
		}
		state, err := n.Host.Networks.Look(ctx)
		if err != nil {
			n.note("%v after the restart of service %s: %v", after, service, err)
			continue
		}
		n.note("%v after the restart of service %s: %d networks, %d endpoints, %d load balancers, %d remote subnets", after, service,
			len(state.Networks), len(state.Endpoints), len(state.LoadBalancers), n.remotes(ctx))
	}
	n.recordDocuments(ctx, "after-restart")
}

// removeNetworks removes the networks of the probe and everything on them.
func (s *session) removeNetworks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	state, err := s.Host.Networks.Look(ctx)
	if err != nil {
		return err
	}
	var ours hns.State
	for _, network := range state.Networks {
		if strings.HasPrefix(network.Name, triedPrefix) {
			ours.Networks = append(ours.Networks, network)
		}
	}
	on := map[string]bool{}
	for _, e := range state.Endpoints {
		for _, network := range ours.Networks {
			if e.Network == network.ID {
				on[e.ID], ours.Endpoints = true, append(ours.Endpoints, e)
			}
		}
	}
	for _, b := range state.LoadBalancers {
		for _, id := range b.Endpoints {
			if on[id] {
				ours.LoadBalancers = append(ours.LoadBalancers, b)
				break
			}
		}
	}
	return s.Host.Networks.Remove(ctx, ours)
}

// removeNamed removes a partially created network.
func (n *networkTrial) removeNamed(ctx context.Context, name string) {
	state, err := n.Host.Networks.Look(ctx)
	for _, network := range state.Networks {
		if network.Name == name {
			err = errors.Join(err, n.Host.Networks.Remove(ctx, hns.State{Networks: []hns.Network{network}}))
		}
	}
	if err != nil {
		n.fail("removing network %s: %v", name, err)
	}
}

// recordNetwork records the network state of Windows at a moment of the probe.
func (n *networkTrial) recordNetwork(ctx context.Context, when string) {
	for _, q := range questionsOfNetwork() {
		switch q.name {
		case "adapters", "addresses", "interfaces", "dns-servers", "routes", "persistent-routes", "network-profiles", "excluded-ports-tcp", "hns":
			n.record(ctx, question{"hns-" + when + "-" + q.name, q.ask})
		}
	}
}

func (n *networkTrial) recordDocuments(ctx context.Context, when string) {
	n.record(ctx, question{"hns-" + when, documentsOfHNS})
}
