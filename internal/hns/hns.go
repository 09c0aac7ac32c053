// Package hns has the networks, endpoints and load balancers of Windows' Host Network Service as values. Nothing here calls
// Windows: each user of the service has its own port, which package win implements on Windows and package sim elsewhere.
//
// The names are those of the Host Compute Network API
// (https://learn.microsoft.com/windows-server/networking/technologies/hcn/hcn-top), of which only what we use is here.
package hns

import (
	"errors"
	"net/netip"
)

// NetworkType is how a network reaches other hosts.
type NetworkType string

// Overlay puts packets between hosts into VXLAN.
const Overlay NetworkType = "Overlay"

// L2Bridge is a network whose endpoints are in the range of the host's own, or have routes to it, without encapsulation.
const L2Bridge NetworkType = "L2Bridge"

// Network is a virtual switch on an adapter of the host.
type Network struct {
	// ID is a GUID in lower case, which Windows gives when the network is created.
	ID   string
	Name string
	Type NetworkType
	// Subnets are the ranges whose addresses its endpoints have.
	Subnets []Subnet
	// Adapter is the name (alias) of the interface that carries it; empty where Windows chose one.
	Adapter string
	// VXLANPort is the UDP port of an overlay; 0 is Windows' own, 4789. Only later builds than 17763 can have another.
	VXLANPort uint16
	// Remotes are the subnets that other hosts have in an overlay. Their order means nothing.
	Remotes []RemoteSubnet
	// HostRoute is true when the host itself can reach the endpoints of an overlay.
	HostRoute bool
	// AutomaticDNS gives endpoints the name servers of the host.
	AutomaticDNS bool
	// Persistent is true of a network that is still there after Windows has restarted.
	Persistent bool
	// RouterMAC is the address of the overlay's distributed router on this host, such as 00-15-5D-0A-0B-0C, and ManagementIP the
	// host's address on the adapter. Windows sets both some time after the network was created.
	RouterMAC    string
	ManagementIP netip.Addr
}

// HasAddresses says whether Windows has set the addresses of an overlay: the router's, which other nodes need, and the host's own, which
// the files of CNI and kube-proxy need.
func (n Network) HasAddresses() bool { return n.RouterMAC != "" && n.ManagementIP.IsValid() }

// DefaultVXLANPort is the UDP port that an overlay of Windows has when it is given none.
const DefaultVXLANPort = 4789

// OwnVXLANPort is a port as Network.VXLANPort has it: 0 for Windows' own.
func OwnVXLANPort(port uint16) uint16 {
	if port == DefaultVXLANPort {
		return 0
	}
	return port
}

// Subnet is a range of addresses of a network.
type Subnet struct {
	Prefix netip.Prefix
	// Gateway is the address of the router within it.
	Gateway netip.Addr
	// VNI is the virtual network identifier of an overlay, 4096 or more; 0 for other types.
	VNI uint32
}

// RemoteSubnet is the destination of packets to a subnet of another host. It can be compared.
type RemoteSubnet struct {
	Prefix netip.Prefix
	VNI    uint32
	// Host is the address of the other host, RouterMAC that of the distributed router on it, as in Network.
	Host      netip.Addr
	RouterMAC string
}

// Endpoint is a port of a network: of a pod, of the host itself, or of a pod on another host.
type Endpoint struct {
	// ID is a GUID in lower case; Network is that of its network.
	ID, Network string
	Name        string
	Address     netip.Addr
	MAC         string
	// Remote is true for an endpoint of another host: kube-proxy creates these as targets of load balancers.
	Remote bool
	// Namespace is the GUID of the network namespace it is in; empty when it is in none.
	Namespace string
	// Host is true of an endpoint that is to be in the host's own compartment.
	Host bool
}

// LoadBalancer is a rule that gives packets to an address and port to one of some endpoints.
type LoadBalancer struct {
	ID string
	// VIPs are the addresses that clients use; none means any address of the host (a NodePort).
	VIPs []netip.Addr
	// SourceVIP is what packets to endpoints of other hosts come from in an overlay.
	SourceVIP netip.Addr
	// Endpoints are IDs.
	Endpoints []string
	Protocol  Protocol
	// External is the port that clients use, Internal that of the endpoints.
	External, Internal uint16
	// DSR is true when answers go directly to the client.
	DSR bool
}

// Protocol is a number of IANA's, as load balancers have it.
type Protocol uint8

// Protocols that Services use on Windows.
const (
	TCP Protocol = 6
	UDP Protocol = 17
)

// State is what the service has at one time.
type State struct {
	Networks      []Network
	Endpoints     []Endpoint
	LoadBalancers []LoadBalancer
}

// Errors of the ports, so that callers need not know Windows' codes.
var (
	// ErrNotFound: the object is not there.
	ErrNotFound = errors.New("no such object in the Host Network Service")
	// ErrExists: another object has its name, address or port (0xb7, 0x803b0013).
	ErrExists = errors.New("an object of the Host Network Service is in the way")
	// ErrAdapter: there is no adapter for the network: none has its name, or the one that does has a switch (0x803b0006).
	ErrAdapter = errors.New("the Host Network Service finds no adapter for the network")
	// ErrUnavailable: the service does not answer (it is stopped or starting), so that the state of objects is unknown.
	ErrUnavailable = errors.New("the Host Network Service does not answer")
)
