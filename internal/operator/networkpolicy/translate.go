package networkpolicy

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/windows-machine-config/wmco/internal/shared/policyset"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// maxReported is how many problems of one reason the message of a policy lists.
const maxReported = 5

// rule allows some peers and some ports; any excludes the list.
type rule struct {
	anyPeer bool
	peers   []policyset.Range
	anyPort bool
	ports   []policyset.Port
}

// clause is an ingress or egress rule of the API, with the name of its field.
type clause struct {
	path, peersPath string
	ports           []networkingv1.NetworkPolicyPort
	peers           []networkingv1.NetworkPolicyPeer
}

// translator translates one policy and collects its problems.
type translator struct {
	stock  *inventory
	policy *networkingv1.NetworkPolicy
	// emit stores a rule as soon as it is known: all rules with the addresses of their peers may be too many. While skip returns true, rules
	// are only checked.
	emit  func(rule)
	skip  func() bool
	found map[Reason]*findings
}

// findings are the first problems of a reason, and their number.
type findings struct {
	texts []string
	count int
}

func (t *translator) report(reason Reason, format string, arguments ...any) {
	if t.found == nil {
		t.found = map[Reason]*findings{}
	}
	if t.found[reason] == nil {
		t.found[reason] = &findings{}
	}
	f := t.found[reason]
	if f.count++; f.count <= maxReported {
		f.texts = append(f.texts, truncate.Text(fmt.Sprintf(format, arguments...), truncate.Reported/maxReported/2))
	}
}

func (t *translator) problems() (problems []Problem) {
	for _, reason := range slices.Sorted(maps.Keys(t.found)) {
		f := t.found[reason]
		message := truncate.List(f.texts, len(f.texts), "; ")
		if more := f.count - len(f.texts); more > 0 {
			message += fmt.Sprintf("; and %d more", more)
		}
		problems = append(problems, Problem{t.policy.Namespace, t.policy.Name, reason, message})
	}
	return problems
}

// selector returns the meaning of a selector, or false if it is invalid. Labels are in order, so that the same one of several errors is
// reported.
func (t *translator) selector(path string, s *metav1.LabelSelector) (labels.Selector, bool) {
	var all metav1.LabelSelector
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		all.MatchExpressions = append(all.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{s.MatchLabels[key]},
		})
	}
	all.MatchExpressions = append(all.MatchExpressions, s.MatchExpressions...)
	selector, err := metav1.LabelSelectorAsSelector(&all)
	if err != nil {
		t.report(Invalid, "%s is invalid: %v", path, err)
		return nil, false
	}
	return selector, true
}

// selects returns the pods that the policy selects, or false if its selector is invalid: all pods of the namespace then, for which the
// policy allows nothing.
func (t *translator) selects() (bitset, bool) {
	pods := t.stock.in(t.policy.Namespace)
	selector, ok := t.selector("spec.podSelector", &t.policy.Spec.PodSelector)
	if ok {
		pods.and(t.stock.podLabels.match(selector))
	}
	return pods, ok
}

// isolates returns the directions in which the policy isolates pods. Without types it is ingress, and egress if there are egress rules.
// An unknown type may mean either direction.
func (t *translator) isolates() policyset.Directions {
	spec := &t.policy.Spec
	if len(spec.PolicyTypes) == 0 {
		return policyset.Directions{Ingress: true, Egress: len(spec.Egress) > 0}
	}
	var d policyset.Directions
	for i, policyType := range spec.PolicyTypes {
		switch policyType {
		case networkingv1.PolicyTypeIngress:
			d.Ingress = true
		case networkingv1.PolicyTypeEgress:
			d.Egress = true
		default:
			t.report(Invalid, "spec.policyTypes[%d] is %.64q; allowed: Ingress and Egress; the policy isolates in both directions", i, policyType)
			d = policyset.Directions{Ingress: true, Egress: true}
		}
	}
	return d
}

// ingress emits the ingress rules.
func (t *translator) ingress() {
	for i, r := range t.policy.Spec.Ingress {
		path := fmt.Sprintf("spec.ingress[%d]", i)
		c := clause{path, path + ".from", r.Ports, r.From}
		peers, ports := t.peers(c), t.ports(c)
		t.emitAll(peers, rule{anyPort: ports.any, ports: slices.Concat(ports.ranges, ports.names)})
	}
}

// egress emits the egress rules. Each named port is a port of the destination, and may have another number in each pod.
func (t *translator) egress() {
	for i, r := range t.policy.Spec.Egress {
		path := fmt.Sprintf("spec.egress[%d]", i)
		c := clause{path, path + ".to", r.Ports, r.To}
		peers, ports := t.peers(c), t.ports(c)
		t.emitAll(peers, rule{anyPort: ports.any, ports: ports.ranges})
		for _, named := range ports.names {
			t.emitNamed(peers, named)
		}
	}
}

