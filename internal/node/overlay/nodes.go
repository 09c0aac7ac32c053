package overlay

import (
	"encoding/json"
	"fmt"
)

// readNode reads the fields of a Node that the overlay needs. All others are skipped, so that the memory use does not depend on the size of Nodes.
func readNode(text json.RawMessage) (Node, error) {
	var o struct {
		Metadata struct {
			Name   string `json:"name"`
			Labels struct {
				OS string `json:"kubernetes.io/os"`
			} `json:"labels"`
			Annotations struct {
				Subnet       string `json:"k8s.ovn.org/hybrid-overlay-node-subnet"`
				LinuxSubnets string `json:"k8s.ovn.org/node-subnets"`
				RouterMAC    string `json:"k8s.ovn.org/hybrid-overlay-distributed-router-gateway-mac"`
			} `json:"annotations"`
		} `json:"metadata"`
		Status struct {
			Addresses []struct {
				Type    string `json:"type"`
				Address string `json:"address"`
			} `json:"addresses"`
		} `json:"status"`
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return Node{}, fmt.Errorf("reading a Node: %w", err)
	}
	m := o.Metadata
	n := Node{
		Name: m.Name, Windows: m.Labels.OS == "windows",
		Subnet: m.Annotations.Subnet, LinuxSubnets: m.Annotations.LinuxSubnets, RouterMAC: m.Annotations.RouterMAC,
	}
	for _, a := range o.Status.Addresses {
		if a.Type == "InternalIP" {
			n.InternalIPs = append(n.InternalIPs, a.Address)
		}
	}
	return n, nil
}
