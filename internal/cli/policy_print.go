package cli

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/policyset"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// decide fills in what follows from the set.
func (f *podPolicies) decide(set policyset.Set, id policyset.PodID, facts policyset.Facts, connection *policyset.Connection) {
	result := policyset.ACLs(set, id, facts)
	f.Listed = result.Listed
	for _, policy := range set.PoliciesOf(id) {
		f.Policies = append(f.Policies, podPolicy{
			policy.Name, describeRules(policy.Isolates.Ingress, len(policy.Ingress)), describeRules(policy.Isolates.Egress, len(policy.Egress)),
		})
	}
	for _, a := range result.ACLs {
		f.Rules = append(f.Rules, ruleOf(a))
	}
	ingress, egress := policyset.Merge(set, id)
	f.Ingress, f.Egress = describeAccess(ingress, facts), describeAccess(egress, facts)
	if connection != nil {
		verdict := policyset.Decide(set, id, facts, *connection)
		f.Verdict, f.Connection = &verdict, describeConnection(*connection)
	}
}

func describeAccess(a policyset.Access, facts policyset.Facts) string {
	switch {
	case !a.Isolated:
		return "open"
	case a.Excess != nil && facts.OpenIfTooLarge:
		return "open, because its policies are too large: " + a.Excess.String()
	case a.Excess != nil:
		return "closed, because its policies are too large: " + a.Excess.String()
	case len(a.Grants) == 0:
		return "closed"
	}
	return "restricted"
}

func describeConnection(c policyset.Connection) string {
	direction := "from"
	if c.Direction == hns.Out {
		direction = "to"
	}
	return fmt.Sprintf("%s %s, port %d/%s", direction, c.Remote, c.Port, protocolName(c.Protocol))
}

func protocolName(p hns.Protocol) string {
	switch p {
	case hns.TCP:
		return "TCP"
	case hns.UDP:
		return "UDP"
	case hns.SCTP:
		return "SCTP"
	}
	return "any"
}

func printPodPolicies(p *terminal.Printer, f podPolicies) {
	p.Field("Pod", f.Pod+" on node "+f.Node)
	switch {
	case f.Published && f.Mode == v1alpha1.PoliciesReport:
		p.Field("Enforced", "no: spec.network.policies of WindowsConfig is Report")
	case f.Published:
		p.Field("Enforced", "yes")
	case f.Mode == v1alpha1.PoliciesOff:
		p.Field("Enforced", "no: spec.network.policies of WindowsConfig is Off")
	default:
		p.Field("Enforced", "the namespace has no NetworkPolicies")
	}
	if f.Published && !f.Listed {
		p.Field("Listed", "not yet: until the operator has seen the pod, directions that any policy of its namespace isolates are closed")
	}
	p.Field("Ingress", f.Ingress)
	p.Field("Egress", f.Egress)
	if f.Verdict != nil {
		p.Field("Connection", f.Connection+": "+describeVerdict(*f.Verdict))
	}
	if len(f.Policies) > 0 {
		part(p, fmt.Sprintf("NetworkPolicies (%d)", len(f.Policies)))
		var rows [][]string
		for _, policy := range f.Policies {
			rows = append(rows, []string{policy.Name, policy.Ingress, policy.Egress})
		}
		p.Table([]terminal.Column{{Name: "NAME", Weight: 3}, {Name: "INGRESS", Weight: 2}, {Name: "EGRESS", Weight: 1}}, rows)
	}
	if len(f.Rules) > 0 {
		part(p, fmt.Sprintf("Rules of its endpoint (%d)", len(f.Rules)))
		var rows [][]string
		for _, rule := range f.Rules {
			rows = append(rows, []string{
				strconv.Itoa(int(rule.Priority)), rule.Direction, rule.Action, rule.Protocol, listOrAny(rule.Ports), listOrAny(rule.Remote),
			})
		}
		p.Table([]terminal.Column{
			{Name: "PRIORITY", Weight: 1}, {Name: "DIRECTION", Weight: 4}, {Name: "ACTION", Weight: 5}, {Name: "PROTOCOL", Weight: 2}, {Name: "PORTS", Weight: 3}, {Name: "REMOTE", Weight: 6},
		}, rows)
	}
}

func describeRules(isolates bool, rules int) string {
	switch {
	case !isolates:
		return "not isolated"
	case rules == 0:
		return "allows nothing"
	case rules == 1:
		return "1 rule"
	}
	return fmt.Sprintf("%d rules", rules)
}

func describeVerdict(v policyset.Verdict) string {
	switch {
	case v.Always:
		return "allowed: no policy restricts connections of a node to its pods, and of a pod to itself"
	case v.Excess != nil && v.Allowed:
		return "allowed by spec.network.policyFallback: " + v.Excess.String()
	case v.Excess != nil:
		return "not allowed by spec.network.policyFallback: " + v.Excess.String()
	case v.Allowed && len(v.Policies) == 0:
		return "allowed: no policy isolates the pod in this direction"
	case v.Allowed:
		return "allowed by " + names(v.Policies)
	case len(v.Policies) == 0:
		return "not allowed until the operator has seen the pod"
	}
	return "not allowed: isolated by " + names(v.Policies) + ", and no policy allows it"
}

// ruleOf returns a rule as people read it. The destination port of ingress is the pod's, that of egress the peer's.
func ruleOf(a hns.ACL) endpointRule {
	rule := endpointRule{Priority: a.Priority, Direction: string(a.Direction), Action: string(a.Action), Protocol: protocolName(a.Protocol)}
	for _, r := range slices.Concat(a.LocalPorts, a.RemotePorts) {
		text := strconv.Itoa(int(r.First))
		if r.Last != r.First {
			text += "-" + strconv.Itoa(int(r.Last))
		}
		rule.Ports = append(rule.Ports, text)
	}
	for _, prefix := range a.Remote {
		text := prefix.String()
		if prefix.IsSingleIP() {
			text = prefix.Addr().String()
		}
		rule.Remote = append(rule.Remote, text)
	}
	return rule
}

func listOrAny(list []string) string {
	if len(list) == 0 {
		return "any"
	}
	return truncate.List(list, maxNamed, ",") // -o json has all
}
