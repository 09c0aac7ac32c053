package policyset

import (
	"net/netip"
	"slices"
)

// ACL is one rule of an endpoint, as the Host Network Service has it (AclPolicySetting in
// https://github.com/microsoft/hcsshim/blob/main/hcn/hcnpolicy.go), for a rule of type Switch. It applies to connections: the switch
// allows their replies.
type ACL struct {
	Action    Action
	Direction Direction
	Protocol  Protocol
	// LocalPorts and RemotePorts are empty for all ports. Only TCP, UDP and SCTP have ports.
	LocalPorts, RemotePorts []PortRange
	// RemoteAddresses are empty for all addresses: 0.0.0.0/0 is not used, because Windows does not match it like an empty list.
	RemoteAddresses []netip.Prefix
	// Priority orders rules: the one with the lowest number that matches decides.
	Priority uint16
}

// Action is what a rule does with a connection that it matches.
type Action string

// The actions of ACLs, named as in hcsshim.
const (
	Allow Action = "Allow"
	Block Action = "Block"
)

// Direction is the direction of a connection, from the endpoint's point of view.
type Direction string

// The directions of ACLs, named as in hcsshim.
const (
	In  Direction = "In"
	Out Direction = "Out"
)

// Priorities of rules. Those of type Switch below 100 close the endpoint, and Windows uses 65500 for its own last rule
// (https://github.com/Azure/azure-container-networking/pull/1752). Rules of one priority have one action, because Windows does not
// document the order among them.
const (
	nodePriority  = 100
	grantPriority = 1000
	lastPriority  = 65500
)

// Facts are what a node knows of itself and of an endpoint.
type Facts struct {
	// Node has the addresses from which the node's own connections, for example the kubelet's probes, reach its pods. They are always
	// allowed ("OR if the traffic source is the pod's local node", NetworkPolicySpec.ingress).
	Node []netip.Addr
	// Own has the addresses of the endpoint. A pod may always connect to itself, also through a Service
	// (https://kubernetes.io/docs/concepts/services-networking/network-policies/).
	Own []netip.Addr
	// OpenIfTooLarge opens a direction whose policies are too large, instead of closing it.
	OpenIfTooLarge bool
}

// Result has the ACLs of an endpoint.
type Result struct {
	// ACLs are in the order in which they decide, of each direction. There are none if both directions are open.
	ACLs []ACL
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
		direction Direction
		access    Access
		always    []netip.Addr
	}{
		{In, ingress, slices.Concat(facts.Node, facts.Own)},
		{Out, egress, facts.Own},
	} {
		if isOpen(d.access) {
			result.ACLs = append(result.ACLs, ACL{Action: Allow, Direction: d.direction, Protocol: AnyProtocol, Priority: lastPriority})
			continue
		}
		if peers := prefixesOf(d.always); len(peers) > 0 {
			result.ACLs = append(result.ACLs, ACL{
				Action: Allow, Direction: d.direction, Protocol: AnyProtocol, RemoteAddresses: peers, Priority: nodePriority,
			})
		}
		for _, g := range d.access.Grants {
			result.ACLs = append(result.ACLs, g.acls(d.direction)...)
		}
		result.ACLs = append(result.ACLs, ACL{Action: Block, Direction: d.direction, Protocol: AnyProtocol, Priority: lastPriority})
	}
	return result
}

// isAll reports whether the grant allows everything.
func (g Grant) isAll() bool { return g.Protocol == AnyProtocol && len(g.Peers) == 0 }

// acls returns the rules of a grant: one for each combination of chunks of its peers and ports.
func (g Grant) acls(direction Direction) []ACL {
	var acls []ACL
	for _, peers := range split(g.Peers) {
		for _, ports := range split(g.Ports) {
			acl := ACL{Action: Allow, Direction: direction, Protocol: g.Protocol, RemoteAddresses: peers, Priority: grantPriority}
			if direction == In {
				acl.LocalPorts = ports
			} else {
				acl.RemotePorts = ports
			}
			acls = append(acls, acl)
		}
	}
	return acls
}

// split divides a list into chunks of at most maxItems. An empty list, which means all, is one chunk.
func split[T any](items []T) [][]T {
	if len(items) == 0 {
		return [][]T{nil}
	}
	return slices.Collect(slices.Chunk(items, maxItems))
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
