package desired

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// ClusterNetwork describes the cluster's pod network, as far as it is known.
type ClusterNetwork struct {
	// OpenShift is true for OpenShift clusters. Platform is OpenShift's name of the platform (AWS, VSphere, ...).
	OpenShift bool
	Platform  string
	// Type is OpenShift's name of the network, such as OVNKubernetes.
	Type string
	// PodCIDRs are the ranges of pods on Linux nodes with OVN-Kubernetes, otherwise of all pods. Empty if unknown.
	PodCIDRs []string
	// ServiceCIDRs are the ranges of Services of both address families, as configured in OpenShift.
	ServiceCIDRs []string
	// HybridCIDRs are the ranges of pods on Windows nodes that OVN-Kubernetes gets: OpenShift passes on only its first entry.
	HybridCIDRs []string
	// HybridUnused are OpenShift's other entries.
	HybridUnused []string
	// HybridFault is what is wrong with OpenShift's entry or port if it cannot be read.
	HybridFault string
	// HostPrefixes are the lengths of the prefixes that OVN-Kubernetes assigns to nodes, by range. Unknown ones are missing.
	HostPrefixes map[string]int
	// Internal are ranges that OVN-Kubernetes reserves for itself, so that the hybrid overlay cannot use them.
	Internal []InternalRange
	// HybridOverlay is the hybridOverlayConfig of OpenShift's Network.operator, as JSON; empty if there is none.
	HybridOverlay string
	// VXLANPort is the UDP port of the hybrid overlay; 0 means the default of Windows, 4789.
	VXLANPort uint16
	// Flannel is nil with other providers, and if its configuration was not found.
	Flannel *Flannel
	// Nodes is what the cluster's Nodes reveal about their network.
	Nodes NodeNetworks
}

// InternalRange is a range that OVN-Kubernetes reserves for itself.
type InternalRange struct {
	// Name is its purpose, Field the field of OpenShift's Network.operator that changes it.
	Name, Field string
	CIDR        string
}

// Flannel is Flannel's configuration (key net-conf.json).
type Flannel struct {
	// Network is the range of pods.
	Network string
	// VNI and Port are those of VXLAN.
	VNI  uint32
	Port uint16
	// Name of the network on Windows; empty for Flannel's default.
	Name string
	// NetConf is the text of the configuration.
	NetConf string
}

// VXLANPort is the UDP port of VXLAN (RFC 7348), the default of Windows.
const VXLANPort = 4789

// OVNHostPrefix is the length of node prefixes that OVN-Kubernetes uses for IPv4 if its flags name none. This is always so on OpenShift, whose
// network operator does not pass on hostPrefix of the hybrid overlay.
const OVNHostPrefix = 24

// ParseSubnets reads ranges in the syntax of OVN-Kubernetes' flags, such as 10.132.0.0/14/23,fd02::/48/64, and rejects those that OVN-Kubernetes
// rejects. The default length of node prefixes is OVN-Kubernetes' own: 24 for IPv4, 64 for IPv6 (its documentation of --cluster-subnets).
func ParseSubnets(text string) (cidrs []string, hostPrefixes map[string]int, err error) {
	hostPrefixes = map[string]int{}
	lengthOfAll := 0
	for entry := range strings.SplitSeq(text, ",") {
		cidr, length, err := parseSubnet(strings.TrimSpace(entry))
		if err != nil {
			return nil, nil, err
		}
		if !isIPv6(cidr) {
			lengthOfAll = cmp.Or(lengthOfAll, length)
			if length != lengthOfAll {
				return nil, nil, fmt.Errorf("the IPv4 ranges in %.100q give nodes prefixes of different lengths, /%d and /%d; use one length",
					text, lengthOfAll, length)
			}
		}
		cidrs, hostPrefixes[cidr] = append(cidrs, cidr), length
	}
	return cidrs, hostPrefixes, nil
}

