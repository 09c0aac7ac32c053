package desired

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// FirewallRule lets in what is sent to some ports of the host.
type FirewallRule struct {
	// Name by which people find the rule. No two rules of a node have the same.
	Name string `json:"name"`
	// Protocol is TCP or UDP.
	Protocol string `json:"protocol"`
	// Ports are those of the host.
	Ports []uint16 `json:"ports"`
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
)

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
	return rules
}

// AllowFrom are the ranges of addresses from which nodes are called, ordered and without those that are within others; none for
// everybody's. What is no range is an ErrNetwork.
func AllowFrom(n v1alpha1.NetworkSpec) ([]string, error) {
	var ranges []netip.Prefix
	for _, text := range n.AllowFrom {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() || p.Bits() == 0 {
			return nil, fmt.Errorf("%w: %s.allowFrom has %.100q, which is no range of addresses such as 10.0.0.0/16; remove all of it to let everybody in",
				ErrNetwork, networkField, text)
		}
		ranges = append(ranges, p.Masked())
	}
	slices.SortFunc(ranges, netip.Prefix.Compare)
	var list []string
	for _, p := range slices.Compact(ranges) {
		within := func(other netip.Prefix) bool {
			return other != p && other.Bits() <= p.Bits() && other.Contains(p.Addr())
		}
		if !slices.ContainsFunc(ranges, within) {
			list = append(list, p.String())
		}
	}
	return list, nil
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
