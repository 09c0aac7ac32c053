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

// ClusterNetwork is what is known of the cluster's pod network.
type ClusterNetwork struct {
	// OpenShift says that the cluster is one; Platform is its name of where it runs (AWS, VSphere, ...).
	OpenShift bool
	Platform  string
	// Type is OpenShift's name of the network: OVNKubernetes.
	Type string
	// PodCIDRs are the ranges of pods on Linux nodes with OVN-Kubernetes, and of all pods elsewhere. Empty where nobody tells.
	PodCIDRs []string
	// ServiceCIDRs are the ranges of Services of both families, as OpenShift has them.
	ServiceCIDRs []string
	// HybridCIDRs are the ranges of pods on Windows nodes with OVN-Kubernetes, as it gets them: OpenShift passes on its first entry only.
	HybridCIDRs []string
	// HybridUnused are OpenShift's other entries.
	HybridUnused []string
	// HybridFault is what is wrong with OpenShift's entry or its port, so that it cannot be read.
	HybridFault string
	// HostPrefixes are the lengths of the prefixes that OVN-Kubernetes gives nodes, by range. Where nobody tells there is none.
	HostPrefixes map[string]int
	// Internal are ranges that OVN-Kubernetes has for itself, so that the hybrid overlay cannot have them.
	Internal []InternalRange
	// HybridOverlay is the hybridOverlayConfig of OpenShift's Network.operator, as JSON; empty where there is none.
	HybridOverlay string
	// VXLANPort is the UDP port of the hybrid overlay; 0 is Windows' own, 4789.
	VXLANPort uint16
	// Flannel is nil with other providers, and where its configuration is not there.
	Flannel *Flannel
	// Nodes is what the cluster's Nodes show of their network.
	Nodes NodeNetworks
}

// InternalRange is a range that OVN-Kubernetes has for itself.
type InternalRange struct {
	// Name is what it is for, Field the one of OpenShift's Network.operator with which it is changed.
	Name, Field string
	CIDR        string
}

// Flannel is what its configuration (key net-conf.json) says.
type Flannel struct {
	// Network is the range of pods.
	Network string
	// VNI and Port are those of VXLAN.
	VNI  uint32
	Port uint16
	// Name is what Windows shall call the network; empty for Flannel's own choice.
	Name string
	// NetConf is the configuration itself.
	NetConf string
}

// VXLANPort is the UDP port of VXLAN (RFC 7348), which Windows uses where it is not told another.
const VXLANPort = 4789

// OVNHostPrefix is the length of nodes' prefixes that OVN-Kubernetes uses for IPv4 where its flags name none: always on OpenShift, whose network
// operator passes on no hostPrefix of the hybrid overlay.
const OVNHostPrefix = 24

// ParseSubnets reads ranges as OVN-Kubernetes' flags have them, as 10.132.0.0/14/23,fd02::/48/64, and refuses those that it refuses. A length of
// nodes' prefixes that is left out is OVN-Kubernetes' own: 24 of IPv4, 64 of IPv6 (its documentation of --cluster-subnets).
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
				return nil, nil, fmt.Errorf("the IPv4 ranges in %.100q give nodes prefixes of different lengths, /%d and /%d; one is allowed",
					text, lengthOfAll, length)
			}
		}
		cidrs, hostPrefixes[cidr] = append(cidrs, cidr), length
	}
	return cidrs, hostPrefixes, nil
}

// parseSubnet reads one range.
func parseSubnet(entry string) (cidr string, hostPrefix int, err error) {
	cidr, length := entry, ""
	if parts := strings.SplitN(entry, "/", 3); len(parts) == 3 {
		cidr, length = parts[0]+"/"+parts[1], parts[2]
	}
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return "", 0, fmt.Errorf("%.100q is no range such as 10.132.0.0/14/23", entry)
	}
	hostPrefix, longest := OVNHostPrefix, 31
	if prefix.Addr().Is6() {
		hostPrefix, longest = 64, 64
	}
	if length != "" {
		hostPrefix, err = strconv.Atoi(length)
	}
	if err != nil || hostPrefix <= prefix.Bits() || hostPrefix > longest || prefix.Addr().Is6() && hostPrefix != 64 {
		return "", 0, fmt.Errorf("%.100q is a range of which no node can have a /%.10s", entry, cmp.Or(length, strconv.Itoa(hostPrefix)))
	}
	return cidr, hostPrefix, nil
}

// FlannelConfig names the ConfigMap with Flannel's configuration.
func FlannelConfig(n v1alpha1.NetworkSpec) types.NamespacedName {
	var set v1alpha1.FlannelNetwork
	if n.Flannel != nil {
		set = *n.Flannel
	}
	return types.NamespacedName{
		Namespace: cmp.Or(set.Namespace, v1alpha1.FlannelNamespace), Name: cmp.Or(set.ConfigMap, v1alpha1.FlannelConfigMap),
	}
}

// FlannelConfigKey is the key of the ConfigMap.
const FlannelConfigKey = "net-conf.json"

// Provider is the provider of the pod network: what the user sets, or what the cluster has.
func Provider(n v1alpha1.NetworkSpec, openshift bool) v1alpha1.NetworkProvider {
	if n.Provider == "" && openshift {
		return v1alpha1.NetworkOVNHybridOverlay
	}
	return n.Provider
}

// provider is that of a Node.
func (in Inputs) provider() v1alpha1.NetworkProvider {
	return Provider(in.Config.Network, in.Cluster.Network.OpenShift)
}

// ErrNetwork is the class of errors about networks with which no node could become ready.
var ErrNetwork = errors.New("network not configured")

// NetworkError is an ErrNetwork with a reason of its own.
type NetworkError struct {
	// Reason is one of the reasons of condition Configured.
	Reason  string
	Message string
}

// Error makes NetworkError an error.
func (e *NetworkError) Error() string { return e.Message }

// Is makes it an ErrNetwork.
func (e *NetworkError) Is(target error) bool { return target == ErrNetwork }

func networkError(reason, format string, args ...any) error {
	return &NetworkError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// netConf is the part of Flannel's configuration that we look at. Flannel reads names of fields in any case, as this does.
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

// number is what somebody wrote for a number. One that is none, or too large, must not keep the rest from being read.
type number struct {
	text string
	// value is -1 for what is no number of a port or a network.
	value int64
}

// UnmarshalJSON reads any JSON.
func (n *number) UnmarshalJSON(text []byte) (err error) {
	n.text = fmt.Sprintf("%.40s", text)
	if n.value, err = strconv.ParseInt(string(text), 10, 64); err != nil {
		n.value = -1
	}
	return nil
}

// String is the number as it was written.
func (n number) String() string {
	return cmp.Or(n.text, "not set")
}

// ParseFlannel reads net-conf.json. What it says may still be unfit for Windows: Render refuses it then.
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
		return netConf{}, networkError(api.ReasonFlannelUnsuitable, "Flannel's configuration (%s) cannot be read: %v", FlannelConfigKey, err)
	}
	return conf, nil
}
