package policyset

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

const (
	// maxACLs and maxEntries limit the ACLs of an endpoint in one direction, and their addresses and ranges of ports. Both limits are
	// this project's own: Microsoft documents none. Calico warns that many ACLs take much processor time and memory
	// (https://docs.tigera.io/calico/latest/getting-started/kubernetes/windows-calico/limitations).
	maxACLs    = 500
	maxEntries = 20_000
	// maxInput limits the addresses that are merged for one direction of one pod, to limit the time: lists may overlap.
	maxInput = 10 * maxEntries
)

// Access is what a pod may receive or send: the union of what its policies allow in one direction.
type Access struct {
	// Isolated is false if no policy isolates the pod in this direction. Everything is allowed then, and Grants is empty.
	Isolated bool
	// Grants are what is allowed to an isolated pod.
	Grants []Grant
	// Excess is set if the grants are too many for an endpoint. Grants is empty then.
	Excess *Excess
}

// Grant allows some ports of a protocol to some peers.
type Grant struct {
	Protocol hns.Protocol
	// Ports are destination ports; empty for all.
	Ports []hns.PortRange
	// Peers are remote addresses; empty for all.
	Peers []netip.Prefix
}

// Excess is a limit that the access of a pod exceeds. Count can be a lower bound.
type Excess struct {
	What  string `json:"what"`
	Count int    `json:"count"`
	Limit int    `json:"limit"`
}

func (e Excess) String() string {
	return fmt.Sprintf("%d %s are needed; at most %d are allowed", e.Count, e.What, e.Limit)
}

// Merge returns what a pod may receive and send. A pod that the set does not list is closed in the directions of Set.Unlisted.
func Merge(set Set, id PodID) (ingress, egress Access) {
	pod, listed := set.find(id)
	if !listed {
		var excess *Excess
		if set.Omitted > 0 {
			excess = &Excess{"bytes for the policies of the namespace", set.Omitted, MaxSize}
		}
		return set.unlisted(set.Unlisted.Ingress, excess), set.unlisted(set.Unlisted.Egress, excess)
	}
	var in, out []Rule
	for _, i := range pod.Policies {
		policy := set.Policies[i]
		ingress.Isolated = ingress.Isolated || policy.Isolates.Ingress
		egress.Isolated = egress.Isolated || policy.Isolates.Egress
		in = append(in, policy.Ingress...)
		out = append(out, policy.Egress...)
	}
	ingress.Grants, ingress.Excess = set.merge(in, pod.Ports)
	egress.Grants, egress.Excess = set.merge(out, nil)
	return ingress, egress
}

func (s Set) unlisted(closed bool, excess *Excess) Access {
	if !closed {
		return Access{}
	}
	return Access{Isolated: true, Excess: excess}
}

// part is a grant whose peers are still indexes of lists: merging indexes is cheap however long the lists are.
type part struct {
	protocol hns.Protocol
	ports    []Range // nil for all
	anyPeer  bool
	lists    []int
}

// isAll reports whether the part allows everything.
func (p part) isAll() bool { return p.protocol == hns.AnyProtocol && p.anyPeer }

func (s Set) merge(rules []Rule, names []NamedPort) ([]Grant, *Excess) {
	var parts []part
	for _, r := range rules {
		parts = append(parts, partsOf(r, names)...)
	}
	parts = join(parts, part.portKey, func(into *part, p part) {
		into.anyPeer = into.anyPeer || p.anyPeer
		into.lists = append(into.lists, p.lists...)
	})
	for i := range parts {
		slices.Sort(parts[i].lists)
		parts[i].lists = slices.Compact(parts[i].lists)
	}
	parts = join(parts, part.peerKey, func(into *part, p part) { into.ports = append(into.ports, p.ports...) })
	if slices.ContainsFunc(parts, part.isAll) {
		return []Grant{{Protocol: hns.AnyProtocol}}, nil
	}
	if excess := s.excessOf(parts); excess != nil {
		return nil, excess
	}
	return s.grants(parts)
}

// partsOf returns a part for each protocol of a rule. A port whose name the pod does not have allows nothing.
func partsOf(r Rule, names []NamedPort) []part {
	base := part{anyPeer: r.AnyPeer}
	if r.Peers != nil {
		base.lists = []int{*r.Peers}
	}
	if r.AnyPort {
		base.protocol = hns.AnyProtocol
		return []part{base}
	}
	var parts []part
	for _, protocol := range []hns.Protocol{hns.TCP, hns.UDP, hns.SCTP} {
		p := base
		p.protocol = protocol
		for _, port := range r.Ports {
			if port.Protocol == protocol {
				p.ports = append(p.ports, port.resolve(names)...)
			}
		}
		if p.ports = Union(p.ports); len(p.ports) > 0 {
			parts = append(parts, p)
		}
	}
	return parts
}

