package desired

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/platform"
)

// FirewallRule lets in what is sent to some ports of the host.
type FirewallRule struct {
	// Name by which people find the rule. No two rules of a node have the same.
	Name string `json:"name"`
	// Protocol is TCP or UDP.
	Protocol string `json:"protocol"`
	// Ports are those of the host; none for all on which Program listens.
	Ports []uint16 `json:"ports,omitempty"`
	// Program is the path of the only program that gets the packets; empty for any.
	Program string `json:"program,omitempty"`
	// From are ranges of addresses, without bits beyond their prefixes, whose packets are let in; empty for those of everybody.
	From []string `json:"from,omitempty"`
}

// The protocols of rules.
const (
	TCP = "TCP"
	UDP = "UDP"
)

// Ports on which a node is called.
const (
	sshPort      = 22
	kubeletPort  = 10250 // logs, exec, metrics of pods
	exporterPort = 9182
	proxyPort    = 10256 // whether kube-proxy works, its default healthzBindAddress
)

func tcpPorts() []uint16 { return []uint16{sshPort, kubeletPort, exporterPort, proxyPort} }

// firewall is what the host's firewall lets in for services of the node. A user of a network of its own opens its ports by himself.
// Packets between pods come from all nodes, whose addresses nobody lists: the user's ranges are not for them.
func firewall(in Inputs) []FirewallRule {
	from, _ := AllowFrom(in.Config.Network) // checkAllowFrom saw to it
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

// healthChecks let load balancers outside of the cluster ask kube-proxy whether the node serves. Node ports need no rule: the virtual switch
// translates them before the firewall. What kube-proxy listens on by itself is different: its health, and a port for each Service with
// externalTrafficPolicy Local. Kubernetes chooses those, so kube-proxy gets what is sent to any port of its own, and no other program does.
// The health of the node has a rule without the program: it must not depend on the name by which Windows knows a file with several.
func healthChecks(in Inputs, from []string) []FirewallRule {
	custom := in.Config.Network.Custom
	if in.Config.Network.Provider == v1alpha1.NetworkCustom && (custom == nil || custom.KubeProxy != v1alpha1.KubeProxyManaged) {
		return nil
	}
	if len(from) > 0 {
		// A list that names who may call the node keeps out nobody who has to: those of the platform are documented and fixed.
		from, _ = orderRanges(append(platform.Of(in.Cluster.Network.Platform).HealthChecks, from...))
	}
	name := ServiceDescription(KubeProxyService)
	return []FirewallRule{
		{Name: name, Protocol: TCP, Ports: []uint16{proxyPort}, From: from},
		{Name: name + " of Services", Protocol: TCP, Program: VersionFolder(in.Payload.Digest) + `\` + proxyProgram, From: from},
	}
}

// AllowFrom are the ranges of addresses from which nodes are called, ordered and without those that are within others; none for
// everybody's. What is no range is an ErrNetwork.
func AllowFrom(n v1alpha1.NetworkSpec) ([]string, error) {
	list, bad := orderRanges(n.AllowFrom)
	if bad != "" {
		return nil, fmt.Errorf("%w: %s.allowFrom has %.100s, which is no range of addresses such as 10.0.0.0/16; remove all of it to let everybody in",
			ErrNetwork, networkField, bad)
	}
	return list, nil
}

// orderRanges orders ranges of addresses and leaves out those that are within others. bad is the first that is none, quoted.
func orderRanges(texts []string) (list []string, bad string) {
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

// overlayPort is the UDP port on which other nodes send packets for pods; 0 with a network that has none that is known.
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

// Listened are the ports of TCP on which programs of the node listen.
func (n Node) Listened() []uint16 {
	ports := []uint16{RegistryPort}
	for _, r := range n.Firewall {
		if r.Protocol == TCP {
			ports = append(ports, r.Ports...)
		}
	}
	return ports
}
