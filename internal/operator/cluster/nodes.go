package cluster

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Annotations that OVN-Kubernetes writes to Windows nodes.
const (
	// HybridSubnetAnnotation has a Windows node's subnet in the hybrid overlay.
	HybridSubnetAnnotation = "k8s.ovn.org/hybrid-overlay-node-subnet"
	// LinuxSubnetsAnnotation has the subnets of OVN-Kubernetes' own nodes; a Windows node has none, unless OVN-Kubernetes mistook it for one.
	LinuxSubnetsAnnotation = "k8s.ovn.org/node-subnets"
)

// networkAnnotations maps prefixes of Node annotations to the networks that write them. OVN-Kubernetes also writes other annotations to foreign
// Nodes.
func networkAnnotations() []struct{ prefix, network string } {
	return []struct{ prefix, network string }{
		{LinuxSubnetsAnnotation, desired.OVNKubernetes},
		{"flannel.alpha.coreos.com/", desired.FlannelName},
		{"projectcalico.org/", desired.Calico},
		{"network.cilium.io/", desired.Cilium},
		{"io.cilium.", desired.Cilium},
		{"node.antrea.io/", desired.Antrea},
	}
}

// ReadNodeNetworks reads the network's state from Nodes: whether the hybrid overlay runs, the subnets of Windows nodes, and, except on OpenShift, the
// networks of Linux nodes. Nodes are listed from nodes, which may be a cache.
func ReadNodeNetworks(ctx context.Context, nodes client.Reader, openshift bool, provider v1alpha1.NetworkProvider) (current desired.NodeNetworks, err error) {
	if provider == v1alpha1.NetworkCustom {
		return current, nil
	}
	var list corev1.NodeList
	if err := nodes.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return current, fmt.Errorf("listing Nodes: %w", err)
	}
	current.Subnets = map[string]netip.Prefix{}
	for i := range list.Items {
		node := &list.Items[i]
		switch node.Labels[corev1.LabelOSStable] {
		case "windows":
			if subnet, ok := SubnetOf(node, provider); ok {
				current.Subnets[node.Name] = subnet
			}
		case "linux":
			current.HybridOverlay = current.HybridOverlay || node.Annotations[desired.HybridRouterAnnotation] != ""
			if !openshift {
				addFound(&current, node)
			}
		}
	}
	slices.SortFunc(current.Found, func(a, b desired.FoundNetwork) int { return strings.Compare(a.Name, b.Name) })
	return current, nil
}

func addFound(current *desired.NodeNetworks, node *corev1.Node) {
	for _, key := range slices.Sorted(maps.Keys(node.Annotations)) {
		for _, a := range networkAnnotations() {
			if !strings.HasPrefix(key, a.prefix) {
				continue
			}
			found := desired.FoundNetwork{Name: a.network, Node: node.Name, Annotation: key}
			known := slices.IndexFunc(current.Found, func(f desired.FoundNetwork) bool { return f.Name == a.network })
			switch { // always the same Node, whatever the cache's order, so that reports do not change without cause
			case known < 0:
				current.Found = append(current.Found, found)
			case node.Name < current.Found[known].Node:
				current.Found[known] = found
			}
		}
	}
}

// SubnetOf returns the subnet from which a Windows node's pods get IPv4 addresses, if its network has assigned one.
func SubnetOf(node *corev1.Node, provider v1alpha1.NetworkProvider) (netip.Prefix, bool) {
	text := node.Annotations[HybridSubnetAnnotation]
	if provider != v1alpha1.NetworkOVNHybridOverlay {
		text = node.Spec.PodCIDR
	}
	subnet, err := netip.ParsePrefix(text)
	return subnet, err == nil && subnet.Addr().Is4() && subnet == subnet.Masked()
}
