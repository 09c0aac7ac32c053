package networkpolicy_test

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/windows-machine-config/wmco/internal/operator/networkpolicy"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/policyset"
)

// connection is the first packet of a connection. Port is 0 for ICMP.
type connection struct {
	from, to netip.Addr
	protocol corev1.Protocol
	port     uint16
}

const icmp corev1.Protocol = "ICMP"

func number(p corev1.Protocol) hns.Protocol {
	return map[corev1.Protocol]hns.Protocol{corev1.ProtocolTCP: 6, corev1.ProtocolUDP: 17, corev1.ProtocolSCTP: 132, icmp: 1}[p]
}

// decide does with a connection what the Host Network Service does by its documents: the matching rule with the lowest priority number
// decides. An endpoint without rules is open; one with rules is closed for what none of them matches. 0.0.0.0/0 matches nothing.
func decide(t testing.TB, acls []hns.ACL, direction hns.Direction, c connection) bool {
	if len(acls) == 0 {
		return true
	}
	remote, local, remotePort := c.from, c.port, uint16(50123)
	if direction == hns.Out {
		remote, local, remotePort = c.to, 50123, c.port
	}
	var decision *hns.ACL
	for _, a := range acls {
		if a.Direction != direction || a.Protocol != hns.AnyProtocol && a.Protocol != number(c.protocol) {
			continue
		}
		inPorts := func(list []hns.PortRange, port uint16) bool {
			contains := func(r hns.PortRange) bool { return r.First <= port && port <= r.Last }
			return len(list) == 0 || slices.ContainsFunc(list, contains)
		}
		inAddresses := len(a.Remote) == 0 ||
			slices.ContainsFunc(a.Remote, func(p netip.Prefix) bool { return p.Bits() > 0 && p.Contains(remote) })
		if !inAddresses || !inPorts(a.LocalPorts, local) || !inPorts(a.RemotePorts, remotePort) {
			continue
		}
		switch {
		case decision == nil || a.Priority < decision.Priority:
			decision = &a
		case a.Priority == decision.Priority && a.Action != decision.Action:
			t.Errorf("two rules of priority %d match %v with different actions", a.Priority, c)
		}
	}
	return decision != nil && decision.Action == hns.Allow
}

// compiled is a cluster with the rules of its endpoints.
type compiled struct {
	cluster  networkpolicy.Cluster
	sets     map[string]policyset.Set
	problems []networkpolicy.Problem
}

// compileSets compiles a cluster, and compares each set with its encoding.
func compileSets(t testing.TB, c networkpolicy.Cluster) (sets []policyset.Set, problems []networkpolicy.Problem) {
	t.Helper()
	compiled, problems := networkpolicy.Compile(c)
	for _, one := range compiled {
		if data, err := policyset.Encode(one.Set); err != nil || !bytes.Equal(data, one.Encoded) {
			t.Errorf("the set of %s is encoded as %s (%v), want %s", one.Set.Namespace, one.Encoded, err, data)
		}
		sets = append(sets, one.Set)
	}
	return sets, problems
}

// compile compiles a cluster, and passes each set through its encoding.
func compile(t testing.TB, c networkpolicy.Cluster) compiled {
	t.Helper()
	sets, problems := compileSets(t, c)
	result := compiled{c, map[string]policyset.Set{}, problems}
	for _, s := range sets {
		data, err := policyset.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		if result.sets[s.Namespace], err = policyset.Decode(s.Namespace, data); err != nil {
			t.Fatal(err)
		}
	}
	return result
}

// isEnforced reports whether a pod has an endpoint on a Windows node.
func (c compiled) isEnforced(p *corev1.Pod) bool {
	return c.cluster.Nodes[p.Spec.NodeName].Windows && !p.Spec.HostNetwork && isRunning(p)
}

// facts returns what the node of a pod knows.
func (c compiled) facts(t testing.TB, p *corev1.Pod) policyset.Facts {
	t.Helper()
	own, err := netip.ParseAddr(p.Status.PodIP)
	if err != nil {
		t.Fatal(err)
	}
	return policyset.Facts{Node: c.cluster.Nodes[p.Spec.NodeName].Addresses, Own: []netip.Addr{own}}
}

// verdict returns what policyset.Decide says of a connection.
func (c compiled) verdict(t testing.TB, p *corev1.Pod, direction hns.Direction, conn connection) policyset.Verdict {
	t.Helper()
	remote := conn.from
	if direction == hns.Out {
		remote = conn.to
	}
	return policyset.Decide(c.sets[p.Namespace], policyset.PodID{Name: p.Name, UID: string(p.UID)}, c.facts(t, p),
		policyset.Connection{Direction: direction, Protocol: number(conn.protocol), Remote: remote, Port: conn.port})
}

// acls returns the rules of a pod's endpoint.
func (c compiled) acls(t testing.TB, p *corev1.Pod) []hns.ACL {
	t.Helper()
	result := policyset.ACLs(c.sets[p.Namespace], policyset.PodID{Name: p.Name, UID: string(p.UID)}, c.facts(t, p))
	if _, hasSet := c.sets[p.Namespace]; result.Listed != hasSet || result.Ingress != nil || result.Egress != nil {
		t.Errorf("pod %s/%s: listed %t, too large %v %v", p.Namespace, p.Name, result.Listed, result.Ingress, result.Egress)
	}
	return result.ACLs
}

func isRunning(p *corev1.Pod) bool {
	return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// policy returns a policy with a spec.
func policy(namespace, name string, spec networkingv1.NetworkPolicySpec) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{Spec: spec}
	p.Namespace, p.Name = namespace, name
	return p
}
