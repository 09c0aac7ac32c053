package podnetwork

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/api"
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
	// orphanedAfter is for what belongs to no Service any more: longer than a watch of ours can lag behind that of kube-proxy.
	orphanedAfter = 3 * time.Minute
	// massLoss is how many load balancers there must have been to know without waiting, when there is none at all, that they were lost.
	massLoss = 3
)

// presence is whether something is there, and since when it is missing.
type presence struct {
	phase phase
	since time.Time
}

// miss is for a look that does not show it. isOverdue tells whether that was so for too long.
func (p *presence) miss(j *judgement, patience time.Duration) (isOverdue bool) {
	if p.since.IsZero() {
		p.since = j.now
	}
	e := missing
	if j.now.Sub(p.since) >= patience {
		e = overdue
	}
	return j.move(&p.phase, e).do == restore
}

// show is for a look that shows it, or to which it does not matter.
func (p *presence) show(j *judgement, e event) {
	p.since = time.Time{}
	j.move(&p.phase, e)
}

// podEndpoints remembers endpoints of pods: known are the addresses that endpoints of this host had, bare are pods without theirs.
type podEndpoints struct {
	known map[netip.Addr]bool
	bare  map[podNetwork]presence
}

// judge finds pods that lost their endpoints: nothing but a new sandbox gives them a network again. A pod whose endpoint was never
// seen is left alone, whatever the reason: to end it would be worse.
func (e *podEndpoints) judge(j *judgement) {
	has := ownAddresses(j.state)
	maps.Copy(e.known, has)
	bare := map[podNetwork]presence{}
	var named []string
	for _, pod := range j.pods {
		if has[pod.address] || !e.known[pod.address] {
			continue
		}
		is, wasBare := e.bare[pod]
		if !wasBare {
			is.phase = seen
		}
		isOverdue := is.miss(j, lostAfter)
		bare[pod] = is
		if !isOverdue {
			j.plan.soon()
			continue
		}
		j.plan.end = append(j.plan.end, pod)
		named = append(named, pod.address.String())
	}
	e.bare = bare
	if len(named) > 0 {
		j.plan.problem(api.ReasonHNSEndpointLost, "%d pods have lost their network and are created again: %s", len(named), shorten.List(named, namedLosses, ", "))
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

// balancers remembers which load balancers this process of kube-proxy has made.
type balancers map[frontend]presence

// forget is for another process of kube-proxy, which makes all of them again.
func (b balancers) forget(j *judgement) {
	for front, is := range b {
		j.move(&is.phase, forgotten)
		b.put(front, is)
	}
}

// put keeps what there is to remember.
func (b balancers) put(front frontend, is presence) {
	if b[front] = is; is.phase == unseen {
		delete(b, front)
	}
}

// judge finds Services without a load balancer.
func (b balancers) judge(j *judgement, proxy *kubeProxy) lostBalancers {
	have := map[frontend]bool{}
	for _, lb := range j.state.LoadBalancers {
		for _, vip := range lb.VIPs {
			have[frontend{vip, lb.External, lb.Protocol}] = true
		}
	}
	patience := b.patience(j)
	expected := j.told.expected(j.now, lostAfter)
	for front, is := range b {
		if _, isExpected := expected[front]; !isExpected {
			is.show(j, undecided)
			b.put(front, is)
		}
	}
	l := lostBalancers{expected: len(expected)}
	for front, service := range expected {
		is, remembered := b[front]
		if !remembered {
			is.phase = unseen
		}
		switch {
		case have[front] && proxy.clears(j.now):
			is.show(j, undecided)
		case have[front]:
			is.show(j, there)
		default:
			isOverdue := is.miss(j, patience[is.phase])
			l.add(service+" ("+front.String()+")", isOverdue, proxy.isRepair())
			if is.phase == lost {
				j.plan.soon()
			}
		}
		b.put(front, is)
	}
	return l
}

// patience is how long a load balancer may be missing in each phase. That there is none at all is a loss without waiting.
func (b balancers) patience(j *judgement) map[phase]time.Duration {
	had := 0
	for _, is := range b {
		if is.phase == seen || is.phase == lost {
			had++
		}
	}
	patience := lostAfter
	switch {
	case len(j.state.LoadBalancers) == 0 && had >= massLoss:
		patience = 0
	case j.told.busy(j.now):
		patience = lostWhenBusy
	}
	return map[phase]time.Duration{unseen: lateAfter, awaited: lateAfter, seen: patience, lost: patience}
}

// owners remembers objects that belong to nobody, by ID.
type owners map[string]presence

// judge finds load balancers of Services, and stand-ins for endpoints of other hosts, that belong to nobody any more: they keep
// addresses and ports from those that come. It returns what is to be remembered.
func (o owners) judge(j *judgement, network string) owners {
	services, err := netip.ParsePrefix(j.want.ServiceCIDR)
	if err != nil {
		return o
	}
	known := j.told.addresses()
	without := owners{}
	gone := func(id string) bool {
		is, wasWithout := o[id]
		if !wasWithout {
			is.phase = seen
		}
		isOverdue := is.miss(j, orphanedAfter)
		without[id] = is
		return isOverdue
	}
	used := map[string]bool{}
	for _, b := range j.state.LoadBalancers {
		for _, id := range b.Endpoints {
			used[id] = true
		}
		nobodys := len(b.VIPs) > 0 && !slices.ContainsFunc(b.VIPs, func(vip netip.Addr) bool { return known[vip] || !services.Contains(vip) })
		if nobodys && gone(b.ID) {
			j.plan.remove.LoadBalancers = append(j.plan.remove.LoadBalancers, b)
		}
	}
	for _, e := range j.state.Endpoints {
		isHost := slices.ContainsFunc(j.state.Networks, func(n hns.Network) bool { return n.ManagementIP == e.Address })
		if e.Remote && e.Network == network && e.Name != j.want.Endpoint && !known[e.Address] && !used[e.ID] && !isHost && gone(e.ID) {
			j.plan.remove.Endpoints = append(j.plan.remove.Endpoints, e)
		}
	}
	return without
}
