package policyset

import (
	"net/netip"
	"slices"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// Connection is the first packet of a connection of a pod.
type Connection struct {
	// Direction is hns.In for a connection to the pod, hns.Out for one from it.
	Direction hns.Direction
	Protocol  hns.Protocol
	// Remote is the address of the other side.
	Remote netip.Addr
	// Port is the destination port; 0 for protocols without ports.
	Port uint16
}

// Verdict is whether the policies of a pod allow a connection.
type Verdict struct {
	Allowed bool `json:"allowed"`
	// Always is true if no policy can prevent the connection: the node connects to its pod, or the pod to itself.
	Always bool `json:"always,omitempty"`
	// Policies are the names of the policies that allow the connection; if it is not allowed, those that isolate the pod in its direction.
	Policies []string `json:"policies,omitempty"`
	// Excess is set if the policies are too large for an endpoint in this direction, which Facts decides then.
	Excess *Excess `json:"excess,omitempty"`
}

// Decide returns what the rules that ACLs returns do with a connection, and because of which policies.
func Decide(set Set, id PodID, facts Facts, c Connection) Verdict {
	remote := c.Remote.Unmap()
	if slices.Contains(facts.Own, remote) || c.Direction == hns.In && slices.Contains(facts.Node, remote) {
		return Verdict{Allowed: true, Always: true}
	}
	ingress, egress := Merge(set, id)
	access := ingress
	if c.Direction == hns.Out {
		access = egress
	}
	verdict := Verdict{Allowed: !access.Isolated, Excess: access.Excess}
	if access.Excess != nil {
		verdict.Allowed = facts.OpenIfTooLarge
	}
	pod, _ := set.find(id)
	var isolating, allowing []string
	for _, policy := range set.PoliciesOf(id) {
		isolates, rules := policy.Isolates.Ingress, policy.Ingress
		if c.Direction == hns.Out {
			isolates, rules = policy.Isolates.Egress, policy.Egress
		}
		if isolates {
			isolating = append(isolating, policy.Name)
		}
		if slices.ContainsFunc(rules, func(r Rule) bool { return set.matches(r, pod.Ports, remote, c) }) {
			allowing = append(allowing, policy.Name)
		}
	}
	if access.Isolated && access.Excess == nil && len(allowing) > 0 {
		return Verdict{Allowed: true, Policies: allowing}
	}
	verdict.Policies = isolating
	return verdict
}

func (s Set) matches(r Rule, names []NamedPort, remote netip.Addr, c Connection) bool {
	if !r.AnyPeer && !slices.ContainsFunc(s.Addresses[*r.Peers], func(p netip.Prefix) bool { return p.Contains(remote) }) {
		return false
	}
	return r.AnyPort || slices.ContainsFunc(r.Ports, func(p Port) bool {
		inRange := func(ports Range) bool { return ports.First <= uint32(c.Port) && uint32(c.Port) <= ports.Last }
		return p.Protocol == c.Protocol && slices.ContainsFunc(p.resolve(names), inRange)
	})
}
