package podpolicy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/policyset"
)

// unknownFor is how long the endpoint of a running pod without rules stays as it is while the set of its namespace has never been read: when
// enforcement begins, or WICD has just started. Then it is closed. A new pod waits for its set instead.
const unknownFor = time.Minute

// situation is what one decision is based on.
type situation struct {
	now      time.Time
	policies desired.Policies // its Mode is empty if no NetworkPolicies are enforced
	// endpoints are those of this host's pods, with their addresses.
	endpoints []hns.Endpoint
	// acls are the rules of endpoints, by ID. An endpoint that is not there was not listed.
	acls map[string][]hns.ACL
	pods map[netip.Addr]pod
	sets map[string]namespaceSet
	// node are the addresses from which the node's own connections reach its pods.
	node []netip.Addr
	// memory is what was written to endpoints, by ID.
	memory map[string]written
}

// written is what WICD has written to an endpoint.
type written struct {
	// hasRules is false before the first write. acls are the rules; unknown after a restart of WICD.
	hasRules bool
	acls     []hns.ACL
	// echo is what the service returns for them if it leaves something out; nil if it does not.
	echo []hns.ACL
	// notBefore is the earliest time at which they are written again after another program has changed them, or a write has failed.
	notBefore time.Time
	// failure is why the last write failed.
	failure error
}

// decision is what one endpoint must have.
type decision struct {
	endpoint hns.Endpoint
	pod      pod
	// applies is false if the endpoint stays as it is.
	applies bool
	acls    []hns.ACL
	// required is how many rules the policies of the pod require.
	required int
	// problem is why the rules are not those of the policies, and tooLarge which policies do not fit; empty if there is nothing to report.
	problem, tooLarge string
}

// String returns how messages name the endpoint.
func (d decision) String() string {
	if d.pod.Container == "" {
		return "endpoint with address " + d.endpoint.Address.String()
	}
	return "pod " + d.pod.String()
}

// plan is what to write and to report.
type plan struct {
	writes    []decision
	decisions []decision
	// again is when a write that has to wait is due; zero if there is none.
	again time.Time
}

// decide returns the plan for a situation.
func (s situation) decide() (p plan) {
	for _, e := range s.endpoints {
		d := s.rulesOf(e)
		isDue, notBefore := s.isDue(d)
		if failure := s.memory[e.ID].failure; isDue && failure != nil {
			d.problem = fmt.Sprintf("%s: %v", d, failure)
		}
		p.decisions = append(p.decisions, d)
		switch {
		case !isDue:
		case !notBefore.After(s.now):
			p.writes = append(p.writes, d)
		case p.again.IsZero() || notBefore.Before(p.again):
			p.again = notBefore
		}
	}
	return p
}

// isDue reports whether the rules of an endpoint must be written, and the earliest time for it. Those of an endpoint that must have none are
// always written, because it is forgotten then: the rules that were read may be older than the last write.
func (s situation) isDue(d decision) (isDue bool, notBefore time.Time) {
	current, isListed := s.acls[d.endpoint.ID]
	memory, isRemembered := s.memory[d.endpoint.ID]
	wasWritten := isRemembered && memory.acls != nil && hns.SameACLs(memory.acls, d.acls)
	if wasWritten {
		notBefore = memory.notBefore
	}
	switch {
	case !d.applies:
		return false, notBefore
	case len(d.acls) == 0:
		return true, notBefore
	case !isListed:
		return !wasWritten || memory.failure != nil, notBefore
	case hns.SameACLs(current, d.acls):
		return false, notBefore
	case wasWritten && memory.echo != nil && hns.SameACLs(current, memory.echo):
		return false, notBefore
	}
	return true, notBefore
}

// rulesOf returns what an endpoint must have. Endpoints that belong to no pod stay as they are, and so do those that need no rules and
// never had any of WICD's.
func (s situation) rulesOf(e hns.Endpoint) decision {
	pod, isOurs := s.pods[e.Address]
	d := decision{endpoint: e, pod: pod}
	_, isRemembered := s.memory[e.ID]
	if isOurs && s.policies.Mode != "" {
		s.decidePod(&d)
	}
	if s.policies.Mode != desired.PolicyEnforce {
		d.acls, d.applies = nil, isRemembered
	}
	return d
}

// decidePod decides by the policies of the endpoint's pod.
func (s situation) decidePod(d *decision) {
	memory, isRemembered := s.memory[d.endpoint.ID]
	set, facts := policyset.Closed(d.pod.Namespace), policyset.Facts{Node: s.node, Own: d.pod.Addresses, OpenIfTooLarge: s.policies.OpenIfTooLarge}
	known := s.sets[d.pod.Namespace]
	switch {
	case !d.pod.isIdentified():
		d.problem = fmt.Sprintf("%s is closed: its namespace, name or UID is unknown", d)
	case !known.known:
		d.problem = fmt.Sprintf("the policies of namespace %s could not be read", d.pod.Namespace)
		if known.failure != nil {
			d.problem += ": " + known.failure.Error()
		}
		if memory.hasRules || s.now.Sub(known.since) < unknownFor {
			return
		}
	default:
		set = known.set
		if known.invalid != nil {
			d.problem = fmt.Sprintf("the pods of namespace %s are closed: %v", d.pod.Namespace, known.invalid)
		}
	}
	result := policyset.ACLs(set, policyset.PodID{Name: d.pod.Name, UID: d.pod.UID}, facts)
	d.acls, d.required, d.applies = result.ACLs, len(result.ACLs), len(result.ACLs) > 0 || isRemembered
	d.tooLarge = tooLarge(d.pod, result, s.policies)
}

// tooLarge describes which policies of a pod do not fit on its endpoint; empty if all do.
func tooLarge(p pod, r policyset.Result, policies desired.Policies) string {
	fallback := "closed"
	if policies.OpenIfTooLarge {
		fallback = "open"
	}
	var directions []string
	for _, d := range []struct {
		name   string
		excess *policyset.Excess
	}{{"ingress", r.Ingress}, {"egress", r.Egress}} {
		if d.excess != nil {
			directions = append(directions, fmt.Sprintf("%s is %s, because %s", d.name, fallback, d.excess))
		}
	}
	if len(directions) == 0 {
		return ""
	}
	return fmt.Sprintf("pod %s: %s", p, strings.Join(directions, "; "))
}

// isEcho reports whether current are the rules that were written, without fields that the service leaves out of all rules.
func isEcho(current, acls []hns.ACL) bool {
	withoutPorts := func(all []hns.ACL) []hns.ACL {
		all = slices.Clone(all)
		for i := range all {
			all[i].LocalPorts, all[i].RemotePorts = nil, nil
		}
		return all
	}
	hasPorts := func(a hns.ACL) bool { return len(a.LocalPorts)+len(a.RemotePorts) > 0 }
	return !slices.ContainsFunc(current, hasPorts) && hns.SameACLs(current, withoutPorts(acls))
}
