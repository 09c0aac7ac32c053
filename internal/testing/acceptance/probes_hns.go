package acceptance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/overlay"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// Names and numbers of what probe hns creates.
const (
	testPrefix     = "wmco-acceptance"
	testBase       = testPrefix + "-base"
	testNetwork    = testPrefix + "-pods"
	testEndpoint   = testPrefix + "-host"
	testSubnet     = "10.244.250.0/24"
	testRemotes    = 300
	testBalancers  = 300
	firstPort      = 20000
	outageTimeout  = 3 * time.Minute
	probeInterval  = 2 * time.Second
	adapterTimeout = 2 * time.Minute
)

// overlayService is the Host Network Service as the overlay and kube-proxy use it.
type overlayService interface {
	CreateNetwork(ctx context.Context, n hns.Network) (hns.Network, error)
	AddRemotes(ctx context.Context, network string, remotes []hns.RemoteSubnet) error
	AddHostRoute(ctx context.Context, network string) error
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
	n.printf("  %s", n.seen[len(n.seen)-1])
}

func (n *networkTrial) fail(format string, values ...any) {
	n.wrong = append(n.wrong, fmt.Sprintf(format, values...))
	n.printf("  %s", n.wrong[len(n.wrong)-1])
}

// tryHNS creates the networks of the overlay, checks them, and deletes them again.
func tryHNS(ctx context.Context, s *session) (string, error) {
	n, err := newNetworkTrial(ctx, s)
	if err != nil {
		return "", err
	}
	return n.runTrial(ctx, "hns", n.try)
}

// newNetworkTrial returns the error of a probe that cannot be tried if the machine cannot have the networks of the overlay.
func newNetworkTrial(ctx context.Context, s *session) (*networkTrial, error) {
	service, isOverlayService := s.Host.Networks.(overlayService)
	address, found := s.joinAddress()
	if !isOverlayService || !found {
		return nil, untriedErrorf("the machine has no Host Network Service or no address")
	}
	if found, err := s.Host.Services.List(ctx, []string{networkService}); err != nil || len(found) == 0 { // List then returns no error
		return nil, untriedErrorf("service %s does not exist without feature Containers: %w", networkService, cmp.Or(err, errAbsent))
	}
	before, err := s.Host.Networks.List(ctx)
	if err != nil {
		return nil, untriedErrorf("the Host Network Service does not answer: %w", err)
	}
	for _, other := range before.Networks {
		if other.Type == hns.Overlay {
			return nil, untriedErrorf("overlay network %s already exists", other.Name)
		}
	}
	return &networkTrial{session: s, service: service, address: address}, nil
}

// runTrial calls try, which creates networks, and deletes them again. If the machine is cut off for too long, it deletes them immediately. name
// begins the names of the facts.
func (n *networkTrial) runTrial(ctx context.Context, name string, try func(context.Context)) (string, error) {
	s := n.session
	n.adapter, n.gateway = s.adapterOf(n.address), s.gateway(ctx)
	networkBefore := s.recordNetwork(ctx, name+"-before")
	guarded, stop := context.WithCancelCause(ctx)
	gap := n.guard(guarded, stop)
	err := s.change(change{Kind: kindNetworks}, func() error { try(guarded); return nil })
	cause := context.Cause(guarded)
	s.printf("  deleting the networks")
	removal := n.removeNetworks(context.WithoutCancel(ctx))
	n.awaitAddress(context.WithoutCancel(ctx))
	stop(nil)
	n.note("longest time without the gateway: %.0f s", (<-gap).Seconds())
	n.note("%s", networkBefore.compare(s.recordNetwork(context.WithoutCancel(ctx), name+"-after")))
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
	if !n.createNetworks(ctx) {
		return
	}
	n.recordDocuments(ctx, "made")
	n.addHostRoute(ctx)
	n.createHostEndpoint(ctx)
	n.addRemotes(ctx)
	n.recordDocuments(ctx, "with-remotes")
	n.addBalancers(ctx)
	n.restartService(ctx)
}

// createNetworks creates both networks.
func (n *networkTrial) createNetworks(ctx context.Context) (ok bool) {
	for _, wanted := range n.wanted() {
		created, ok := n.create(ctx, wanted)
		if !ok {
			return false
		}
		n.pods = created // the network of pods is the last
	}
	return true
}