// parseSubnet parses one range.
func parseSubnet(entry string) (cidr string, hostPrefix int, err error) {
	cidr, length := entry, ""
	if parts := strings.SplitN(entry, "/", 3); len(parts) == 3 {
		cidr, length = parts[0]+"/"+parts[1], parts[2]
	}
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return "", 0, fmt.Errorf("%.100q is not a range such as 10.132.0.0/14/23", entry)
	}
	hostPrefix, longest := OVNHostPrefix, 31
	if prefix.Addr().Is6() {
		hostPrefix, longest = 64, 64
	}
	if length != "" {
		hostPrefix, err = strconv.Atoi(length)
	}
	if err != nil || hostPrefix <= prefix.Bits() || hostPrefix > longest || prefix.Addr().Is6() && hostPrefix != 64 {
		return "", 0, fmt.Errorf("%.100q is a range that cannot give nodes a /%.10s", entry, cmp.Or(length, strconv.Itoa(hostPrefix)))
	}
	return cidr, hostPrefix, nil
}

// FlannelConfig returns the name of the ConfigMap with Flannel's configuration.
func FlannelConfig(n v1alpha1.NetworkSpec) types.NamespacedName {
	var set v1alpha1.FlannelNetwork
	if n.Flannel != nil {
		set = *n.Flannel
	}
	return types.NamespacedName{
		Namespace: cmp.Or(set.Namespace, v1alpha1.FlannelNamespace), Name: cmp.Or(set.ConfigMap, v1alpha1.FlannelConfigMap),
	}
}

// FlannelConfigKey is the key in the ConfigMap.
const FlannelConfigKey = "net-conf.json"

// Provider returns the provider of the pod network: the configured one, or else the cluster's.
func Provider(n v1alpha1.NetworkSpec, openshift bool) v1alpha1.NetworkProvider {
	if n.Provider == "" && openshift {
		return v1alpha1.NetworkOVNHybridOverlay
	}
	return n.Provider
}

func (in Inputs) provider() v1alpha1.NetworkProvider {
	return Provider(in.Config.Network, in.Cluster.Network.OpenShift)
}

// ErrNetwork is the class of errors about networks with which no node could become ready.
var ErrNetwork = errors.New("network not configured")

// NetworkError is an ErrNetwork with its own reason.
type NetworkError struct {
	// Reason is one of the reasons of condition Configured.
	Reason  string
	Message string
}

// Error implements error.
func (e *NetworkError) Error() string { return e.Message }

// Is matches ErrNetwork.
func (e *NetworkError) Is(target error) bool { return target == ErrNetwork }

func networkError(reason, format string, args ...any) error {
	return &NetworkError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// netConf is the part of Flannel's configuration that is checked. Like Flannel, parsing ignores the case of field names.
type netConf struct {
	Network    string
	EnableIPv4 *bool
	EnableIPv6 bool
	Backend    struct {
		Type          string
		Name          string
		VNI           number
		Port          number
		DirectRouting bool
		GBP           bool
	}
}

// number is a field that should be a number. An invalid or too large value must not prevent the rest from being parsed.
type number struct {
	text string
	// value is -1 if the text is not an integer.
	value int64
}

// UnmarshalJSON accepts any JSON value.
func (n *number) UnmarshalJSON(text []byte) (err error) {
	n.text = fmt.Sprintf("%.40s", text)
	if n.value, err = strconv.ParseInt(string(text), 10, 64); err != nil {
		n.value = -1
	}
	return nil
}

// String returns the number as written.
func (n number) String() string {
	return cmp.Or(n.text, "not set")
}

// ParseFlannel reads net-conf.json. The configuration may still be unsuitable for Windows: Render rejects it then.
func ParseFlannel(text string) (Flannel, error) {
	conf, err := parseNetConf(text)
	if err != nil {
		return Flannel{}, err
	}
	f := Flannel{Network: conf.Network, NetConf: text, Name: conf.Backend.Name}
	if vni := conf.Backend.VNI.value; 0 <= vni && vni <= maxVNI {
		f.VNI = uint32(vni)
	}
	if port := conf.Backend.Port.value; 0 <= port && port <= 1<<16-1 {
		f.Port = uint16(port)
	}
	return f, nil
}

func parseNetConf(text string) (netConf, error) {
	var conf netConf
	if err := json.Unmarshal([]byte(text), &conf); err != nil {
		return netConf{}, networkError(api.ReasonFlannelUnsuitable, "parsing Flannel's configuration (%s): %v", FlannelConfigKey, err)
	}
	return conf, nil
}
