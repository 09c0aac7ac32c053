package desired

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// NodeNetworks is what Nodes reveal about the cluster's network, regardless of configuration.
type NodeNetworks struct {
	// Found are the networks whose annotation is on a Linux Node, each once, by name.
	Found []FoundNetwork
	// HybridOverlay means that OVN-Kubernetes' hybrid overlay runs on a Linux Node.
	HybridOverlay bool
	// Subnets are those of Windows nodes, by node name.
	Subnets map[string]netip.Prefix
}

// FoundNetwork is a network, and the annotation of a Linux Node that reveals it.
type FoundNetwork struct {
	Name             string
	Node, Annotation string
}

// Names of the networks that annotate Nodes.
const (
	OVNKubernetes = "OVN-Kubernetes"
	FlannelName   = "Flannel"
	Calico        = "Calico"
	Cilium        = "Cilium"
	Antrea        = "Antrea"
)

// providerOf returns the provider for a network.
func providerOf(network string) v1alpha1.NetworkProvider {
	switch network {
	case OVNKubernetes:
		return v1alpha1.NetworkOVNHybridOverlay
	case FlannelName:
		return v1alpha1.NetworkFlannel
	}
	return v1alpha1.NetworkCustom
}

// recommendedProvider returns a clause that recommends a provider.
func recommendedProvider(found []FoundNetwork) string {
	if len(found) == 0 {
		return fmt.Sprintf("set it to %s, %s or %s", v1alpha1.NetworkOVNHybridOverlay, v1alpha1.NetworkFlannel, v1alpha1.NetworkCustom)
	}
	best := found[0] // of several, as after a migration, prefer one with its own provider
	for _, f := range found {
		if providerOf(f.Name) != v1alpha1.NetworkCustom {
			best = f
			break
		}
	}
	text := fmt.Sprintf("the cluster's network is %s (Node %s has annotation %s): set it to %s", best.Name, best.Node, best.Annotation, providerOf(best.Name))
	if providerOf(best.Name) == v1alpha1.NetworkCustom {
		text += ", with the configuration of a plugin in spec.network.custom.cniConfig"
	}
	return text
}

// checkFound rejects a provider that does not match the network of the Linux Nodes. OpenShift declares its network, so its Nodes are not checked.
func checkFound(in Inputs) error {
	found := in.Cluster.Network.Nodes.Found
	fits := func(f FoundNetwork) bool { return providerOf(f.Name) == in.provider() }
	if in.Cluster.Network.OpenShift || len(found) == 0 || slices.ContainsFunc(found, fits) {
		return nil
	}
	return networkError(api.ReasonNetworkProviderMismatch, "%s.provider is %s, which does not connect to the pods of this cluster: %s",
		networkField, in.provider(), recommendedProvider(found))
}

// checkOverlayOnNodes rejects OVN-Kubernetes without the hybrid overlay on any Linux node: a host would wait for a subnet forever.
func checkOverlayOnNodes(in Inputs) error {
	n := in.Cluster.Network
	if n.OpenShift || len(n.Nodes.Found) == 0 || n.Nodes.HybridOverlay {
		return nil
	}
	return networkError(api.ReasonHybridOverlayNotConfigured,
		"OVN-Kubernetes runs without its hybrid overlay: no Linux Node has annotation %s; configure it as described in docs/network.md (ConfigMap ovnkube-config, "+
			"section hybridoverlay and no-hostsubnet-nodes), and restart OVN-Kubernetes", HybridRouterAnnotation)
}

// HybridRouterAnnotation is on each Linux Node while OVN-Kubernetes' hybrid overlay runs there.
const HybridRouterAnnotation = "k8s.ovn.org/hybrid-overlay-distributed-router-gateway-mac"

// Reasons of problems with the network.
const (
	// ReasonMaxPods is for nodes that allow more pods than they have addresses.
	ReasonMaxPods = "MaxPods"
	// ReasonRange is for ranges that are ignored.
	ReasonRange = "Range"
	// ReasonDomain is for a DNS domain that no object of the cluster names.
	ReasonDomain = "Domain"
)

