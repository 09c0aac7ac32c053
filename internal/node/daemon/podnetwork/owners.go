package podnetwork

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// ownerQueryInterval is the pause between two queries to the API server for the owners of objects that seem orphaned.
const ownerQueryInterval = 10 * time.Minute

// owners records objects that seem orphaned, by ID.
type owners struct {
	orphaned map[string]presence
	// lastQuery is when the API server was last queried.
	lastQuery time.Time
	// withheld describes what would be removed if repairs were not only reported; empty if nothing.
	withheld string
}

// evaluate finds orphaned load balancers of Services and remote endpoints: they block addresses and ports for new ones. Only kube-proxy's
// objects are removed, and only after the API server has confirmed that no object has their address.
func (o *owners) evaluate(j *evaluation, network string) {
	services := j.want.ServiceRanges()
	wasServiceAddress := func(a netip.Addr) bool {
		return j.cluster.wasServiceAddress(a, j.now) || slices.ContainsFunc(services, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	orphaned, candidates := map[string]presence{}, hns.State{}
	isOverdue := func(id string) bool {
		p, wasOrphaned := o.orphaned[id]
		if !wasOrphaned {
			p.phase = seen
		}
		overdue := p.handleMissing(j, orphanedAfter)
		orphaned[id] = p
		return overdue && j.isSteady
	}
	used := map[string]bool{}
	for _, b := range j.state.LoadBalancers {
		for _, id := range b.Endpoints {
			used[id] = true
		}
		isOwned := slices.ContainsFunc(b.VIPs, func(vip netip.Addr) bool { return j.cluster.owns(vip) || !wasServiceAddress(vip) })
		if len(b.VIPs) > 0 && !isOwned && j.isFromKubeProxy(b) && isOverdue(b.ID) {
			candidates.LoadBalancers = append(candidates.LoadBalancers, b)
		}
	}
	for _, e := range j.state.Endpoints {
		isHost := slices.ContainsFunc(j.state.Networks, func(n hns.Network) bool { return n.ManagementIP == e.Address })
		isFromKubeProxy := e.Remote && e.Network == network && e.Name != j.want.Endpoint && (wasServiceAddress(e.Address) || hasKubeProxyMAC(e))
		if isFromKubeProxy && !j.cluster.owns(e.Address) && !used[e.ID] && !isHost && isOverdue(e.ID) {
			candidates.Endpoints = append(candidates.Endpoints, e)
		}
	}
	o.orphaned = orphaned
	o.remove(j, candidates)
}

// remove plans the removal of objects that the API server has confirmed as orphaned.
func (o *owners) remove(j *evaluation, candidates hns.State) {
	isNone := len(candidates.LoadBalancers)+len(candidates.Endpoints) == 0
	if isNone && j.isSteady {
		o.withheld = ""
	}
	defer o.withhold(j)
	if isNone {
		return
	}
	if j.evidence == nil || j.evidence.owned == nil || j.evidence.err != nil {
		if j.now.Sub(o.lastQuery) >= ownerQueryInterval {
			o.lastQuery, j.plan.query.owners = j.now, true
			j.plan.soon()
		}
		return
	}
	if !j.agrees() {
		return
	}
	second := j.objects.second
	for _, b := range candidates.LoadBalancers {
		isSame := func(o hns.LoadBalancer) bool { return o.ID == b.ID && slices.Equal(o.VIPs, b.VIPs) }
		if !slices.ContainsFunc(b.VIPs, j.evidence.owned.owns) && slices.ContainsFunc(second.LoadBalancers, isSame) {
			j.plan.remove.LoadBalancers = append(j.plan.remove.LoadBalancers, b)
		}
	}
	for _, e := range candidates.Endpoints {
		isSame := func(o hns.Endpoint) bool { return o.ID == e.ID && o.Address == e.Address && o.Remote }
		if !j.evidence.owned.owns(e.Address) && slices.ContainsFunc(second.Endpoints, isSame) {
			j.plan.remove.Endpoints = append(j.plan.remove.Endpoints, e)
		}
	}
	if j.repairs() {
		o.lastQuery = time.Time{} // the confirmed objects are removed now; the next need a new query
	}
}

// withhold reports what would be removed, if repairs are only reported.
func (o *owners) withhold(j *evaluation) {
	if j.repairs() {
		return
	}
	if removed := j.plan.remove; len(removed.LoadBalancers)+len(removed.Endpoints) > 0 {
		o.withheld = fmt.Sprintf("%d load balancers and %d endpoints belong to no Service and no pod, and are not removed: spec.network.repair is %s",
			len(removed.LoadBalancers), len(removed.Endpoints), j.want.Repair)
		j.plan.remove = hns.State{}
	}
	if o.withheld != "" {
		j.plan.notice(api.ReasonNetworkRepairWithheld, "%s", o.withheld)
	}
}

// isFromKubeProxy reports whether a load balancer may be kube-proxy's: kube-proxy sets the source to the address of the host's endpoint or
// of the node.
func (j *evaluation) isFromKubeProxy(b hns.LoadBalancer) bool {
	if !b.SourceVIP.IsValid() {
		return true
	}
	isNode := slices.ContainsFunc(j.state.Networks, func(n hns.Network) bool { return n.ManagementIP == b.SourceVIP })
	isEndpoint := slices.ContainsFunc(j.state.Endpoints, func(e hns.Endpoint) bool { return e.Name == j.want.Endpoint && e.Address == b.SourceVIP })
	return isNode || isEndpoint
}

// hasKubeProxyMAC reports whether an endpoint has the MAC address that kube-proxy gives to endpoints of other hosts: 02-11 and the IPv4
// address.
func hasKubeProxyMAC(e hns.Endpoint) bool {
	if !e.Address.Is4() {
		return false
	}
	a := e.Address.As4()
	return strings.EqualFold(strings.ReplaceAll(e.MAC, ":", "-"), fmt.Sprintf("02-11-%02x-%02x-%02x-%02x", a[0], a[1], a[2], a[3]))
}
