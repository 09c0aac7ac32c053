package policysets

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/networkpolicy"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// Limits of a node's own addresses, and of those of its subnet: its kubelet may write both.
const (
	maxAddresses    = 32
	maxPodAddresses = 4096
)

// routerAddressAnnotation is an address of a Linux node in the hybrid overlay of OVN-Kubernetes.
const routerAddressAnnotation = "k8s.ovn.org/hybrid-overlay-distributed-router-gateway-ip"

// addressesOf returns the IPv4 addresses from which connections of a node, and of its pods on the host network, reach pods of other nodes.
// These are its own, and the ones that it has on the pod network, if its subnet is known:
//
//   - Windows: the router of its subnet, which is the first address, and the endpoint of the host, the last one before the broadcast
//     address (see overlayCNI in package desired; kube-proxy's source VIP).
//   - Linux with OVN-Kubernetes: the management port, which is the second address of its subnet (GetNodeManagementIfAddr in
//     go-controller/pkg/util/subnet_annotations.go's package), its router, which is the first, and the distributed router of the hybrid
//     overlay.
//   - Linux with Flannel: interface flannel.1 has the network address of its subnet (pkg/backend/vxlan/vxlan.go), and the bridge cni0 the
//     first one.
func addressesOf(n *corev1.Node, provider v1alpha1.NetworkProvider, subnet netip.Prefix) []netip.Addr {
	var all []netip.Addr
	add := func(a netip.Addr) {
		if a = a.Unmap(); a.Is4() {
			all = append(all, a)
		}
	}
	for _, a := range n.Status.Addresses {
		if address, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			add(address)
		}
	}
	if first := subnet.Addr(); subnet.IsValid() {
		add(first.Next())
		switch {
		case nodestate.IsWindows(n):
			add(lastHost(subnet))
		case provider == v1alpha1.NetworkFlannel:
			add(first)
		default:
			add(first.Next().Next())
		}
	}
	if address, err := netip.ParseAddr(n.Annotations[routerAddressAnnotation]); err == nil && !nodestate.IsWindows(n) {
		add(address)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	all = slices.Compact(all)
	return all[:min(len(all), maxAddresses)]
}

// nodeOf returns the part of a node that policies depend on.
func nodeOf(n *corev1.Node, provider v1alpha1.NetworkProvider) networkpolicy.Node {
	subnet := subnetOf(n, provider)
	result := networkpolicy.Node{Windows: nodestate.IsWindows(n), Addresses: addressesOf(n, provider, subnet)}
	if subnet.IsValid() && 1<<(32-subnet.Bits()) <= maxPodAddresses {
		result.Pods = subnet.Masked()
	}
	return result
}

// subnetOf returns the subnet of a node on the pod network, with at least four addresses; zero if it is unknown.
func subnetOf(n *corev1.Node, provider v1alpha1.NetworkProvider) netip.Prefix {
	if provider == v1alpha1.NetworkOVNHybridOverlay && !nodestate.IsWindows(n) {
		return linuxSubnet(n.Annotations[cluster.LinuxSubnetsAnnotation])
	}
	if subnet, ok := cluster.SubnetOf(n, provider); ok && subnet.Bits() <= 30 {
		return subnet
	}
	return netip.Prefix{}
}

// linuxSubnet reads the IPv4 subnet of OVN-Kubernetes' default network: a string or a list of strings.
func linuxSubnet(text string) netip.Prefix {
	var networks struct {
		Default json.RawMessage `json:"default"`
	}
	if json.Unmarshal([]byte(text), &networks) != nil {
		return netip.Prefix{}
	}
	var item string
	var several []string
	if json.Unmarshal(networks.Default, &item) == nil {
		several = []string{item}
	} else if json.Unmarshal(networks.Default, &several) != nil {
		return netip.Prefix{}
	}
	for _, s := range several {
		if p, err := netip.ParsePrefix(s); err == nil && p.Addr().Is4() && p.Bits() <= 30 {
			return p.Masked()
		}
	}
	return netip.Prefix{}
}

// lastHost returns the last address of an IPv4 subnet before the broadcast address.
func lastHost(subnet netip.Prefix) netip.Addr {
	a := subnet.Masked().Addr().As4()
	for i := subnet.Bits(); i < 32; i++ {
		a[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(a).Prev()
}

// nodeChanged passes changes of Nodes that affect policies. Most updates of Nodes do not.
func nodeChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
		return nodestate.IsWindows(before) != nodestate.IsWindows(after) || before.Spec.PodCIDR != after.Spec.PodCIDR ||
			!equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses) || !maps.Equal(networkOf(before), networkOf(after))
	}}
}

// networkOf returns the annotations that addressesOf reads.
func networkOf(n *corev1.Node) map[string]string {
	read := map[string]string{}
	for _, name := range []string{cluster.HybridSubnetAnnotation, cluster.LinuxSubnetsAnnotation, routerAddressAnnotation} {
		read[name] = n.Annotations[name]
	}
	return read
}