func (p Port) resolve(names []NamedPort) []Range {
	if p.Name == "" {
		return []Range{{uint32(p.First), uint32(p.Last)}}
	}
	i := slices.IndexFunc(names, func(n NamedPort) bool { return n.Name == p.Name && n.Protocol == p.Protocol })
	if i < 0 {
		return nil
	}
	return []Range{{uint32(names[i].Port), uint32(names[i].Port)}}
}

func (p part) portKey() string { return fmt.Sprint(p.protocol, p.ports) }

func (p part) peerKey() string {
	if p.anyPeer {
		return fmt.Sprint(p.protocol)
	}
	return fmt.Sprint(p.protocol, p.lists)
}

// join merges parts of the same key into the first of them.
func join(parts []part, key func(part) string, merge func(into *part, p part)) []part {
	var joined []part
	at := map[string]int{}
	for _, p := range parts {
		k := key(p)
		if i, known := at[k]; known {
			merge(&joined[i], p)
			continue
		}
		at[k] = len(joined)
		p.ports, p.lists = slices.Clone(p.ports), slices.Clone(p.lists)
		joined = append(joined, p)
	}
	return joined
}

// excessOf returns the limit that the parts exceed before their lists are merged.
func (s Set) excessOf(parts []part) *Excess {
	if len(parts) > maxACLs {
		return &Excess{"ACLs", len(parts), maxACLs}
	}
	input := 0
	for _, p := range parts {
		for _, list := range p.lists {
			input += len(s.Addresses[list])
		}
	}
	if input > maxInput {
		return &Excess{"addresses before lists are merged", input, maxInput}
	}
	return nil
}

func (s Set) grants(parts []part) ([]Grant, *Excess) {
	var grants []Grant
	acls, entries := 0, 0
	for _, p := range parts {
		grant := Grant{Protocol: p.protocol, Ports: portRanges(Union(p.ports))}
		if !p.anyPeer {
			grant.Peers = s.peers(p.lists)
		}
		if p.protocol == hns.AnyProtocol && len(grant.Peers) == 0 {
			return []Grant{{Protocol: hns.AnyProtocol}}, nil
		}
		acls += chunks(len(grant.Ports)) * chunks(len(grant.Peers))
		entries += chunks(len(grant.Peers))*len(grant.Ports) + chunks(len(grant.Ports))*len(grant.Peers)
		grants = append(grants, grant)
	}
	switch {
	case acls > maxACLs:
		return nil, &Excess{"ACLs", acls, maxACLs}
	case entries > maxEntries:
		return nil, &Excess{"addresses and ports", entries, maxEntries}
	}
	slices.SortFunc(grants, compareGrants) // an endpoint keeps its ACLs when only the order of rules changes
	return grants, nil
}

func compareGrants(a, b Grant) int {
	return cmp.Or(
		cmp.Compare(a.Protocol, b.Protocol),
		slices.CompareFunc(a.Ports, b.Ports, hns.PortRange.Compare),
		slices.CompareFunc(a.Peers, b.Peers, netip.Prefix.Compare),
	)
}

// peers returns the addresses of some lists, or nil for all addresses.
func (s Set) peers(lists []int) []netip.Prefix {
	var all []netip.Prefix
	for _, list := range lists {
		all = append(all, s.Addresses[list]...)
	}
	if union := rangesOf(all); !slices.Equal(union, []Range{Everything()}) {
		return Prefixes(union)
	}
	return nil
}

// portRanges returns nil for all ports. No connection has port 0.
func portRanges(ranges []Range) []hns.PortRange {
	if slices.Equal(ranges, []Range{{1, 1<<16 - 1}}) {
		return nil
	}
	var ports []hns.PortRange
	for _, r := range ranges {
		ports = append(ports, hns.PortRange{First: uint16(r.First), Last: uint16(r.Last)})
	}
	return ports
}

// chunks returns how many ACLs a list needs: an empty one, which means all, needs one.
func chunks(items int) int { return max(1, (items+hns.MaxACLEntries-1)/hns.MaxACLEntries) }
