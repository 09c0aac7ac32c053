package podnetwork

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/kubeproxy"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// How long a part of the network may be missing, or be left over, before something is done about it. kube-proxy programs a changed
// Service within a second or two, and waits ten seconds when it starts (pkg/proxy/winkernel/proxier.go).
const (
	// lostAfter applies to a load balancer or an endpoint that existed.
	lostAfter = 5 * time.Second
	// restartAfter is how long one must be missing before kube-proxy is restarted for it: kube-proxy removes the load balancers of a changed
	// Service, and re-creates them some time later when it is busy.
	restartAfter = 15 * time.Second
	// unchangedFor is the minimum time between the Service's last change and the loss: kube-proxy may receive a change that much later than WICD,
	// and then fail to re-create what it has removed.
	unchangedFor = 5 * time.Minute
	// lostWhenBusy applies to a load balancer that existed while kube-proxy is busy, lateAfter to one that was never seen or has other
	// back ends.
	lostWhenBusy = 30 * time.Second
	lateAfter    = 2 * time.Minute
	// orphanedAfter applies to objects without a Service: longer than WICD's watches can lag behind those of kube-proxy.
	orphanedAfter = 3 * time.Minute
	// massLoss is how many load balancers must have existed for their complete absence to count as a loss without waiting.
	massLoss = 3
	// steadyAfter is how long the Host Network Service must have answered, with the same network, before an unlisted object counts as lost:
	// a service that has just started may not have read everything.
	steadyAfter = time.Minute
	// maxPodStops is how many pods are stopped in one pass, or within podStopPeriod if more than half of all have lost their endpoints.
	maxPodStops   = 10
	podStopPeriod = time.Minute
)

// presence is the phase of an object, and since when it is missing.
type presence struct {
	phase phase
	since time.Time
}

// handleMissing handles a pass in which the object is missing. isOverdue reports whether it was missing for too long.
func (p *presence) handleMissing(j *evaluation, timeout time.Duration) (isOverdue bool) {
	if p.since.IsZero() {
		p.since = j.now
	}
	e := missing
	if j.now.Sub(p.since) >= timeout {
		e = overdue
	}
	j.move(&p.phase, e)
	return e == overdue
}

// handlePresent handles a pass in which the object is present, or is not required.
func (p *presence) handlePresent(j *evaluation, e event) {
	p.since = time.Time{}
	j.move(&p.phase, e)
}

// podEndpoints records pods' endpoints: known are the addresses that endpoints of this host had, with their IDs, withoutEndpoint are pods
// without their endpoint. ended is when pods were ended.
type podEndpoints struct {
	known           map[netip.Addr]string
	withoutEndpoint map[podNetwork]presence
	ended           []time.Time
}

// evaluate finds pods that lost their endpoints: only a new sandbox gives them a network again. A pod whose endpoint was never seen is left
// alone, because ending it would be worse. recovered reports whether a missing endpoint came back on its own.
func (e *podEndpoints) evaluate(j *evaluation) (recovered bool) {
	existing := ownAddresses(j.state)
	maps.Copy(e.known, existing)
	withoutEndpoint := map[podNetwork]presence{}
	var lost []podNetwork
	for _, pod := range j.pods {
		if existing[pod.address] != "" || e.known[pod.address] == "" {
			continue
		}
		found, wasWithout := e.withoutEndpoint[pod]
		if !wasWithout {
			found.phase = seen
		}
		isOverdue := found.handleMissing(j, lostAfter)
		withoutEndpoint[pod] = found
		if !isOverdue || !j.isSteady {
			j.plan.soon()
			continue
		}
		lost = append(lost, pod)
	}
	for pod := range e.withoutEndpoint {
		recovered = recovered || existing[pod.address] != ""
	}
	e.withoutEndpoint = withoutEndpoint
	e.end(j, lost, len(existing))
	return recovered
}

