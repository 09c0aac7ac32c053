// Package ovn is the Linux side of OVN-Kubernetes' hybrid overlay in a cluster of the lab: what gives Windows nodes their
// subnets, approves their certificates and guards the annotations of Nodes. It is either a stand-in, which behaves as the
// recordings in testdata say, or OVN-Kubernetes' own programs, where their paths are given. It shares no code with the
// product, so that the two cannot have the same misunderstanding.
//
// What is left out of the stand-in: networks other than the default one, leader election, events and metrics, and
// everything that Linux nodes do with OVN and Open vSwitch.
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

// Names of OVN-Kubernetes' nodes in certificates.
const (
	UserPrefix = "system:ovn-node:"
	Group      = "system:ovn-nodes"
)
