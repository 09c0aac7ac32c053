package desired

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
)

// FirewallRule admits traffic to some ports of the host.
type FirewallRule struct {
	// Name of the rule, unique within a node.
	Name string `json:"name"`
	// Protocol is TCP or UDP.
	Protocol string `json:"protocol"`
	// Ports of the host; if empty, all on which Program listens.
	Ports []uint16 `json:"ports,omitempty"`
	// Program is the path of the only program that receives the packets; empty for any.
	Program string `json:"program,omitempty"`
	// From are the source ranges, in canonical form; empty for any source.
	From []string `json:"from,omitempty"`
}

// Protocols of rules.
const (
	TCP = "TCP"
	UDP = "UDP"
)

// Ports on which a node accepts connections.
const (
	sshPort      = 22
	kubeletPort  = 10250 // logs, exec, metrics of pods
	exporterPort = 9182
	proxyPort    = 10256 // health of kube-proxy, its default healthzBindAddress
)

func tcpPorts() []uint16 { return []uint16{sshPort, kubeletPort, exporterPort, proxyPort} }

// firewall returns the rules for services of the node. Users with a network of their own open its ports themselves. The user's ranges do not
// apply to traffic between pods, which comes from all nodes, whose addresses are not listed anywhere.
func firewall(in Inputs) []FirewallRule {
	from, _ := AllowFrom(in.Config.Network) // checkAllowFrom has checked it
	rules := []FirewallRule{
		{Name: ServiceDescription("SSH"), Protocol: TCP, Ports: []uint16{sshPort}, From: from},
		{Name: ServiceDescription(KubeletService), Protocol: TCP, Ports: []uint16{kubeletPort}, From: from},
	}
	if has(in.Payload, exporterProgram) {
		rules = append(rules, FirewallRule{Name: ServiceDescription(ExporterService), Protocol: TCP, Ports: []uint16{exporterPort}, From: from})
	}
	if port := overlayPort(in); port != 0 {
		rules = append(rules, FirewallRule{Name: ServiceDescription("VXLAN"), Protocol: UDP, Ports: []uint16{port}})
	}
	return append(rules, healthChecks(in, from)...)
}

// healthChecks returns rules that let load balancers outside of the cluster query kube-proxy for the node's health. Node ports need no rule:
// the virtual switch translates them before the firewall. kube-proxy itself listens on its health port, and on one port for each Service
// with externalTrafficPolicy Local. Kubernetes chooses the latter, so one rule covers all ports on which kube-proxy, and no other program,
// listens. The rule for the node's health names no program, because a file with several names may be known to Windows by another one.
func healthChecks(in Inputs, from []string) []FirewallRule {
	custom := in.Config.Network.Custom
	if in.Config.Network.Provider == v1alpha1.NetworkCustom && (custom == nil || custom.KubeProxy != v1alpha1.KubeProxyManaged) {
		return nil
	}
	if len(from) > 0 {
		// A list of allowed sources must not block the platform's health checks, whose ranges are documented and fixed.
		from, _ = normalizeRanges(append(platform.Of(in.Cluster.Network.Platform).HealthChecks, from...))
	}
	name := ServiceDescription(KubeProxyService)
	return []FirewallRule{
		{Name: name, Protocol: TCP, Ports: []uint16{proxyPort}, From: from},
		{Name: name + " of Services", Protocol: TCP, Program: VersionFolder(in.Payload.Digest) + `\` + proxyProgram, From: from},
	}
}

// AllowFrom returns the ranges of addresses that may connect to nodes, ordered and without those within others; none if any may. An invalid
// range is an ErrNetwork.
func AllowFrom(n v1alpha1.NetworkSpec) ([]string, error) {
	list, bad := normalizeRanges(n.AllowFrom)
	if bad != "" {
		return nil, fmt.Errorf("%w: %s.allowFrom has %.100s, which is not an address range such as 10.0.0.0/16; remove allowFrom to allow all addresses",
			ErrNetwork, networkField, bad)
	}
	return list, nil
}

// normalizeRanges sorts ranges of addresses and removes those within others. bad is the first invalid one, quoted.
func normalizeRanges(texts []string) (list []string, bad string) {
	var ranges []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() || p.Bits() == 0 {
			return nil, strconv.Quote(text)
		}
		ranges = append(ranges, p.Masked())
	}
	slices.SortFunc(ranges, netip.Prefix.Compare)
	for _, p := range slices.Compact(ranges) {
		within := func(other netip.Prefix) bool {
			return other != p && other.Bits() <= p.Bits() && other.Contains(p.Addr())
		}
		if !slices.ContainsFunc(ranges, within) {
			list = append(list, p.String())
		}
	}
	return list, ""
}

func checkAllowFrom(in Inputs) error {
	_, err := AllowFrom(in.Config.Network)
	return err
}

// overlayPort returns the UDP port on which other nodes send packets for pods; 0 if the network has no known port.
func overlayPort(in Inputs) uint16 {
	switch in.Config.Network.Provider {
	case v1alpha1.NetworkOVNHybridOverlay:
		return cmp.Or(in.Cluster.Network.VXLANPort, VXLANPort)
	case v1alpha1.NetworkFlannel:
		if f := in.Cluster.Network.Flannel; f != nil {
			return cmp.Or(f.Port, VXLANPort)
		}
		return VXLANPort
	}
	return 0
}

// ListenPorts returns the TCP ports on which programs of the node listen.
func (n Node) ListenPorts() []uint16 {
	ports := []uint16{RegistryPort}
	for _, r := range n.Firewall {
		if r.Protocol == TCP {
			ports = append(ports, r.Ports...)
		}
	}
	return ports
}
