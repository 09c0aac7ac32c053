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
	"github.com/windows-machine-config/wmco/internal/desired"
)

// Annotations that OVN-Kubernetes writes to Windows nodes.
const (
	// HybridSubnetAnnotation is the subnet that a Windows node has in the hybrid overlay.
	HybridSubnetAnnotation = "k8s.ovn.org/hybrid-overlay-node-subnet"
	// LinuxSubnetsAnnotation are the subnets that OVN-Kubernetes gives to nodes of its own; a Windows node has none, unless it was taken for one.
	LinuxSubnetsAnnotation = "k8s.ovn.org/node-subnets"
)

// networkAnnotations are what networks write to Nodes, by the beginning of the key. OVN-Kubernetes writes more to Nodes of others, too.
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

// ReadNodeNetworks reads what Nodes show of the cluster's network: whether the hybrid overlay runs, the subnets of Windows nodes, and, on clusters
// other than OpenShift, which network Linux nodes have. Nodes are listed from nodes, which may be a cache.
func ReadNodeNetworks(ctx context.Context, nodes client.Reader, openshift bool, provider v1alpha1.NetworkProvider) (is desired.NodeNetworks, err error) {
	if provider == v1alpha1.NetworkCustom {
		return is, nil
	}
	var list corev1.NodeList
	if err := nodes.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return is, fmt.Errorf("listing Nodes: %w", err)
	}
	is.Subnets = map[string]netip.Prefix{}
	for i := range list.Items {
		node := &list.Items[i]
		switch node.Labels[corev1.LabelOSStable] {
		case "windows":
			if subnet, ok := SubnetOf(node, provider); ok {
				is.Subnets[node.Name] = subnet
			}
		case "linux":
			is.HybridOverlay = is.HybridOverlay || node.Annotations[desired.HybridRouterAnnotation] != ""
			if !openshift {
				addFound(&is, node)
			}
		}
	}
	slices.SortFunc(is.Found, func(a, b desired.FoundNetwork) int { return strings.Compare(a.Name, b.Name) })
	return is, nil
}

func addFound(is *desired.NodeNetworks, node *corev1.Node) {
	for _, key := range slices.Sorted(maps.Keys(node.Annotations)) {
		for _, a := range networkAnnotations() {
			if !strings.HasPrefix(key, a.prefix) {
				continue
			}
			found := desired.FoundNetwork{Name: a.network, Node: node.Name, Annotation: key}
			known := slices.IndexFunc(is.Found, func(f desired.FoundNetwork) bool { return f.Name == a.network })
			switch { // the same Node each time, in whatever order a cache lists them: what is told must not change without cause
			case known < 0:
				is.Found = append(is.Found, found)
			case node.Name < is.Found[known].Node:
				is.Found[known] = found
			}
		}
	}
}

// SubnetOf is the subnet from which the pods of a Windows node get IPv4 addresses, where its network has given it one.
func SubnetOf(node *corev1.Node, provider v1alpha1.NetworkProvider) (netip.Prefix, bool) {
	text := node.Annotations[HybridSubnetAnnotation]
	if provider != v1alpha1.NetworkOVNHybridOverlay {
		text = node.Spec.PodCIDR
	}
	subnet, err := netip.ParsePrefix(text)
	return subnet, err == nil && subnet.Addr().Is4() && subnet == subnet.Masked()
}