// networkProblems returns problems of the network that do not keep nodes from working.
func networkProblems(in Inputs) []Problem {
	var all []Problem
	n := in.Cluster.Network
	for i, cidr := range n.HybridUnused {
		all = append(all, Problem{Kind: "Network", Name: "cluster", Reason: ReasonRange, Message: fmt.Sprintf(
			"%s[%d] is %.100q and is not used: OpenShift passes only the first entry on to OVN-Kubernetes; if it is too small, replace it with a larger one",
			hybridField, i+1, cidr)})
	}
	for _, cidr := range n.PodCIDRs {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			all = append(all, Problem{Kind: "WindowsConfig", Name: api.WindowsConfigName, Reason: ReasonRange, Message: fmt.Sprintf(
				"the cluster network %.100q, from OpenShift's Network or kubeadm's ConfigMap, is not a range such as 10.128.0.0/14 and is not used", cidr)})
		}
	}
	if isUnapplied(n) {
		name := slices.Min(slices.Collect(maps.Keys(n.Nodes.Subnets)))
		all = append(all, Problem{Kind: "WindowsConfig", Name: api.WindowsConfigName, Reason: ReasonRange, Message: fmt.Sprintf(
			"no Windows node has a subnet of the hybrid cluster network %s (Node %s has %s), so nodes do not get it: OVN-Kubernetes uses another range%s",
			strings.Join(n.HybridCIDRs, ", "), name, n.Nodes.Subnets[name], unappliedRemedy(n))})
	}
	if in.Cluster.DomainAssumed {
		all = append(all, Problem{Kind: "WindowsConfig", Name: api.WindowsConfigName, Reason: ReasonDomain, Message: fmt.Sprintf(
			"the cluster's DNS domain is unknown: it is not in ConfigMap kube-system/kubelet-config (clusterDomain) or kube-system/kubeadm-config (networking.dnsDomain), and there is not exactly "+
				`one name kubernetes.default.svc.<domain> in the API server's certificate. Nodes get %s, the Kubernetes default; set spec.network.dns.domain of WindowsConfig "cluster" to the domain`, in.Cluster.Domain)})
	}
	if hostPrefix, source := smallestSubnet(in); hostPrefix > 0 && int(maxPods(in)) > podAddresses(hostPrefix) {
		all = append(all, Problem{Kind: "WindowsConfig", Name: api.WindowsConfigName, Reason: ReasonMaxPods, Message: fmt.Sprintf(
			`WindowsConfig "cluster": spec.kubelet.maxPods is %d, and %s, with addresses for %d pods: more pods would wait for an address; set at most %d`,
			maxPods(in), source, podAddresses(hostPrefix), podAddresses(hostPrefix))})
	}
	return all
}

// isUnapplied reports whether OVN-Kubernetes uses another range than the configured hybrid overlay range: all Windows nodes have subnets outside of
// it. With the configured range, nodes would send nothing to each other. One node alone cannot cause this.
func isUnapplied(n ClusterNetwork) bool {
	for _, subnet := range n.Nodes.Subnets {
		for _, cidr := range n.HybridCIDRs {
			if prefix, err := netip.ParsePrefix(cidr); err == nil && prefix.Contains(subnet.Addr()) {
				return false
			}
		}
	}
	return len(n.Nodes.Subnets) > 0 && len(n.HybridCIDRs) > 0
}

func unappliedRemedy(n ClusterNetwork) string {
	if n.OpenShift {
		return `. If ClusterOperator network reports "cannot edit a running hybrid overlay network", change it as described in docs/network.md; otherwise wait until it is applied`
	}
	return "; correct spec.network.ovn.hybridClusterSubnets, or restart OVN-Kubernetes with it"
}

// smallestSubnet returns the prefix length of the smallest subnet that a node has or gets, and a clause that describes it; 0 if none is known.
func smallestSubnet(in Inputs) (hostPrefix int, source string) {
	n := in.Cluster.Network
	for _, cidr := range n.HybridCIDRs {
		if prefix, err := netip.ParsePrefix(cidr); err == nil && prefix.Addr().Is4() && n.HostPrefixes[cidr] > hostPrefix {
			hostPrefix = n.HostPrefixes[cidr]
			source = fmt.Sprintf("OVN-Kubernetes gives each Windows node a /%d of %s", hostPrefix, prefix.Masked())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.Nodes.Subnets)) {
		if subnet := n.Nodes.Subnets[name]; subnet.Bits() > hostPrefix {
			hostPrefix, source = subnet.Bits(), fmt.Sprintf("Node %s has %s", name, subnet)
		}
	}
	return hostPrefix, source
}
