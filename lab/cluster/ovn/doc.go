// Package ovn runs the Linux side of OVN-Kubernetes' hybrid overlay in a cluster of the lab. It assigns subnets to Windows nodes,
// approves their certificates and protects the annotations of Nodes. It is either a stand-in, which behaves like the recordings in
// story/testdata, or, if their paths are set, OVN-Kubernetes' own programs. It shares no code with the product, so that the same
// mistake cannot hide in both.
//
// The stand-in does not implement networks other than the default one, leader election, events and metrics, nor what Linux nodes do
// with OVN and Open vSwitch.
package ovn

// Annotations of Nodes.
const (
	SubnetAnnotation      = "k8s.ovn.org/hybrid-overlay-node-subnet"
	NodeSubnetsAnnotation = "k8s.ovn.org/node-subnets"
	NodeIDAnnotation      = "k8s.ovn.org/node-id"
	TransitAnnotation     = "k8s.ovn.org/node-transit-switch-port-ifaddr"
	GatewayMACAnnotation  = "k8s.ovn.org/hybrid-overlay-distributed-router-gateway-mac"
	GatewayIPAnnotation   = "k8s.ovn.org/hybrid-overlay-distributed-router-gateway-ip"
	zoneAnnotation        = "k8s.ovn.org/zone-name"
	chassisAnnotation     = "k8s.ovn.org/node-chassis-id"
	hostCIDRsAnnotation   = "k8s.ovn.org/host-cidrs"
	encapAnnotation       = "k8s.ovn.org/node-encap-ips"
	primaryAnnotation     = "k8s.ovn.org/node-primary-ifaddr"
)

// The user name prefix and the group of OVN-Kubernetes' nodes in certificates.
const (
	UserPrefix = "system:ovn-node:"
	Group      = "system:ovn-nodes"
)
