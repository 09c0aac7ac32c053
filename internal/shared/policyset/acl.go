package policyset

import (
	"net/netip"
	"slices"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// grantPriority is the priority of what policies allow. The node's own connections come before it, and the rule for everything else after.
// Rules of one priority have one action, because Windows does not document the order among them.
const grantPriority = 1000

// Facts are what a node knows of itself and of an endpoint.
type Facts struct {
	// Node has the addresses from which the node's own connections, for example the kubelet's probes, reach its pods. They are always
	// allowed ("OR if the traffic source is the pod's local node", NetworkPolicySpec.ingress).
	Node []netip.Addr
	// Own has the addresses of the endpoint. A pod may always connect to itself, even through a Service
	// (https://kubernetes.io/docs/concepts/services-networking/network-policies/).
	Own []netip.Addr
	// OpenIfTooLarge opens a direction whose policies are too large, instead of closing it.
	OpenIfTooLarge bool
}

// Result has the ACLs of an endpoint.
type Result struct {
	// ACLs are in the order in which they decide, of each direction. There are none if both directions are open.
	ACLs []hns.ACL
	// Listed is false if the set does not list the pod.
	Listed bool
	// Ingress and Egress are set if the policies are too large for an endpoint in that direction. It is closed, unless
	// Facts.OpenIfTooLarge opens it.
	Ingress, Egress *Excess
}

// ACLs returns the rules for the endpoint of a pod. They replace all rules of the endpoint. An endpoint with any rule is closed for what
// no rule allows, in both directions (https://github.com/microsoft/Windows-Containers/issues/616), so that a direction that no policy
// isolates has a rule that allows everything.
func ACLs(set Set, id PodID, facts Facts) Result {
	ingress, egress := Merge(set, id)
	_, listed := set.find(id)
	result := Result{Listed: listed, Ingress: ingress.Excess, Egress: egress.Excess}
	isOpen := func(a Access) bool {
		return !a.Isolated || a.Excess != nil && facts.OpenIfTooLarge || slices.ContainsFunc(a.Grants, Grant.isAll)
	}
	if isOpen(ingress) && isOpen(egress) {
		return result
	}
	for _, d := range []struct {
		direction hns.Direction
		access    Access
		always    []netip.Addr
	}{
		{hns.In, ingress, slices.Concat(facts.Node, facts.Own)},
		{hns.Out, egress, facts.Own},
	} {
		if isOpen(d.access) {
			result.ACLs = append(result.ACLs, hns.ACL{Action: hns.Allow, Direction: d.direction, Priority: hns.MaxACLPriority})
			continue
		}
		if peers := prefixesOf(d.always); len(peers) > 0 {
			result.ACLs = append(result.ACLs, hns.ACL{Action: hns.Allow, Direction: d.direction, Remote: peers, Priority: hns.MinACLPriority})
		}
		for _, g := range d.access.Grants {
			result.ACLs = append(result.ACLs, g.acls(d.direction)...)
		}
		result.ACLs = append(result.ACLs, hns.ACL{Action: hns.Block, Direction: d.direction, Priority: hns.MaxACLPriority})
	}
	return result
}

// isAll reports whether the grant allows everything.
func (g Grant) isAll() bool { return g.Protocol == hns.AnyProtocol && len(g.Peers) == 0 }

// acls returns the rules of a grant: one for each combination of chunks of its peers and ports.
func (g Grant) acls(direction hns.Direction) []hns.ACL {
	var acls []hns.ACL
	for _, peers := range split(g.Peers) {
		for _, ports := range split(g.Ports) {
			acl := hns.ACL{Action: hns.Allow, Direction: direction, Protocol: g.Protocol, Remote: peers, Priority: grantPriority}
			if direction == hns.In {
				acl.LocalPorts = ports
			} else {
				acl.RemotePorts = ports
			}
			acls = append(acls, acl)
		}
	}
	return acls
}

// split divides a list into chunks of at most hns.MaxACLEntries. An empty list, which means all, is one chunk.
func split[T any](items []T) [][]T {
	if len(items) == 0 {
		return [][]T{nil}
	}
	return slices.Collect(slices.Chunk(items, hns.MaxACLEntries))
}

// prefixesOf returns the IPv4 addresses of a list.
func prefixesOf(addresses []netip.Addr) []netip.Prefix {
	var ranges []Range
	for _, a := range addresses {
		if a = a.Unmap(); a.Is4() {
			ranges = append(ranges, Range{Number(a), Number(a)})
		}
	}
	return Prefixes(Union(ranges))
}