// end plans to stop pods that lost their endpoints, if Windows confirms that by ID. If most pods did, only a few are stopped at a time.
func (e *podEndpoints) end(j *evaluation, lost []podNetwork, others int) {
	if len(lost) == 0 {
		return
	}
	var named, ids []string
	for _, pod := range lost {
		named, ids = append(named, pod.address.String()), append(ids, e.known[pod.address])
	}
	what := "are re-created"
	if !j.repairs() {
		what = "must be re-created"
	}
	j.plan.problem(api.ReasonHNSEndpointLost, "%d pods lost their network and %s: %s", len(named), what, truncate.List(named, namedLosses, ", "))
	if !j.repairs() || !j.agrees(ids...) {
		return
	}
	most := maxPodStops
	if len(lost) > others {
		e.ended = slices.DeleteFunc(e.ended, func(t time.Time) bool { return j.now.Sub(t) >= podStopPeriod })
		most = max(0, maxPodStops-len(e.ended))
	}
	j.plan.end = lost[:min(len(lost), most)]
	for range j.plan.end {
		e.ended = append(e.ended, j.now)
	}
	j.plan.soon()
}

// ownAddresses returns the addresses of this host's endpoints, with their IDs.
func ownAddresses(s hns.State) map[netip.Addr]string {
	own := map[netip.Addr]string{}
	for _, e := range s.Endpoints {
		if !e.Remote && e.Address.IsValid() {
			own[e.Address] = e.ID
		}
	}
	return own
}

// presenceIn returns a network's endpoints as kube-proxy uses them. Of two endpoints with one address, that of the host counts.
func presenceIn(s hns.State, network string) kubeproxy.Presence {
	onHost := kubeproxy.Presence{}
	for _, e := range s.Endpoints {
		if e.Network == network {
			onHost[e.Address] = onHost[e.Address] || !e.Remote
		}
	}
	return onHost
}

// balancers records which load balancers this process of kube-proxy has created.
type balancers struct {
	created map[kubeproxy.Frontend]presence
	// stale are load balancers with other back ends than their Services, and since when.
	stale map[kubeproxy.Frontend]time.Time
}

// forget handles a new process of kube-proxy, which re-creates all of them.
func (b *balancers) forget(j *evaluation) {
	for front, p := range b.created {
		if p.handlePresent(j, forgotten); p.phase == abandoned {
			p.since = j.now
		}
		b.put(front, p)
	}
	clear(b.stale)
}

// put stores p unless it is unseen.
func (b *balancers) put(front kubeproxy.Frontend, p presence) {
	if b.created[front] = p; p.phase == unseen {
		delete(b.created, front)
	}
}

// balancerLosses is what a pass finds about load balancers.
type balancerLosses struct {
	// expected is how many are required, missing how many of these may still appear.
	expected, missing int
	// lost are those that need a restart of kube-proxy, with their Services.
	lost map[kubeproxy.Frontend]types.NamespacedName
	// reported are for the Node's condition: everything lost, and during a repair everything missing. late were never created, and stale have
	// other back ends than their Services.
	reported, late, stale []string
}

// evaluate compares load balancers with Services.
func (b *balancers) evaluate(j *evaluation, proxy *kubeProxy) balancerLosses {
	own, former := hns.State{Endpoints: j.state.Endpoints}, hns.State{}
	for _, lb := range j.state.LoadBalancers {
		of := &own
		if proxy.isFormer(lb, j.now) {
			of = &former
		}
		of.LoadBalancers = append(of.LoadBalancers, lb)
	}
	created, formerBackends := backendsIn(own), backendsIn(former)
	timeouts := b.timeouts(j)
	expected := j.cluster.expected(j.now, lostAfter, j.onHost)
	for front, p := range b.created {
		if _, isExpected := expected[front]; !isExpected {
			p.handlePresent(j, unneeded)
			b.put(front, p)
		}
	}
	maps.DeleteFunc(b.stale, func(front kubeproxy.Frontend, _ time.Time) bool { _, isExpected := expected[front]; return !isExpected })
	l := balancerLosses{expected: len(expected), lost: map[kubeproxy.Frontend]types.NamespacedName{}}
	for front, want := range expected {
		p, remembered := b.created[front]
		if !remembered {
			p.phase = unseen
		}
		backends, isPresent := created[front]
		_, isFormer := formerBackends[front]
		switch {
		case isPresent:
			p.handlePresent(j, present)
			if b.isWrong(j, front, !slices.Equal(backends, want.backends)) {
				l.stale = append(l.stale, fmt.Sprintf("%s has %s instead of %s", nameOf(front, want.service), addressList(backends), addressList(want.backends)))
			}
		case isFormer:
			p.handlePresent(j, undecided)
			l.missing++
		default:
			timeout := timeouts[p.phase]
			isOverdue := p.handleMissing(j, timeout)
			l.add(front, want.service, p.phase, isOverdue, proxy.isRepair())
			if p.phase == lost {
				j.plan.soon()
			}
			mayBeReprogramming := j.now.Sub(p.since) < restartAfter || p.since.Sub(want.since) < unchangedFor
			if p.phase == lost && isOverdue && (timeout == 0 || !mayBeReprogramming) {
				l.lost[front] = want.service
			}
		}
		b.put(front, p)
	}
	return l
}

