// Package hns models the networks, endpoints and load balancers of Windows' Host Network Service as values. It does not call Windows: each user of
// the service has its own port, which package win implements on Windows and package sim elsewhere.
//
// The names are those of the Host Compute Network API (https://learn.microsoft.com/windows-server/networking/technologies/hcn/hcn-top), of which
// this package has only what is used.
package hns

import (
	"errors"
	"net/netip"
	"time"
)

// IncompleteFor is how long the service may not have read all its objects after it has started: until then, they may be found neither in its lists
// nor by ID. Windows documents no limit.
const IncompleteFor = 30 * time.Second

// NetworkType is how a network reaches other hosts.
type NetworkType string

// Overlay encapsulates packets between hosts in VXLAN.
const Overlay NetworkType = "Overlay"

// L2Bridge is a network whose endpoints have addresses in the host's own subnet, or routes to it, without encapsulation.
const L2Bridge NetworkType = "L2Bridge"

// Network is a virtual switch on an adapter of the host.
type Network struct {
	// ID is a lower-case GUID that Windows assigns when the network is created.
	ID   string
	Name string
	Type NetworkType
	// Subnets are the address ranges of the endpoints.
	Subnets []Subnet
	// Adapter is the name (alias) of the network's interface; empty if Windows chose it.
	Adapter string
	// VXLANPort is the UDP port of an overlay; 0 means Windows' default, 4789. Other ports need a build later than 17763.
	VXLANPort uint16
	// Remotes are the subnets of other hosts in an overlay, in no particular order.
	Remotes []RemoteSubnet
	// HostRoute is true when the host itself can reach the endpoints of an overlay.
	HostRoute bool
	// AutomaticDNS gives endpoints the name servers of the host.
	AutomaticDNS bool
	// Persistent is true for a network that survives a restart of Windows.
	Persistent bool
	// RouterMAC is the address of the overlay's distributed router on this host, such as 00-15-5D-0A-0B-0C, and ManagementIP the host's address on
	// the adapter. Windows sets both some time after the network was created.
	RouterMAC    string
	ManagementIP netip.Addr
}

// HasAddresses reports whether Windows has set the addresses of an overlay: the router's, which other nodes need, and the host's own, which the CNI
// files and kube-proxy need.
func (n Network) HasAddresses() bool { return n.RouterMAC != "" && n.ManagementIP.IsValid() }

// DefaultVXLANPort is the UDP port of an overlay in Windows if none is given.
const DefaultVXLANPort = 4789

// OwnVXLANPort returns a port in the form of Network.VXLANPort: 0 for Windows' default.
func OwnVXLANPort(port uint16) uint16 {
	if port == DefaultVXLANPort {
		return 0
	}
	return port
}

// Subnet is an address range of a network.
type Subnet struct {
	Prefix netip.Prefix
	// Gateway is the address of the router within it.
	Gateway netip.Addr
	// VNI is the virtual network identifier of an overlay, 4096 or more; 0 for other types.
	VNI uint32
}

// RemoteSubnet is the destination of packets to a subnet of another host. It is comparable.
type RemoteSubnet struct {
	Prefix netip.Prefix
	VNI    uint32
	// Host is the address of the other host, RouterMAC that of its distributed router, as in Network.
	Host      netip.Addr
	RouterMAC string
}

// Endpoint is a port of a network: of a pod, of the host itself, or of a pod on another host.
type Endpoint struct {
	// ID is a lower-case GUID; Network is its network's ID.
	ID, Network string
	Name        string
	Address     netip.Addr
	MAC         string
	// Remote is true for an endpoint on another host: kube-proxy creates these as targets of load balancers.
	Remote bool
	// Namespace is the GUID of the endpoint's network namespace; empty when it has none.
	Namespace string
	// Host is true for an endpoint in the host's own compartment.
	Host bool
}

// LoadBalancer is a rule that distributes packets to an address and port among endpoints.
type LoadBalancer struct {
	ID string
	// VIPs are the addresses that clients use; none means any address of the host (a NodePort).
	VIPs []netip.Addr
	// SourceVIP is the source address of packets to endpoints on other hosts in an overlay.
	SourceVIP netip.Addr
	// Endpoints are IDs.
	Endpoints []string
	Protocol  Protocol
	// External is the port that clients use, Internal the port of the endpoints.
	External, Internal uint16
	// DSR is true when answers go directly to the client.
	DSR bool
}

// Protocol is an IANA protocol number, as in load balancers.
type Protocol uint8

// Protocols of the Kubernetes API. kube-proxy requests load balancers for SCTP from Windows; whether they are created depends on Windows.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

// ProtocolOf returns the protocol with a name of the Kubernetes API, such as TCP.
func ProtocolOf(name string) (p Protocol, known bool) {
	switch name {
	case "TCP":
		return TCP, true
	case "UDP":
		return UDP, true
	case "SCTP":
		return SCTP, true
	}
	return 0, false
}

// State is a snapshot of the service's objects.
type State struct {
	Networks      []Network
	Endpoints     []Endpoint
	LoadBalancers []LoadBalancer
}

// Errors of the ports, so that callers need not know Windows' codes.
var (
	// ErrNotFound means that the object does not exist.
	ErrNotFound = errors.New("no such object in the Host Network Service")
	// ErrExists means that another object has its name, address or port (0xb7, 0x803b0013).
	ErrExists = errors.New("a conflicting object exists in the Host Network Service")
	// ErrAdapter means that there is no adapter for the network: none has its name, or the one that has it already has a switch (0x803b0006).
	ErrAdapter = errors.New("the Host Network Service found no adapter for the network")
	// ErrUnavailable means that the service does not answer (it is stopped or starting), so that the state of objects is unknown.
	ErrUnavailable = errors.New("the Host Network Service does not respond")
)
