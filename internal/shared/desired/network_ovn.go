package desired

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
)

func checkOVNKubernetes(in Inputs) error {
	n := in.Cluster.Network
	if !n.OpenShift || n.Type == "OVNKubernetes" {
		return nil
	}
	return networkError(api.ReasonNetworkTypeUnsupported,
		"the cluster's network is %q (Network.config.openshift.io cluster, status.networkType), and provider %s needs OVNKubernetes: migrate the "+
			"cluster's network to OVN-Kubernetes as described in OpenShift's documentation, or set spec.network.provider of WindowsConfig cluster to %s",
		n.Type, v1alpha1.NetworkOVNHybridOverlay, v1alpha1.NetworkCustom)
}

// checkDualStack rejects dual-stack OpenShift clusters: their network operator passes one range of the hybrid overlay to OVN-Kubernetes, which
// does not start unless the overlay has the same address families as pods.
func checkDualStack(in Inputs) error {
	n := in.Cluster.Network
	if !n.OpenShift || !hasBoth(append(slices.Clone(n.PodCIDRs), n.ServiceCIDRs...)) || hasBoth(n.HybridCIDRs) {
		return nil
	}
	next := "do not configure a hybrid overlay"
	if n.HybridOverlay != "" {
		next = "set hybridOverlayConfig back to null before OVN-Kubernetes restarts"
	}
	return networkError(api.ReasonHybridOverlayDualStack,
		"the cluster is dual-stack (%s), and OpenShift's hybrid overlay takes one range, of IPv4: OVN-Kubernetes does not start with both; %s. "+
			"Windows nodes with provider %s need a cluster with IPv4 only",
		strings.Join(append(slices.Clone(n.PodCIDRs), n.ServiceCIDRs...), ", "), next, v1alpha1.NetworkOVNHybridOverlay)
}

func hasBoth(cidrs []string) bool {
	return slices.ContainsFunc(cidrs, isIPv6) && slices.ContainsFunc(cidrs, func(cidr string) bool { return !isIPv6(cidr) })
}

func isIPv6(cidr string) bool { return strings.Contains(cidr, ":") }

// checkHybridOverlay requires, on OpenShift, a range with which OVN-Kubernetes starts, and everywhere subnets with addresses for pods.
func checkHybridOverlay(in Inputs) error {
	n := in.Cluster.Network
	switch {
	case n.HybridFault != "":
		return networkError(api.ReasonHybridOverlayNotConfigured,
			"OVN-Kubernetes does not start with this hybrid overlay: %s; change it: %s", n.HybridFault, hybridRemedy(in))
	case n.OpenShift && n.HybridOverlay == "":
		return networkError(api.ReasonHybridOverlayNotConfigured,
			"OVN-Kubernetes has no hybrid overlay (%s is empty), so pods on Windows nodes would get no addresses; configure it "+
				"with a range that nothing else in your network uses: %s", hybridField, hybridRemedy(in))
	case n.OpenShift && len(n.HybridCIDRs) == 0:
		return networkError(api.ReasonHybridOverlayNotConfigured,
			"OVN-Kubernetes has a hybrid overlay without a range (%s is empty), with which its control plane crashes when a Windows node registers; "+
				"give it a range that nothing else in your network uses: %s", hybridField, hybridRemedy(in))
	case n.OpenShift && slices.ContainsFunc(n.HybridCIDRs, isIPv6) && !slices.ContainsFunc(n.PodCIDRs, isIPv6):
		return networkError(api.ReasonHybridOverlayNotConfigured,
			"OVN-Kubernetes does not start with this hybrid overlay: %s has %s, and the cluster network %s has no IPv6; change it: %s",
			hybridField, strings.Join(n.HybridCIDRs, ", "), strings.Join(n.PodCIDRs, ", "), hybridRemedy(in))
	}
	for _, cidr := range n.HybridCIDRs {
		if length := n.HostPrefixes[cidr]; !isIPv6(cidr) && length > 0 && podAddresses(length) < 1 {
			return networkError(api.ReasonHybridOverlayNotConfigured,
				"the hybrid cluster network %s gives each node a /%d, which has no addresses for pods; the longest allowed prefix is /%d",
				cidr, length, longestHostPrefix)
		}
	}
	return nil
}

const hybridField = "Network.operator.openshift.io cluster, spec.defaultNetwork.ovnKubernetesConfig.hybridOverlayConfig.hybridClusterNetwork"

// longestHostPrefix is the longest node prefix with an address for a pod.
const longestHostPrefix = 29

