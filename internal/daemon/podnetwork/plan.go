package podnetwork

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/hns"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// How long something of the network may be missing, or left over, before something is done about it. kube-proxy programs a changed
// Service within a second or two, and waits for ten when it starts (pkg/proxy/winkernel/proxier.go).
const (
	// lostAfter is for a load balancer or an endpoint that was there.
	lostAfter = 5 * time.Second
	// lostWhenBusy is for a load balancer that was there while kube-proxy has much to do, lateAfter for one that was never seen.
	lostWhenBusy = 30 * time.Second
	lateAfter    = 2 * time.Minute
	// proxyClears is more than kube-proxy takes to remove, when it starts, what the one before it made.
	proxyClears = 5 * time.Second
	// proxyStarts is how long kube-proxy is given when it starts.
	proxyStarts = 30 * time.Second
	// makerStarts is how long the service that makes the network is given before it is restarted.
	makerStarts = 3 * time.Minute
	// orphanedAfter is for what belongs to no Service any more: longer than a watch of ours can lag behind that of kube-proxy.
	orphanedAfter = 3 * time.Minute
	// restartPause is how long after a restart for lost load balancers the next one may come; it doubles up to restartPauses.
	restartPause  = 5 * time.Minute
	restartPauses = time.Hour
	// massLoss is how many load balancers there must have been to know without waiting, when there is none at all, that they were lost.
	massLoss = 3
	// namedLosses is how many losses a message names.
	namedLosses = 5
)

// networkView is what one look at the network has shown.
type networkView struct {
	now time.Time
	// state is empty when the look failed with err.
	state hns.State
	err   error
	// told tells what the cluster says of Services; nil as long as it has not.
	told *frontends
	// pods are the networks of pods that plugins made, as they remember them.
	pods []podNetwork
	// proxy is the process of kube-proxy; 0 when it does not run.
	proxy uint32
}

// podNetwork is the network of a pod: that of its sandbox.
type podNetwork struct {
	sandbox string
	address netip.Addr
}

// networkPlan is what is to be done about the network, and what the Node is told of it.
type networkPlan struct {
	// joint is what the host knows of the network; nil as long as it cannot be used.
	joint *desired.Joint
	// create is the host's own endpoint, when it is not there; joint holds when it could be made.
	create *hns.Endpoint
	// remove is what belongs to nobody.
	remove hns.State
	// restart are services, with the reason.
	restart map[string]string
	// end are pods without a network, whose sandboxes are ended so that the kubelet makes them anew.
	end []podNetwork
	// problems are for condition WindowsNetworkUnavailable.
	problems []networkProblem
	// again is when to look again; zero for the usual time.
	again time.Duration
}

type networkProblem struct{ reason, message string }

// networkMemory is what is remembered from look to look.
type networkMemory struct {
	// network is the ID of the network when it was seen last; down says that the Host Network Service did not answer since.
	network string
	down    bool
	// absent is since when the network is not there, maker when the service that makes it was restarted last.
	absent, maker time.Time
	// proxy is the process of kube-proxy, proxySince since when it runs as far as we know.
	proxy      uint32
	proxySince time.Time
	proxyState proxyState
	// restarts counts those of kube-proxy for lost load balancers that did not help; restarted is the last.
	restarts  int
	restarted time.Time
	// balances says that there was a load balancer; where there never was one, no restart is known to help. known are the addresses
	// that endpoints of this host had.
	balances bool
	known    map[netip.Addr]bool
	// had are the frontends that this process of kube-proxy has made load balancers for.
	had map[frontend]bool
	// lost, orphans and bare are since when frontends, objects (by ID) and pods (by sandbox) are so.
	lost    map[frontend]time.Time
	orphans map[string]time.Time
	bare    map[string]time.Time
}

func newNetworkMemory() *networkMemory {
	return &networkMemory{had: map[frontend]bool{}, known: map[netip.Addr]bool{}, lost: map[frontend]time.Time{}, orphans: map[string]time.Time{}, bare: map[string]time.Time{}}
}