// add counts a missing load balancer.
func (l *balancerLosses) add(front kubeproxy.Frontend, service types.NamespacedName, p phase, isOverdue, isRepair bool) {
	name := nameOf(front, service)
	if p != abandoned && (p == lost || !isOverdue) {
		l.missing++ // it may still appear
	}
	switch {
	case p == abandoned || p == lost && isOverdue || isRepair && !isOverdue:
		l.reported = append(l.reported, name)
	case p != lost && isOverdue:
		l.late = append(l.late, name)
	}
}

func nameOf(front kubeproxy.Frontend, service types.NamespacedName) string {
	return fmt.Sprintf("%s (%s)", service, front)
}

// isWrong reports whether a load balancer has had other back ends than its Service for too long: connections to it fail, or reach an address
// that is no longer part of the Service.
func (b *balancers) isWrong(j *evaluation, front kubeproxy.Frontend, isDifferent bool) bool {
	if !isDifferent {
		delete(b.stale, front)
		return false
	}
	if _, wasDifferent := b.stale[front]; !wasDifferent {
		b.stale[front] = j.now
	}
	return j.now.Sub(b.stale[front]) >= lateAfter
}

func addressList(all []netip.Addr) string {
	var texts []string
	for _, a := range all {
		texts = append(texts, a.String())
	}
	if len(texts) == 0 {
		return "none"
	}
	return truncate.List(texts, namedLosses, ", ")
}

// backendsIn returns the addresses behind each load balancer, sorted. Endpoints that no longer exist are left out.
func backendsIn(s hns.State) map[kubeproxy.Frontend][]netip.Addr {
	addresses := map[string]netip.Addr{}
	for _, e := range s.Endpoints {
		addresses[e.ID] = e.Address
	}
	have := map[kubeproxy.Frontend][]netip.Addr{}
	for _, lb := range s.LoadBalancers {
		var backends []netip.Addr
		for _, id := range lb.Endpoints {
			if a, exists := addresses[id]; exists {
				backends = append(backends, a)
			}
		}
		backends = slices.Compact(slices.SortedFunc(slices.Values(backends), netip.Addr.Compare))
		for _, vip := range vipsOf(lb) {
			have[kubeproxy.Frontend{VIP: vip, Port: lb.External, Protocol: lb.Protocol}] = backends
		}
	}
	return have
}

// timeouts returns how long a load balancer may be missing in each phase. If there is none at all, that is a loss without waiting.
func (b *balancers) timeouts(j *evaluation) map[phase]time.Duration {
	previous := 0
	for _, p := range b.created {
		if p.phase == seen || p.phase == lost {
			previous++
		}
	}
	timeout := lostAfter
	switch {
	case len(j.state.LoadBalancers) == 0 && previous >= massLoss:
		timeout = 0
	case j.cluster.busy(j.now):
		timeout = lostWhenBusy
	}
	return map[phase]time.Duration{unseen: lateAfter, awaited: lateAfter, abandoned: lateAfter, seen: timeout, lost: timeout}
}
