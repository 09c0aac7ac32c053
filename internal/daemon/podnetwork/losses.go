package podnetwork

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/hns"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// judgePods finds pods that lost their endpoints: nothing but a new sandbox gives them a network again. A pod whose endpoint was never
// seen is left alone, whatever the reason: to end it would be worse.
func (m *networkMemory) judgePods(p *networkPlan, v networkView) {
	has := ownAddresses(v.state)
	maps.Copy(m.known, has)
	bare := map[string]time.Time{}
	var named []string
	for _, pod := range v.pods {
		if has[pod.address] || !m.known[pod.address] {
			continue
		}
		bare[pod.sandbox] = sinceOr(m.bare, pod.sandbox, v.now)
		if v.now.Sub(bare[pod.sandbox]) < lostAfter {
			p.soon()
			continue
		}
		p.end = append(p.end, pod)
		named = append(named, pod.address.String())
	}
	m.bare = bare
	if len(named) > 0 {
		p.problem(api.ReasonHNSEndpointLost, "%d pods have lost their network and are created again: %s", len(named), shorten.List(named, namedLosses, ", "))
	}
}

// ownAddresses are those of endpoints of this host.
func ownAddresses(s hns.State) map[netip.Addr]bool {
	own := map[netip.Addr]bool{}
	for _, e := range s.Endpoints {
		if !e.Remote {
			own[e.Address] = true
		}
	}
	return own
}

// judgeLoadBalancers finds Services without a load balancer. kube-proxy does not notice, and makes all of them when it starts.
func (m *networkMemory) judgeLoadBalancers(p *networkPlan, want desired.Network, v networkView) {
	if v.proxy == 0 {
		return // it will make them when it starts
	}
	m.balances = m.balances || len(v.state.LoadBalancers) > 0
	have := map[frontend]bool{}
	for _, b := range v.state.LoadBalancers {
		for _, vip := range b.VIPs {
			have[frontend{vip, b.External, b.Protocol}] = true
		}
	}
	expected := v.told.expected(v.now, lostAfter)
	patience := lostAfter
	if v.told.busy(v.now) {
		patience = lostWhenBusy
	}
	if len(v.state.LoadBalancers) == 0 && len(m.had) >= massLoss {
		patience = 0
	}
	named, overdue := m.missing(p, v, have, expected, patience)
	runs := v.now.Sub(m.proxySince)
	if len(m.lost) == 0 && runs >= proxyClears {
		m.proxyState, m.restarts = m.proxyState.after(proxyComplete), 0
	}
	starts := runs < proxyStarts && !m.proxyState.hasMadeAll()
	if len(named) == 0 || starts && !m.proxyState.isRepair() {
		return
	}
	slices.Sort(named)
	p.problem(api.ReasonLoadBalancersLost, "%d of %d ports of Services have no load balancer: %s", len(named), len(expected), shorten.List(named, namedLosses, ", "))
	pause := min(restartPause<<min(m.restarts, 10), restartPauses)
	if overdue == 0 || !m.balances || starts || m.restarts > 0 && v.now.Sub(m.restarted) < pause {
		return
	}
	m.restartProxy(p, want, v, fmt.Sprintf("%d load balancers are missing", overdue))
	m.restarts, m.restarted = m.restarts+1, v.now
}

// missing are the frontends without a load balancer that the Node is to be told of, by name, and how many of them have been without
// for too long.
func (m *networkMemory) missing(p *networkPlan, v networkView, have map[frontend]bool, expected map[frontend]string, patience time.Duration) (named []string, overdue int) {
	lost := map[frontend]time.Time{}
	for front, service := range expected {
		if have[front] {
			m.had[front] = m.had[front] || v.now.Sub(m.proxySince) >= proxyClears
			continue
		}
		lost[front] = sinceOr(m.lost, front, v.now)
		away := v.now.Sub(lost[front])
		late := m.had[front] && away >= patience || away >= lateAfter
		if late {
			overdue++
		}
		if late || m.proxyState.isRepair() {
			named = append(named, service+" ("+front.String()+")")
		}
		if m.had[front] {
			p.soon()
		}
	}
	m.lost = lost
	return named, overdue
}

// restartProxy restarts kube-proxy, which then makes everything anew. Until all is there, the Node is told of what is not.
func (m *networkMemory) restartProxy(p *networkPlan, want desired.Network, v networkView, why string) {
	if v.proxy != 0 && p.restart[want.Proxy] == "" {
		p.restart[want.Proxy], m.proxyState = why, m.proxyState.after(proxyRestartAsked)
	}
}

// judgeOrphans finds load balancers of Services, and stand-ins for endpoints of other hosts, that belong to nobody any more: they keep
// addresses and ports from those that come.
func (m *networkMemory) judgeOrphans(p *networkPlan, want desired.Network, v networkView) {
	services, err := netip.ParsePrefix(want.ServiceCIDR)
	if err != nil {
		return
	}
	known := v.told.addresses()
	orphans := map[string]time.Time{}
	gone := func(id string) bool {
		orphans[id] = sinceOr(m.orphans, id, v.now)
		return v.now.Sub(orphans[id]) >= orphanedAfter
	}
	used := map[string]bool{}
	for _, b := range v.state.LoadBalancers {
		for _, id := range b.Endpoints {
			used[id] = true
		}
		nobodys := len(b.VIPs) > 0 && !slices.ContainsFunc(b.VIPs, func(vip netip.Addr) bool { return known[vip] || !services.Contains(vip) })
		if nobodys && gone(b.ID) {
			p.remove.LoadBalancers = append(p.remove.LoadBalancers, b)
		}
	}
	for _, e := range v.state.Endpoints {
		isHost := slices.ContainsFunc(v.state.Networks, func(n hns.Network) bool { return n.ManagementIP == e.Address })
		if e.Remote && e.Network == m.network && e.Name != want.Endpoint && !known[e.Address] && !used[e.ID] && !isHost && gone(e.ID) {
			p.remove.Endpoints = append(p.remove.Endpoints, e)
		}
	}
	m.orphans = orphans
}