// judge says what is to be done. It only looks, and remembers.
func (m *networkMemory) judge(want desired.Network, v networkView) networkPlan {
	p := networkPlan{restart: map[string]string{}}
	if v.proxy != m.proxy {
		m.proxy, m.proxySince = v.proxy, v.now
		m.proxyState = m.proxyState.after(proxyReplaced)
		clear(m.had)
	}
	if v.err != nil {
		m.down = m.down || errors.Is(v.err, hns.ErrUnavailable)
		p.problem(api.ReasonHNSUnavailable, "%v", v.err)
		return p
	}
	network := m.find(&p, want, v)
	if network == nil {
		return p
	}
	subnet := network.Subnets[0].Prefix
	endpoint := hostEndpointOf(v.state, network.ID, want.Endpoint)
	if endpoint == nil {
		endpoint = &hns.Endpoint{Network: network.ID, Name: want.Endpoint, Address: lastOf(subnet), Host: true}
		p.create, p.remove.Endpoints = endpoint, othersWith(v.state, *endpoint)
		p.problem(api.ReasonHNSEndpointLost, "endpoint %s of network %s is not there, and is made", want.Endpoint, want.Name)
	}
	p.joint = &desired.Joint{
		Network: network.Name, PodCIDR: subnet.String(), ManagementIP: network.ManagementIP.String(),
		SourceVIP: endpoint.Address.String(), LastPodIP: lastOf(subnet).Prev().String(),
	}
	if p.create != nil {
		return p
	}
	m.judgePods(&p, v)
	if v.told != nil {
		m.judgeLoadBalancers(&p, want, v)
		m.judgeOrphans(&p, want, v)
	}
	return p
}

// find returns the network when it can be used.
func (m *networkMemory) find(p *networkPlan, want desired.Network, v networkView) *hns.Network {
	i := slices.IndexFunc(v.state.Networks, func(n hns.Network) bool { return n.Name == want.Name })
	if i < 0 || len(v.state.Networks[i].Subnets) == 0 || v.state.Networks[i].RouterMAC == "" || !v.state.Networks[i].ManagementIP.IsValid() {
		if m.absent.IsZero() {
			m.absent = v.now
		}
		p.problem(api.ReasonHNSNetworkMissing, "network %s is not there yet; service %s makes it, see its log", want.Name, want.MadeBy)
		m.judgeMaker(p, want, v.now)
		if m.network == "" && v.now.Sub(m.absent) < makerStarts {
			p.again = networkAwaited // it never was: there is no loss that the Node has to show for a while
		}
		return nil
	}
	network := &v.state.Networks[i]
	switch {
	case m.down: // kube-proxy takes objects that it could not ask for to be gone (kubernetes#139519)
		m.restartProxy(p, want, v, "the Host Network Service was away")
	case m.network != "" && m.network != network.ID:
		m.restartProxy(p, want, v, "network "+want.Name+" was created again")
	}
	m.network, m.down, m.absent = network.ID, false, time.Time{}
	return network
}

// judgeMaker has the service that makes the network start anew, when it does not make one that is gone. As long as there was none, it
// may be waiting for something; unless it makes none later than at its start.
func (m *networkMemory) judgeMaker(p *networkPlan, want desired.Network, now time.Time) {
	patience := makerStarts
	if want.Once && m.network != "" && m.maker.Before(m.absent) {
		patience = networkSoon
		p.soon()
	}
	if (m.network != "" || want.Once) && min(now.Sub(m.absent), now.Sub(m.maker)) >= patience {
		m.maker = now
		p.restart[want.MadeBy] = "network " + want.Name + " is gone"
	}
}

func hostEndpointOf(s hns.State, network, name string) *hns.Endpoint {
	i := slices.IndexFunc(s.Endpoints, func(e hns.Endpoint) bool { return e.Network == network && e.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Endpoints[i]
}

// othersWith are endpoints that have the address of the host's own: after a restart of Windows, kube-proxy knows the address from its
// configuration and may make an endpoint for it first, which the host is not in.
func othersWith(s hns.State, own hns.Endpoint) (others []hns.Endpoint) {
	for _, e := range s.Endpoints {
		if e.Network == own.Network && e.Address == own.Address {
			others = append(others, e)
		}
	}
	return others
}

// lastOf is the last address of a range before that of broadcasts.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		b[bit/8] |= 1 << (7 - bit%8)
	}
	return netip.AddrFrom4(b).Prev()
}

func (p *networkPlan) problem(reason, format string, args ...any) {
	p.problems = append(p.problems, networkProblem{reason, fmt.Sprintf(format, args...)})
}

// soon has the network looked at again before long: something seems to be wrong.
func (p *networkPlan) soon() { p.again = networkSoon }

// sinceOr is since when something is so, or now when it is for the first time.
func sinceOr[K comparable](all map[K]time.Time, key K, now time.Time) time.Time {
	return cmp.Or(all[key], now)
}

// message is what a Node is told; empty when all is well.
func (p networkPlan) message() (reason, message string) {
	if len(p.problems) == 0 {
		return "", ""
	}
	var all []string
	for _, t := range p.problems {
		all = append(all, t.message)
	}
	return p.problems[0].reason, shorten.Text(strings.Join(all, "; "), shorten.Note)
}