func (t *translator) emitAll(peers peerSet, r rule) {
	if t.skip() || !r.anyPort && len(r.ports) == 0 {
		return
	}
	if r.anyPeer = peers.any; !r.anyPeer {
		r.peers = policyset.Union(slices.Concat(peers.blocks, t.stock.addressesIn(peers.pods)))
	}
	if slices.Equal(r.peers, []policyset.Range{policyset.Everything()}) {
		r.anyPeer, r.peers = true, nil
	}
	if r.anyPeer || len(r.peers) > 0 {
		t.emit(r)
	}
}

// emitNamed emits a rule for each number that a named port has in the selected pods.
func (t *translator) emitNamed(peers peerSet, named policyset.Port) {
	if t.skip() {
		return
	}
	byPort := map[uint16][]policyset.Range{}
	for _, i := range t.stock.namedPorts[portName{named.Name, named.Protocol}] {
		a := t.stock.addresses[i]
		if !peers.has(a) {
			continue
		}
		for _, port := range t.stock.pods[a.pod].ports {
			if port.Name == named.Name && port.Protocol == named.Protocol {
				byPort[port.Port] = append(byPort[port.Port], policyset.Range{First: a.address, Last: a.address})
			}
		}
	}
	for _, port := range slices.Sorted(maps.Keys(byPort)) {
		t.emit(rule{peers: policyset.Union(byPort[port]), ports: []policyset.Port{{Protocol: named.Protocol, First: port, Last: port}}})
	}
}

// peerSet is what the peers of a rule select.
type peerSet struct {
	any    bool
	pods   bitset
	blocks []policyset.Range // in order
}

func (p peerSet) has(a placed) bool {
	if p.any || p.pods.has(a.pod) {
		return true
	}
	_, found := slices.BinarySearchFunc(p.blocks, a.address, func(r policyset.Range, address uint32) int {
		switch {
		case r.Last < address:
			return -1
		case r.First > address:
			return 1
		}
		return 0
	})
	return found
}

// peers returns the peers of a rule. No peers mean all; invalid ones are none.
func (t *translator) peers(c clause) peerSet {
	set := peerSet{any: len(c.peers) == 0, pods: newBitset(len(t.stock.pods))}
	for i, peer := range c.peers {
		path := fmt.Sprintf("%s[%d]", c.peersPath, i)
		selects := peer.PodSelector != nil || peer.NamespaceSelector != nil
		switch {
		case selects == (peer.IPBlock != nil):
			t.report(Invalid, "%s must have either an ipBlock, or a podSelector, a namespaceSelector or both; it is ignored", path)
		case selects && selectsAll(peer):
			set.blocks = append(set.blocks, t.stock.everyPod...)
		case selects:
			if pods, ok := t.podsOf(path, peer); ok {
				set.pods.or(pods)
			}
		default:
			set.blocks = append(set.blocks, t.block(path+".ipBlock", *peer.IPBlock)...)
		}
	}
	set.blocks = policyset.Union(set.blocks)
	return set
}

// selectsAll reports whether a peer is all pods of the cluster.
func selectsAll(peer networkingv1.NetworkPolicyPeer) bool {
	isEmpty := func(s *metav1.LabelSelector) bool { return len(s.MatchLabels)+len(s.MatchExpressions) == 0 }
	return peer.NamespaceSelector != nil && isEmpty(peer.NamespaceSelector) && (peer.PodSelector == nil || isEmpty(peer.PodSelector))
}

// podsOf returns the pods that a peer selects. A selector that is present but empty selects all.
func (t *translator) podsOf(path string, peer networkingv1.NetworkPolicyPeer) (bitset, bool) {
	var pods bitset
	if peer.NamespaceSelector == nil {
		pods = t.stock.in(t.policy.Namespace)
	} else {
		selector, ok := t.selector(path+".namespaceSelector", peer.NamespaceSelector)
		if !ok {
			return nil, false
		}
		pods = t.stock.inSelected(selector)
	}
	if peer.PodSelector != nil {
		selector, ok := t.selector(path+".podSelector", peer.PodSelector)
		if !ok {
			return nil, false
		}
		pods.and(t.stock.podLabels.match(selector))
	}
	return pods, true
}

// block returns the addresses of an ipBlock without the excepted ones. One with an invalid exception is invalid: the addresses in
// question must not be allowed.
func (t *translator) block(path string, b networkingv1.IPBlock) []policyset.Range {
	prefix, err := netip.ParsePrefix(b.CIDR)
	if err != nil {
		t.report(Invalid, "%s.cidr is %.64q; want a range such as 10.0.0.0/8; the peer is ignored", path, b.CIDR)
		return nil
	}
	if !prefix.Addr().Is4() {
		t.report(AddressFamily, "%s.cidr is %.64q, an IPv6 range; pods on Windows nodes have IPv4 addresses only", path, b.CIDR)
		return nil
	}
	var except []policyset.Range
	for i, text := range b.Except {
		e, err := netip.ParsePrefix(text)
		if err != nil || !prefix.Contains(e.Addr()) || e.Bits() <= prefix.Bits() {
			t.report(Invalid, "%s.except[%d] is %.64q; want a smaller range in %s; the peer is ignored", path, i, text, prefix)
			return nil
		}
		except = append(except, policyset.RangeOf(e))
	}
	return policyset.Subtract(policyset.RangeOf(prefix), except)
}