// podAddresses returns the number of pods that get an address in a node's subnet: all but those of the network, the router, the host's endpoint
// (the last one, after the end of overlayCNI's range) and broadcasts.
func podAddresses(hostPrefix int) int {
	return max(0, 1<<(32-min(hostPrefix, 32))-4)
}

// checkOneHybridRange rejects several IPv4 ranges: nodes get subnets of each, but OVN-Kubernetes' Linux nodes reach only the first.
func checkOneHybridRange(in Inputs) error {
	n := in.Cluster.Network
	ipv4 := slices.DeleteFunc(slices.Clone(n.HybridCIDRs), isIPv6)
	if len(ipv4) < 2 {
		return nil
	}
	field, remedy := networkField+".ovn.hybridClusterSubnets", "start OVN-Kubernetes with one range that is large enough for all Windows nodes, and set it here"
	if n.OpenShift {
		field, remedy = hybridField, "set one: "+hybridRemedy(in)
	}
	return networkError(api.ReasonHybridOverlayNotConfigured,
		"%s has %d IPv4 ranges (%s), and Linux nodes reach only the pods in the first; %s", field, len(ipv4), strings.Join(ipv4, ", "), remedy)
}

// checkInternal rejects a hybrid overlay that overlaps ranges that OVN-Kubernetes reserves: it would not start.
func checkInternal(in Inputs) error {
	for _, cidr := range in.Cluster.Network.HybridCIDRs {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			continue // ParseSubnets has checked it
		}
		if r, overlaps := internalOverlap(in, prefix); overlaps {
			return networkError(api.ReasonNetworksOverlap,
				"the hybrid cluster network %s and OVN-Kubernetes' own %s %s (%s) overlap, so OVN-Kubernetes does not start; "+
					"give the hybrid overlay a range of its own: %s", prefix.Masked(), r.Name, r.CIDR, r.Field, hybridRemedy(in))
		}
	}
	return nil
}

// internalOverlap returns a range reserved by OVN-Kubernetes that shares addresses with another.
func internalOverlap(in Inputs, prefix netip.Prefix) (InternalRange, bool) {
	for _, r := range in.Cluster.Network.Internal {
		if own, err := netip.ParsePrefix(r.CIDR); err == nil && own.Overlaps(prefix) {
			return r, true
		}
	}
	return InternalRange{}, false
}

func checkPortOnVSphere(in Inputs) error {
	n := in.Cluster.Network
	needed := platform.Of(n.Platform).VXLANPort
	if needed == 0 || n.VXLANPort != 0 && n.VXLANPort != VXLANPort {
		return nil
	}
	remedy := ": " + hybridRemedy(in)
	if !n.OpenShift {
		remedy = "; start OVN-Kubernetes with it, and set spec.network.ovn.vxlanPort of WindowsConfig cluster"
	}
	return networkError(api.ReasonVXLANPortRequired,
		"the hybrid overlay uses UDP port %d on vSphere, whose own overlay intercepts packets to this port: choose another port such as %d, "+
			"which Windows Server 2019 does not support%s", VXLANPort, needed, remedy)
}

// checkPortSetTwice rejects a port in WindowsConfig that differs from OpenShift's, because it is unclear which one is meant.
func checkPortSetTwice(in Inputs) error {
	n, ovn := in.Cluster.Network, in.Config.Network.OVN
	if !n.OpenShift || ovn == nil || ovn.VXLANPort == 0 || ovn.VXLANPort == int32(n.VXLANPort) {
		return nil
	}
	return fmt.Errorf("%w: %s.ovn.vxlanPort is %d; on OpenShift the port is hybridOverlayVXLANPort of Network.operator.openshift.io cluster, "+
		"which is %s: remove it", ErrNetwork, networkField, ovn.VXLANPort, portOrUnset(n.VXLANPort))
}

// checkSubnetsSetTwice rejects ranges in WindowsConfig on OpenShift, which has its own.
func checkSubnetsSetTwice(in Inputs) error {
	ovn := in.Config.Network.OVN
	if !in.Cluster.Network.OpenShift || ovn == nil || ovn.ClusterSubnets+ovn.HybridClusterSubnets == "" {
		return nil
	}
	return fmt.Errorf("%w: %s.ovn has clusterSubnets or hybridClusterSubnets; on OpenShift the ranges are clusterNetwork of Network.config.openshift.io cluster "+
		"and hybridClusterNetwork of Network.operator.openshift.io cluster: remove them", ErrNetwork, networkField)
}

func portOrUnset(port uint16) string {
	if port == 0 {
		return "not set"
	}
	return fmt.Sprint(port)
}