func (n *networkTrial) createHostEndpoint(ctx context.Context) (ok bool) {
	began := time.Now()
	var err error
	n.endpoint, err = n.Host.Networks.CreateEndpoint(ctx, hns.Endpoint{Network: n.pods.ID, Name: testEndpoint, Host: true})
	if err != nil {
		n.fail("the host's endpoint was not created: %v", err)
		return false
	}
	n.note("the host's endpoint was created after %.1f s", time.Since(began).Seconds())
	return true
}

// wanted returns the overlay's own networks under other names, in the order of their creation.
func (n *networkTrial) wanted() []hns.Network {
	names := map[string]string{overlay.BaseNetwork: testBase, overlay.Network: testNetwork}
	all := overlay.Settings{Adapter: n.adapter}.Networks(netip.MustParsePrefix(testSubnet))
	for i := range all {
		all[i].Name = names[all[i].Name]
	}
	return all
}

// request is one variant of a request for a network.
type request struct {
	what    string
	network hns.Network
	// hasNext is set if the overlay itself tries the next one after a refusal.
	hasNext bool
}

// requests returns the overlay's own requests for a network, in its order. For the base network, another one shows whether the adapter causes a failure.
func (n *networkTrial) requests(wanted hns.Network) []request {
	other := wanted
	if wanted.Adapter != "" {
		other.Adapter = ""
		return []request{{"as the overlay requests it", wanted, false}, {"without the name of an adapter", other, false}}
	}
	other.Adapter = n.wanted()[0].Adapter
	return []request{{"as the overlay requests it", wanted, true}, {"with the name of the adapter, as the overlay then requests it", other, false}}
}

// create creates a network on the adapter with the machine's address.
func (n *networkTrial) create(ctx context.Context, wanted hns.Network) (created hns.Network, ok bool) {
	for _, r := range n.requests(wanted) {
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, adapterTimeout)
		created, err := n.service.CreateNetwork(limited, r.network)
		cancel()
		if err == nil && created.ManagementIP.IsValid() && created.ManagementIP != n.address {
			err = fmt.Errorf("it is on the adapter with address %s, and the machine has %s", created.ManagementIP, n.address)
		}
		if err == nil {
			n.note("network %s was created %s, after %.1f s", wanted.Name, r.what, time.Since(began).Seconds())
			n.checkEcho(ctx, r.network)
			return created, true
		}
		report := n.fail
		if r.hasNext {
			report = n.note
		}
		report("network %s was not created %s, after %.1f s: %v", wanted.Name, r.what, time.Since(began).Seconds(), err)
		if ctx.Err() != nil {
			break
		}
		n.removeNamed(ctx, wanted.Name)
	}
	return hns.Network{}, false
}

// addHostRoute adds the host route separately, as the overlay does, if Windows refused it when it created the network.
func (n *networkTrial) addHostRoute(ctx context.Context) {
	if n.pods.HostRoute {
		return
	}
	if err := n.service.AddHostRoute(ctx, n.pods.ID); err != nil {
		n.fail("Windows refused the host route when it created network %s, and refuses it afterwards: %v", testNetwork, err)
		return
	}
	n.note("Windows refused the host route when it created network %s, and accepted it afterwards", testNetwork)
}

// checkEcho compares the network that Windows returns with the requested one.
func (n *networkTrial) checkEcho(ctx context.Context, wanted hns.Network) {
	state, err := n.Host.Networks.List(ctx)
	if err != nil {
		n.fail("the Host Network Service does not answer: %v", err)
		return
	}
	for _, found := range state.Networks {
		if found.Name != wanted.Name {
			continue
		}
		n.note("requested adapter %q, port %d, host route %v, subnets %v; Windows returned adapter %q, port %d, host route %v, subnets %v, router %v, address %v",
			wanted.Adapter, wanted.VXLANPort, wanted.HostRoute, wanted.Subnets, found.Adapter, found.VXLANPort, found.HostRoute, found.Subnets,
			found.RouterMAC != "", found.ManagementIP == n.address)
		return
	}
	n.fail("the list has no network %s", wanted.Name)
}

