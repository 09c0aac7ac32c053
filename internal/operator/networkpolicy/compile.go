// Package networkpolicy compiles NetworkPolicies (networking.k8s.io/v1), with the pods and namespaces of the cluster, into sets for the
// nodes of Windows pods (package policyset).
//
// The rules are those of the API's text (https://github.com/kubernetes/api/blob/master/networking/v1/types.go). Where the API leaves a
// choice:
//   - Pods on the host network cannot be isolated. As peers they are the addresses of their node: a rule that allows one of them allows
//     all programs on that node.
//   - What is invalid or unknown allows nothing, and a policy whose selection is unknown isolates all pods of its namespace. Each is a
//     Problem.
//   - IPv6 ranges are left out: pods on Windows nodes have IPv4 addresses only (docs/network.md).
//   - An empty namespaceSelector, which selects all pods of the cluster, also selects every address that nodes may give to pods, so that a
//     pod that comes or goes changes no set (docs/decisions/0051-all-pods-are-the-subnets-of-nodes.md).
package networkpolicy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/windows-machine-config/wmco/internal/shared/policyset"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Cluster is what policies depend on. Objects need only the fields that are read here; they are not changed.
type Cluster struct {
	Policies   []*networkingv1.NetworkPolicy
	Namespaces []*corev1.Namespace
	Pods       []*corev1.Pod
	// Nodes are all nodes, by name.
	Nodes map[string]Node
}

// Node is a node of the cluster.
type Node struct {
	// Windows is true for nodes whose pods get sets.
	Windows bool
	// Addresses are those from which the node's own connections, and those of its pods on the host network, reach other pods. The addresses
	// in the status of such pods need not be among them. Overlay networks use addresses of their own for this.
	Addresses []netip.Addr
	// Pods is the subnet from which the node's pods get their addresses; zero if it is unknown.
	Pods netip.Prefix
}

// Reason is the kind of a problem.
type Reason string

const (
	// Invalid: a part of the policy is invalid or unknown. It allows nothing.
	Invalid Reason = "Invalid"
	// AddressFamily: a part of the policy is for IPv6, which pods on Windows nodes do not have.
	AddressFamily Reason = "AddressFamily"
	// TooLarge: the policies of the namespace do not fit in a set.
	TooLarge Reason = "TooLarge"
)

// Problem is a policy of which a part has no effect.
type Problem struct {
	Namespace, Policy string
	Reason            Reason
	Message           string
}

// Compiled is the set of a namespace, and its encoding; nil if the namespace has a name that no set can have.
type Compiled struct {
	Set     policyset.Set
	Encoded []byte
}

// Compile returns one set for each namespace with policies, by namespace, and the problems of policies, by namespace, name and reason.
// Equal clusters have equal results, in whatever order their objects are.
func Compile(c Cluster) ([]Compiled, []Problem) {
	policies := slices.SortedFunc(slices.Values(c.Policies), func(a, b *networkingv1.NetworkPolicy) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	stock := newInventory(c)
	var sets []Compiled
	var problems []Problem
	for len(policies) > 0 {
		end := slices.IndexFunc(policies, func(p *networkingv1.NetworkPolicy) bool { return p.Namespace != policies[0].Namespace })
		if end < 0 {
			end = len(policies)
		}
		set, found := compileNamespace(stock, policies[:end])
		sets, problems = append(sets, set), append(problems, found...)
		policies = policies[end:]
	}
	return sets, problems
}

// compileNamespace compiles all policies of a namespace. A set that is too large or that nodes would reject is replaced by one that
// closes.
func compileNamespace(stock *inventory, policies []*networkingv1.NetworkPolicy) (Compiled, []Problem) {
	namespace := policies[0].Namespace
	b := newBuilder(stock, namespace)
	var problems []Problem
	for _, p := range policies {
		problems = append(problems, b.add(p)...)
	}
	set := b.build()
	data, err := policyset.Encode(set)
	if err == nil && set.Omitted == 0 {
		return Compiled{set, data}, problems
	}
	reason, closed := Invalid, policyset.Closed(namespace)
	if size := max(set.Omitted, len(data)); size > policyset.MaxSize {
		reason, closed.Unlisted, closed.Omitted = TooLarge, set.Unlisted, size
		err = fmt.Errorf("the policies of namespace %s need at least %d bytes with the addresses of their peers; at most %d are allowed; "+
			"split the namespace, or select peers by ipBlock", namespace, size, policyset.MaxSize)
	}
	for _, p := range policies {
		problems = append(problems, Problem{namespace, p.Name, reason, truncate.Text(err.Error(), truncate.Reported)})
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Reason, b.Reason))
	})
	encoded, _ := policyset.Encode(closed) // it fails only if the name of the namespace is invalid
	return Compiled{closed, encoded}, problems
}
