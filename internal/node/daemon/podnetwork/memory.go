package podnetwork

import (
	"cmp"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/node/kubeproxy"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

const (
	// creatorTimeout is how long the service that creates the network has before it is restarted.
	creatorTimeout = 3 * time.Minute
	// awaitedInterval is the check interval while the network is being created: a joining host waits for nothing else.
	awaitedInterval = 500 * time.Millisecond
)

// networkMemory is the state that is kept between passes. All its phases use one table.
type networkMemory struct {
	table   transitions
	hns     phase
	network phase
	// id is that of the last network seen.
	id string
	// since is when the network was first missed, or when the service that creates it was restarted for that.
	since     time.Time
	proxy     kubeProxy
	balancers balancers
	pods      podEndpoints
	owners    owners
	// unsteadySince is when the Host Network Service last started or failed to answer, the network was last missing or replaced, or a missing
	// object last came back on its own.
	unsteadySince time.Time
	// service is the process of the Host Network Service, and startedAt when it was first seen.
	service   uint32
	startedAt time.Time
	agreement agreement
	// endpoint is the host's own endpoint, as last seen. endpointLost means that it is certainly lost, and stays so because repairs are disabled.
	endpoint     hns.Endpoint
	endpointLost bool
}

func newNetworkMemory() *networkMemory {
	return &networkMemory{
		table: networkTransitions(), hns: hnsAnswers, network: networkAwaited, proxy: kubeProxy{phase: proxyStarting},
		balancers: balancers{created: map[kubeproxy.Frontend]presence{}, stale: map[kubeproxy.Frontend]time.Time{}}, pods: podEndpoints{known: map[netip.Addr]string{}},
	}
}

// queryFuncs query what a view does not include.
type queryFuncs struct {
	// query queries the API server; readObjects reads each of Windows' objects, and these endpoints by ID. Both return nil if it is too
	// early to query again.
	query       func(queries) *evidence
	readObjects func(endpoints []string) *objectView
	now         func() time.Time
}

// decide evaluates a view, and evaluates it again with the results of its queries, so that the plan acts on them at once. Restarts from an
// earlier evaluation are kept: the memory records them as done, so a later evaluation does not decide them again.
func (m *networkMemory) decide(want desired.Network, v *networkView, a queryFuncs) networkPlan {
	plan := m.evaluate(want, *v)
	reevaluate := func() {
		v.now, v.restarted = a.now(), false
		decided := plan.restart
		plan = m.evaluate(want, *v)
		maps.Copy(plan.restart, decided)
	}
	if plan.query.hasAny() {
		if v.evidence = a.query(plan.query); v.evidence == nil {
			return plan
		}
		reevaluate()
	}
	if plan.query.readObjects {
		if v.objects = a.readObjects(plan.query.endpoints); v.objects == nil {
			return plan
		}
		reevaluate()
	}
	return plan
}

// evaluate returns the plan for a view. It changes nothing but the memory.
func (m *networkMemory) evaluate(want desired.Network, v networkView) networkPlan {
	j := &evaluation{networkView: v, want: want, table: m.table, plan: networkPlan{restart: map[string]string{}}, agreement: &m.agreement}
	m.observeService(j)
	if m.proxy.observe(j) {
		m.balancers.forget(j)
	}
	if v.err != nil {
		m.unsteadySince = v.now
		e := readFails
		if errors.Is(v.err, hns.ErrUnavailable) {
			e = readUnavailable
		}
		j.plan.problem(j.move(&m.hns, e).reason, "%v", v.err)
		return j.plan
	}
	if network := m.find(j); network != nil && m.planEndpoint(j, network) {
		m.evaluateParts(j)
	}
	for _, p := range v.creator {
		j.plan.problem(p.Reason, "%s", p.Message)
	}
	return j.plan
}

// evaluateParts plans for the parts of an existing network.
func (m *networkMemory) evaluateParts(j *evaluation) {
	if j.want.Repair == v1alpha1.RepairOff {
		return
	}
	j.onHost, j.isSteady = presenceIn(j.state, m.id), j.now.Sub(m.unsteadySince) >= steadyAfter
	m.agreement.observe(j, m.id)
	problems, notices := len(j.plan.problems), len(j.plan.notices)
	if m.pods.evaluate(j) {
		m.unsteadySince = j.now
	}
	if j.cluster != nil {
		if j.proxy != 0 { // a kube-proxy that is not running creates them when it starts
			m.proxy.evaluate(j, &m.balancers)
		}
		m.owners.evaluate(j, m.id)
	}
	m.agreement.confirm(j, problems, notices)
}

// observeService detects a start of the Host Network Service, whose lists may then be incomplete for a while. If its process is unknown, a
// change notification counts as a start.
func (m *networkMemory) observeService(j *evaluation) {
	if m.unsteadySince.IsZero() || j.service != m.service || j.service == 0 && j.restarted {
		m.unsteadySince, m.startedAt, m.agreement = j.now, j.now, agreement{}
	}
	m.service = j.service
}

// find returns the network if it is usable.
func (m *networkMemory) find(j *evaluation) *hns.Network {
	i := slices.IndexFunc(j.state.Networks, func(n hns.Network) bool { return n.Name == j.want.Name })
	if i < 0 {
		m.handleMissing(j, "does not exist")
		return nil
	}
	if n := j.state.Networks[i]; len(n.Subnets) == 0 || !n.HasAddresses() {
		m.handleMissing(j, "has no addresses yet")
		return nil
	}
	network := &j.state.Networks[i]
	if j.move(&m.hns, networkFound).do == restartProxy {
		m.proxy.restart(j, "the Host Network Service was unavailable")
	}
	e := networkFound
	if m.id != "" && m.id != network.ID {
		e, m.unsteadySince = networkReplaced, j.now
	}
	if j.move(&m.network, e).do == restartProxy {
		m.proxy.restart(j, "network "+j.want.Name+" was re-created")
	}
	m.id, m.since = network.ID, time.Time{}
	return network
}

// handleMissing handles a pass without a usable network. If there was none for too long, the service that creates it is restarted.
func (m *networkMemory) handleMissing(j *evaluation, what string) {
	m.unsteadySince = j.now
	if m.since.IsZero() {
		m.since = j.now
	}
	e, missingFor := networkMissing, j.now.Sub(m.since)
	if limit, isLimited := m.creatorLimit(j); isLimited && missingFor >= limit {
		e = networkOverdue
	}
	if m.network == networkAwaited && missingFor < creatorTimeout {
		j.plan.again = awaitedInterval // there never was one, so the Node has no loss to show for a while
	}
	t := j.move(&m.network, e)
	if len(j.creator) == 0 { // otherwise its own status gives the cause and must come first
		j.plan.problem(t.reason, "network %s %s; see the log of service %s, which creates it", j.want.Name, what, j.want.MadeBy)
	}
	isFirst := m.id == "" // creating the first one is not a repair
	if t.do == restartCreator && (isFirst || j.repairs()) {
		j.plan.restart[j.want.MadeBy] = "network " + j.want.Name + " " + what
		m.since = j.now
	}
}

// creatorLimit returns how long the service that creates the network may take, and whether that is limited. Before the first network the
// service may be waiting for something, unless it creates the network only at start, as flanneld does: it then creates a network that
// Windows does not list a second time.
func (m *networkMemory) creatorLimit(j *evaluation) (limit time.Duration, isLimited bool) {
	switch {
	case len(j.creator) > 0: // it runs and reports what it waits for; a restart would only hide that for a while
		return 0, false
	case j.want.Once && (m.network == networkPresent || m.network == networkLost):
		j.plan.soon()
		return max(networkSoon, m.startedAt.Add(hns.IncompleteFor).Sub(m.since)), true
	case m.network == networkAwaited:
		return creatorTimeout, j.want.Once
	}
	return creatorTimeout, true
}

// planEndpoint plans the host's own endpoint and the values of the network's files. It reports whether the endpoint exists; without it, nothing else can
// be done. An endpoint that existed is re-created only if repairs are enabled and both generations of the API lack it.
func (m *networkMemory) planEndpoint(j *evaluation, network *hns.Network) bool {
	subnet := network.Subnets[0].Prefix
	endpoint := m.hostEndpoint(j, network.ID)
	isLost := m.isEndpointLost(j, endpoint, network.ID)
	existed := m.endpoint.Network == network.ID
	isUnknown := endpoint == nil && existed && !isLost || endpoint != nil && !endpoint.Address.IsValid()
	if isUnknown && j.objects == nil {
		j.plan.query.readObjects = true
		j.plan.soon()
	}
	switch {
	case isLost && !j.repairs():
		j.plan.problem(api.ReasonHNSEndpointLost, "endpoint %s of network %s does not exist; repairs are disabled (spec.network.repair)", j.want.Endpoint, j.want.Name)
		return false
	case endpoint == nil && existed:
		j.plan.problem(api.ReasonHNSEndpointLost, "endpoint %s of network %s is not listed", j.want.Endpoint, j.want.Name)
		return false
	case endpoint == nil:
		endpoint = &hns.Endpoint{Network: network.ID, Name: j.want.Endpoint, Address: lastOf(subnet), Host: true}
		j.plan.create, j.plan.remove.Endpoints = endpoint, othersWith(j.state, *endpoint)
		j.plan.problem(api.ReasonHNSEndpointLost, "endpoint %s of network %s does not exist and is created", j.want.Endpoint, j.want.Name)
	case !endpoint.Address.IsValid():
		j.plan.problem(api.ReasonHNSEndpointLost, "endpoint %s of network %s has no address", j.want.Endpoint, j.want.Name)
		return false
	default:
		m.endpoint = *endpoint
	}
	j.plan.values = &desired.NetworkValues{
		Network: network.Name, PodCIDR: subnet.String(), ManagementIP: network.ManagementIP.String(),
		SourceVIP: endpoint.Address.String(), LastPodIP: lastOf(subnet).Prev().String(),
	}
	return j.plan.create == nil
}

// isEndpointLost reports whether the host's own endpoint existed and is certainly lost. If repairs are enabled, it is forgotten, so that it is created.
func (m *networkMemory) isEndpointLost(j *evaluation, found *hns.Endpoint, network string) bool {
	isConfirmed := j.objects != nil && j.objects.err == nil && j.now.Sub(m.startedAt) >= hns.IncompleteFor
	isLost := found == nil && m.endpoint.Network == network && (m.endpointLost || isConfirmed)
	m.endpointLost = isLost && !j.repairs()
	if isLost && j.repairs() {
		m.endpoint = hns.Endpoint{}
	}
	return isLost
}

// hostEndpoint returns the host's own endpoint, from the lists or an object read; nil if there is none. If its address is not listed, the
// endpoint last seen is returned.
func (m *networkMemory) hostEndpoint(j *evaluation, network string) *hns.Endpoint {
	found := hostEndpointOf(j.state, network, j.want.Endpoint)
	if (found == nil || !found.Address.IsValid()) && j.objects != nil && j.objects.err == nil {
		found = cmp.Or(hostEndpointOf(j.objects.second, network, j.want.Endpoint), found)
	}
	if found != nil && !found.Address.IsValid() && found.ID == m.endpoint.ID {
		return &m.endpoint
	}
	return found
}

func hostEndpointOf(s hns.State, network, name string) *hns.Endpoint {
	i := slices.IndexFunc(s.Endpoints, func(e hns.Endpoint) bool { return e.Network == network && e.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Endpoints[i]
}

// othersWith returns endpoints with the address of the host's own: after a restart of Windows, kube-proxy knows the address from its
// configuration and may first create an endpoint for it that is not attached to the host.
func othersWith(s hns.State, own hns.Endpoint) (others []hns.Endpoint) {
	for _, e := range s.Endpoints {
		if e.Network == own.Network && e.Address == own.Address {
			others = append(others, e)
		}
	}
	return others
}

// lastOf returns the last address of a range before its broadcast address.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		b[bit/8] |= 1 << (7 - bit%8)
	}
	return netip.AddrFrom4(b).Prev()
}
