package policysets

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/networkpolicy"
)

// inputs are what was read to be compiled.
type inputs struct {
	cluster networkpolicy.Cluster
	// policies are by name. cut has those of which only the identity is known.
	policies map[types.NamespacedName]*networkingv1.NetworkPolicy
	cut      []*networkingv1.NetworkPolicy
	// concerned are the namespaces with pods on Windows nodes.
	concerned map[string]bool
}

// read reads the cluster from the caches. Pods and namespaces that did not fit are left out, so that no rule allows them, and such pods are
// closed in isolated namespaces. Policies that did not fit close all pods of their namespace.
func (c *Controller) read(ctx context.Context, provider v1alpha1.NetworkProvider) (inputs, error) {
	var nodes corev1.NodeList
	if err := c.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return inputs{}, fmt.Errorf("listing Nodes: %w", err)
	}
	var pods corev1.PodList
	var namespaces corev1.NamespaceList
	var policies networkingv1.NetworkPolicyList
	for _, list := range []client.ObjectList{&pods, &namespaces, &policies} {
		if err := c.objects.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return inputs{}, fmt.Errorf("listing what NetworkPolicies depend on: %w", err)
		}
	}
	in := inputs{
		cluster:   networkpolicy.Cluster{Nodes: map[string]networkpolicy.Node{}},
		policies:  map[types.NamespacedName]*networkingv1.NetworkPolicy{},
		concerned: map[string]bool{},
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		in.cluster.Nodes[n.Name] = nodeOf(n, provider)
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; !kube.IsCut(p) {
			in.cluster.Pods = append(in.cluster.Pods, p)
			if in.cluster.Nodes[p.Spec.NodeName].Windows && !p.Spec.HostNetwork {
				in.concerned[p.Namespace] = true
			}
		}
	}
	for i := range namespaces.Items {
		if n := &namespaces.Items[i]; !kube.IsCut(n) {
			in.cluster.Namespaces = append(in.cluster.Namespaces, n)
		}
	}
	for i := range policies.Items {
		in.addPolicy(&policies.Items[i])
	}
	return in, nil
}

func (in *inputs) addPolicy(p *networkingv1.NetworkPolicy) {
	in.policies[client.ObjectKeyFromObject(p)] = p
	if kube.IsCut(p) {
		in.cut = append(in.cut, p)
		p = closing(p.ObjectMeta)
	}
	in.cluster.Policies = append(in.cluster.Policies, p)
}

// closing returns a policy that isolates all pods of its namespace, and allows nothing.
func closing(named metav1.ObjectMeta) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: named, Spec: networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
	}}
}
