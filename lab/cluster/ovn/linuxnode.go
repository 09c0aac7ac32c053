package ovn

import (
	"encoding/json"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// LinuxAnnotations returns the annotations that OVN-Kubernetes' program on a Linux node writes on its Node, without those that do not
// affect Windows nodes. The gateway of the hybrid overlay has the third address of the node's subnet, and a MAC address that is derived
// from it. The node's own network is assumed to have prefix length 24.
func LinuxAnnotations(n *corev1.Node, hybridOverlay bool) (Changes, error) {
	subnets := nodeSubnets(n)
	if len(subnets) == 0 {
		return nil, fmt.Errorf("Node %s has no subnet", n.Name)
	}
	address, err := netip.ParseAddr(internalIP(n))
	if err != nil || !address.Is4() || !subnets[0].Addr().Is4() {
		return nil, fmt.Errorf("Node %s has no IPv4 address or subnet", n.Name)
	}
	list := func(v ...string) string { text, _ := json.Marshal(v); return string(text) }
	primary, _ := json.Marshal(map[string]string{"ipv4": address.String() + "/24"})
	c := Changes{GatewayIPAnnotation: nil, GatewayMACAnnotation: nil}
	c.set(zoneAnnotation, n.Name)
	c.set(hostCIDRsAnnotation, list(address.String()+"/24"))
	c.set(encapAnnotation, list(address.String()))
	c.set(primaryAnnotation, string(primary))
	if n.Annotations[chassisAnnotation] == "" { // cannot be changed later
		c.set(chassisAnnotation, "7d4a1b6e-0000-4000-8000-"+fmt.Sprintf("%012x", address.As4()))
	}
	if hybridOverlay {
		gateway := subnets[0].Addr().Next().Next().Next()
		b := gateway.As4()
		c.set(GatewayIPAnnotation, gateway.String())
		c.set(GatewayMACAnnotation, fmt.Sprintf("0a:58:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3]))
	}
	return c, nil
}

func internalIP(n *corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}
