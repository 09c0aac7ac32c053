package desired

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// Limits of VXLAN on Windows.
const (
	// minVNI is the lowest virtual network identifier (VNI) of overlays on Windows; maxVNI is the highest that Flannel stores on Windows (16
	// bits).
	minVNI = 4096
	maxVNI = 1<<16 - 1
)

// CheckNetwork rejects networks with which no node could become ready, before any host is changed. It needs only Cluster and Config of the
// inputs.
func CheckNetwork(in Inputs) error {
	var checks []func(Inputs) error
	switch in.provider() {
	case v1alpha1.NetworkOVNHybridOverlay:
		checks = []func(Inputs) error{
			checkOVNKubernetes, checkFound, checkPodsIPv4, checkDualStack, checkReserved, checkOverlaps, checkHybridOverlay, checkHybridIPv4,
			checkOneHybridRange, checkInternal, checkPortOnVSphere, checkPortSetTwice, checkSubnetsSetTwice, checkOverlayOnNodes,
		}
	case v1alpha1.NetworkFlannel:
		checks = []func(Inputs) error{checkFound, checkFlannel, checkPodsIPv4, checkReserved, checkOverlaps}
	case v1alpha1.NetworkCustom:
		checks = []func(Inputs) error{checkCustom}
	default:
		return fmt.Errorf("%w: %s.provider is empty; %s", ErrNetwork, networkField, recommendedProvider(in.Cluster.Network.Nodes.Found))
	}
	for _, check := range append(checks, checkAllowFrom) {
		if err := check(in); err != nil {
			return err
		}
	}
	return nil
}

const networkField = `WindowsConfig "cluster": spec.network`

// checkPodsIPv4 requires an IPv4 range of pods, checkHybridIPv4 one of pods on Windows nodes. Both pass if no range is known.
func checkPodsIPv4(in Inputs) error   { return checkIPv4(in, pods) }
func checkHybridIPv4(in Inputs) error { return checkIPv4(in, hybridPods) }

func checkIPv4(in Inputs, name string) error {
	ranges := slices.DeleteFunc(addressRanges(in), func(r addressRange) bool { return r.name != name })
	if len(ranges) == 0 || slices.ContainsFunc(ranges, func(r addressRange) bool { return r.prefix.Addr().Is4() }) {
		return nil
	}
	return networkError(api.ReasonClusterNetworkIPv6Only,
		"the %s has only IPv6 addresses (%s), but Windows overlays carry only IPv4: use a cluster with IPv4 or dual stack", name, prefixes(ranges))
}

func checkReserved(in Inputs) error {
	for _, r := range addressRanges(in) {
		if r.name == serviceNetwork || !r.prefix.Overlaps(classE()) {
			continue
		}
		return networkError(api.ReasonClusterNetworkReserved,
			"the %s %s is in class E (%s), to which Windows does not send packets: pods on Windows nodes would not reach other pods; "+
				"choose a private range such as 10.128.0.0/14%s", r.name, r.prefix, classE(), reservedRemedy(in, r))
	}
	return nil
}

// classE returns the addresses that Windows does not use.
func classE() netip.Prefix { return netip.MustParsePrefix("240.0.0.0/4") }

func reservedRemedy(in Inputs, r addressRange) string {
	switch {
	case !in.Cluster.Network.OpenShift:
		return ""
	case r.name == hybridPods:
		return ": " + hybridRemedy(in)
	default:
		return "; it is set when a cluster is installed (networking.clusterNetwork in install-config.yaml)"
	}
}

// checkOverlaps rejects ranges that share addresses, which make routing ambiguous.
func checkOverlaps(in Inputs) error {
	all := addressRanges(in)
	for i, a := range all {
		for _, b := range all[i+1:] {
			if !a.prefix.Overlaps(b.prefix) {
				continue
			}
			shared := a.prefix
			if b.prefix.Bits() > a.prefix.Bits() {
				shared = b.prefix
			}
			return networkError(api.ReasonNetworksOverlap,
				"the %s %s and the %s %s overlap (%s), so packets to these addresses would be misrouted; %s",
				a.name, a.prefix, b.name, b.prefix, shared, overlapRemedy(in, a, b))
		}
	}
	return nil
}

func overlapRemedy(in Inputs, a, b addressRange) string {
	if !in.Cluster.Network.OpenShift || a.name != hybridPods && b.name != hybridPods {
		return "give the cluster ranges that do not overlap"
	}
	return "give the hybrid overlay a range of its own: " + hybridRemedy(in)
}

