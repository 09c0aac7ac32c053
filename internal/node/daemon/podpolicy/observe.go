package podpolicy

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// objectReadInterval is the pause between two reads of each object by the reconciler.
const objectReadInterval = 10 * time.Second

// network is what was seen of the pod network. It is safe for concurrent use.
type network struct {
	mu sync.Mutex
	// addresses are those that endpoints have or had, by ID: lists may lack them.
	addresses map[string]netip.Addr
	// node are the addresses from which the node's own connections reach its pods.
	node        []netip.Addr
	objectsRead time.Time
}

// observe reads the endpoints of pods and their rules. isUrgent allows reading each object as often as necessary.
func (r *Reconciler) observe(ctx context.Context, isUrgent bool) (s situation, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	listed, err := r.Host.Networks.List(ctx)
	if err != nil {
		return s, fmt.Errorf("reading endpoints: %w", err)
	}
	if r.network.lacksAddress(r.local(listed)) && r.network.mayReadObjects(isUrgent) {
		objects, err := r.Host.Networks.ReadObjects(ctx, nil)
		if err != nil {
			return s, fmt.Errorf("reading each endpoint: %w", err)
		}
		r.network.learn(objects.Endpoints)
	}
	endpoints := r.network.complete(r.local(listed))
	s.node = r.nodeAddresses(listed, endpoints)
	for _, e := range endpoints {
		if !e.Host {
			s.endpoints = append(s.endpoints, e)
		}
	}
	if s.acls, err = r.Host.EndpointACLs.ACLs(ctx); err != nil {
		return s, fmt.Errorf("reading the ACLs of endpoints: %w", err)
	}
	r.complete(&s)
	return s, nil
}

// complete adds what is known without Windows, in its newest state.
func (r *Reconciler) complete(s *situation) {
	s.now, s.policies = time.Now(), r.policies
	s.pods, s.sets, s.memory = byAddress(r.pods.all()), r.sets.snapshot(), r.memory.snapshot()
}

// local returns the endpoints of this host in the pod network, and those that are remembered.
func (r *Reconciler) local(listed hns.State) (local []hns.Endpoint) {
	ours, remembered := map[string]bool{}, r.memory.snapshot()
	for _, n := range listed.Networks {
		ours[n.ID] = r.isPodNetwork(n)
	}
	for _, e := range listed.Endpoints {
		_, isRemembered := remembered[e.ID]
		if !e.Remote && (ours[e.Network] || isRemembered) {
			local = append(local, e)
		}
	}
	return local
}

// isPodNetwork reports whether pods of this host are in a network. Without a network of the operator's, pods may be in any.
func (r *Reconciler) isPodNetwork(n hns.Network) bool {
	return r.Wanted.Network == nil || slices.Contains(r.Wanted.Network.Names(), n.Name)
}

func (n *network) lacksAddress(endpoints []hns.Endpoint) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(endpoints, func(e hns.Endpoint) bool { return !e.Address.IsValid() && !n.addresses[e.ID].IsValid() })
}

func (n *network) mayReadObjects(isUrgent bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !isUrgent && time.Since(n.objectsRead) < objectReadInterval {
		return false
	}
	n.objectsRead = time.Now()
	return true
}

// learn records the addresses of endpoints, which keep them until they are removed.
func (n *network) learn(endpoints []hns.Endpoint) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range endpoints {
		if !e.Remote && e.Address.IsValid() {
			n.addresses[e.ID] = e.Address
		}
	}
}

// complete returns the endpoints with their addresses, and forgets those of other endpoints.
func (n *network) complete(endpoints []hns.Endpoint) []hns.Endpoint {
	n.learn(endpoints)
	n.mu.Lock()
	defer n.mu.Unlock()
	addresses := map[string]netip.Addr{}
	for i, e := range endpoints {
		if a := n.addresses[e.ID]; a.IsValid() {
			endpoints[i].Address, addresses[e.ID] = a, a
		}
	}
	n.addresses = addresses
	return endpoints
}

// nodeAddresses returns the addresses from which the node's own connections, such as the kubelet's probes, reach its pods: those of the
// node, of the host's endpoint in the pod network, and of the network's routers. Windows does not document which of them it uses. While
// the network is not listed completely, the last known addresses stay: each change would be a write to all endpoints.
func (r *Reconciler) nodeAddresses(listed hns.State, endpoints []hns.Endpoint) []netip.Addr {
	node, _ := netip.ParseAddr(r.Record.NodeIP)
	found, isComplete := []netip.Addr{node}, r.Wanted.Network == nil
	for _, n := range listed.Networks {
		if !r.isPodNetwork(n) {
			continue
		}
		found = append(found, n.ManagementIP)
		for _, s := range n.Subnets {
			found = append(found, s.Gateway)
		}
	}
	for _, e := range endpoints {
		if e.Host || r.Wanted.Network != nil && e.Name == r.Wanted.Network.Endpoint {
			found = append(found, e.Address)
			isComplete = isComplete || e.Address.IsValid()
		}
	}
	found = slices.DeleteFunc(found, func(a netip.Addr) bool { return !a.IsValid() || !a.Is4() })
	slices.SortFunc(found, netip.Addr.Compare)
	found = slices.Compact(found)
	r.network.mu.Lock()
	defer r.network.mu.Unlock()
	if isComplete || len(r.network.node) == 0 {
		r.network.node = found
	}
	return r.network.node
}
