package desired

import (
	"cmp"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// FirewallRule lets in what is sent to some ports of the host, by whomever.
type FirewallRule struct {
	// Name by which people find the rule. No two rules of a node have the same.
	Name string `json:"name"`
	// Protocol is TCP or UDP.
	Protocol string `json:"protocol"`
	// Ports are those of the host.
	Ports []uint16 `json:"ports"`
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
func firewall(in Inputs) []FirewallRule {
	rules := []FirewallRule{
		{Name: ServiceDescription("SSH"), Protocol: TCP, Ports: []uint16{sshPort}},
		{Name: ServiceDescription("kubelet"), Protocol: TCP, Ports: []uint16{kubeletPort}},
	}
	if has(in.Payload, exporterProgram) {
		rules = append(rules, FirewallRule{Name: ServiceDescription("windows_exporter"), Protocol: TCP, Ports: []uint16{exporterPort}})
	}
	if port := overlayPort(in); port != 0 {
		rules = append(rules, FirewallRule{Name: ServiceDescription("VXLAN"), Protocol: UDP, Ports: []uint16{port}})
	}
	return rules
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