func checkFlannel(in Inputs) error {
	object := FlannelConfig(in.Config.Network)
	if in.Cluster.Network.Flannel == nil {
		return networkError(api.ReasonFlannelNotFound,
			"ConfigMap %s with Flannel's configuration (key %s) does not exist; install Flannel, or set spec.network.flannel of WindowsConfig cluster to its location",
			object, FlannelConfigKey)
	}
	text := in.Cluster.Network.Flannel.NetConf
	conf, err := parseNetConf(text)
	if err != nil {
		return err
	}
	faults := flannelFaults(conf)
	if len(faults) == 0 {
		return errors.Join(checkFlannelRange(object, conf), checkFlannelName(object, conf.Backend.Name))
	}
	return networkError(api.ReasonFlannelUnsuitable,
		"ConfigMap %s, key %s, does not support Windows nodes: %s; change it for all nodes: %s",
		object, FlannelConfigKey, strings.Join(faults, ", "), flannelPatch(object, text))
}

func checkFlannelRange(object types.NamespacedName, conf netConf) error {
	if conf.EnableIPv4 != nil && !*conf.EnableIPv4 {
		return networkError(api.ReasonClusterNetworkIPv6Only,
			"ConfigMap %s, key %s, has EnableIPv4: false, but Windows overlays carry only IPv4: use a cluster with IPv4 or dual stack", object, FlannelConfigKey)
	}
	if conf.EnableIPv6 {
		return networkError(api.ReasonFlannelUnsuitable,
			"ConfigMap %s, key %s, has EnableIPv6: true, with which flanneld does not start on Windows, and nodes ignore peers without an IPv6 address: "+
				"set it to false", object, FlannelConfigKey)
	}
	if _, err := netip.ParsePrefix(conf.Network); err != nil {
		return networkError(api.ReasonFlannelUnsuitable,
			"ConfigMap %s, key %s: Network is %q and must be the pod range of kube-controller-manager (--cluster-cidr)",
			object, FlannelConfigKey, conf.Network)
	}
	return nil
}

// checkFlannelName rejects names that CNI plugins do not accept (pkg/utils of containernetworking/cni).
func checkFlannelName(object types.NamespacedName, name string) error {
	const others = "_.-"
	plain := func(r rune) bool { return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) }
	if strings.IndexFunc(name, func(r rune) bool { return !plain(r) && !strings.ContainsRune(others, r) }) < 0 && !strings.ContainsAny(name[:min(1, len(name))], others) {
		return nil
	}
	return networkError(api.ReasonFlannelUnsuitable,
		"ConfigMap %s, key %s: Backend.Name is %q and must begin with a letter or digit and contain only letters, digits and %s", object, FlannelConfigKey, name, others)
}

func flannelFaults(conf netConf) []string {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if b := conf.Backend; b.Type != "vxlan" {
		fault(`Backend.Type is %q and must be "vxlan"`, b.Type)
	}
	if vni := conf.Backend.VNI; vni.value < minVNI || vni.value > maxVNI {
		fault("Backend.VNI is %s and must be from %d to %d", vni, minVNI, maxVNI)
	}
	if port := conf.Backend.Port; port.value != VXLANPort {
		fault("Backend.Port is %s and must be %d", port, VXLANPort)
	}
	if conf.Backend.DirectRouting {
		fault("Backend.DirectRouting is true and must be false")
	}
	if conf.Backend.GBP {
		fault("Backend.GBP is true and must be false")
	}
	return faults
}

// Names of ranges in messages.
const (
	pods           = "cluster network"
	hybridPods     = "hybrid cluster network"
	serviceNetwork = "service network"
)

// addressRange is a range that is used in the cluster.
type addressRange struct {
	name   string
	prefix netip.Prefix
}

// addressRanges returns the known ranges. Invalid ones are left out; the code that reads them reports them.
func addressRanges(in Inputs) []addressRange {
	n := in.Cluster.Network
	podCIDRs := n.PodCIDRs
	if n.Flannel != nil {
		podCIDRs = []string{n.Flannel.Network}
	}
	var all []addressRange
	for _, known := range []struct {
		name  string
		cidrs []string
	}{{hybridPods, n.HybridCIDRs}, {pods, podCIDRs}, {serviceNetwork, in.Cluster.ServiceCIDRs}} {
		for _, cidr := range known.cidrs {
			if prefix, err := netip.ParsePrefix(cidr); err == nil {
				all = append(all, addressRange{known.name, prefix.Masked()})
			}
		}
	}
	return all
}

func prefixes(ranges []addressRange) string {
	var list []string
	for _, r := range ranges {
		list = append(list, r.prefix.String())
	}
	return strings.Join(list, ", ")
}