func (n *networkTrial) addRemotes(ctx context.Context) {
	var remotes []hns.RemoteSubnet
	for i := range testRemotes {
		remotes = append(remotes, hns.RemoteSubnet{
			Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 245 + byte(i>>8), byte(i), 0}), 24), VNI: overlay.VNI,
			Host: netip.AddrFrom4([4]byte{198, 51, 100, byte(1 + i%250)}), RouterMAC: fmt.Sprintf("00-15-5D-00-%02X-%02X", i>>8, i&0xff),
		})
	}
	began := time.Now()
	err := n.service.AddRemotes(ctx, n.pods.ID, remotes)
	count := n.remotes(ctx)
	n.note("%d remote subnets in one request: %d present after %.1f s", testRemotes, count, time.Since(began).Seconds())
	if err != nil {
		n.fail("remote subnets: %v", err)
	} else if count != testRemotes {
		n.fail("only %d of %d remote subnets are present", count, testRemotes)
	}
}

// remotes returns the number of remote subnets of the network.
func (n *networkTrial) remotes(ctx context.Context) int {
	state, err := n.Host.Networks.List(ctx)
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
	service, canBalance := n.Host.Networks.(balancerService)
	if !canBalance || n.endpoint.ID == "" {
		return
	}
	began := time.Now()
	for i := range testBalancers {
		_, err := service.CreateLoadBalancer(ctx, hns.LoadBalancer{
			VIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}).Next()}, Endpoints: []string{n.endpoint.ID}, Protocol: hns.TCP,
			External: 80, Internal: firstPort, DSR: true,
		})
		if err != nil {
			n.note("load balancer %d was refused after %.1f s: %v", i+1, time.Since(began).Seconds(), err)
			return
		}
	}
	n.note("%d load balancers with direct server return were created after %.1f s", testBalancers, time.Since(began).Seconds())
}

// restartService restarts the Host Network Service and notes which objects it has afterwards. The networks must be there at the end.
func (n *networkTrial) restartService(ctx context.Context) {
	if err := errors.Join(n.Host.Services.Stop(ctx, networkService), n.Host.Services.Start(ctx, networkService)); err != nil {
		n.fail("restarting service %s: %v", networkService, err)
		return
	}
	began := time.Now()
	missing := 0
	for _, after := range n.moments() {
		if backoff.Sleep(ctx, time.Until(began.Add(after))) != nil {
			return
		}
		state, err := n.Host.Networks.List(ctx)
		if err != nil {
			n.note("%v after the restart of service %s: %v", after, networkService, err)
			continue
		}
		missing = len(n.wanted()) - len(probeNetworks(state))
		n.note("%v after the restart of service %s: %d networks, %d endpoints, %d load balancers, %d remote subnets", after, networkService,
			len(state.Networks), len(state.Endpoints), len(state.LoadBalancers), n.remotes(ctx))
	}
	if missing > 0 {
		n.fail("%d networks were lost after the restart of service %s", missing, networkService)
	}
	n.recordDocuments(ctx, "after-restart")
}

// probeNetworks returns the networks of the probe.
func probeNetworks(state hns.State) (networks []hns.Network) {
	for _, network := range state.Networks {
		if strings.HasPrefix(network.Name, testPrefix) {
			networks = append(networks, network)
		}
	}
	return networks
}

// removeNetworks removes the networks of the probe and everything on them.
func (s *session) removeNetworks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	state, err := s.Host.Networks.List(ctx)
	if err != nil {
		return err
	}
	created := hns.State{Networks: probeNetworks(state)}
	ownEndpoints := map[string]bool{}
	for _, e := range state.Endpoints {
		for _, network := range created.Networks {
			if e.Network == network.ID {
				ownEndpoints[e.ID], created.Endpoints = true, append(created.Endpoints, e)
			}
		}
	}
	for _, b := range state.LoadBalancers {
		for _, id := range b.Endpoints {
			if ownEndpoints[id] {
				created.LoadBalancers = append(created.LoadBalancers, b)
				break
			}
		}
	}
	return s.Host.Networks.Remove(ctx, created)
}

// removeNamed removes a partially created network.
func (n *networkTrial) removeNamed(ctx context.Context, name string) {
	state, err := n.Host.Networks.List(ctx)
	for _, network := range state.Networks {
		if network.Name == name {
			err = errors.Join(err, n.Host.Networks.Remove(ctx, hns.State{Networks: []hns.Network{network}}))
		}
	}
	if err != nil {
		n.fail("removing network %s: %v", name, err)
	}
}

func (n *networkTrial) recordDocuments(ctx context.Context, when string) {
	n.record(ctx, query{"hns-" + when, hnsDocuments})
}
