// Package hnsquirks has the quirks of Windows' Host Network Service that both of its simulations can have: internal/testing/sim, in memory, and
// lab/windows/hns, for programs on Wine.
package hnsquirks

import (
	"slices"
	"strings"
	"time"
)

// Quirks concern the Host Network Service: what it returns, rejects, loses and lists late.
type Quirks struct {
	// OmitsVNI, OmitsVXLANPort and OmitsAdapter remove that from networks that the service returns. The policies of a network are what the caller
	// sent, and it is not documented which of them are returned (OVN-Kubernetes compares only type, prefix and gateway).
	OmitsVNI, OmitsVXLANPort, OmitsAdapter bool
	// RenamesAdapter returns the adapter by the name of the virtual one on it, vEthernet (Ethernet), which has its address by then.
	RenamesAdapter bool
	// Adapters are the names of the host's adapters; nil allows any. A network on another adapter, or on one that has a switch, is rejected with
	// 0x803B0006 (microsoft/SDN#300, "is already allocated to a vswitch").
	Adapters []string
	// NeedsAdapter rejects an overlay without an adapter name. The documentation does not rule that out.
	NeedsAdapter bool
	// ChoosesAddress is the host's address on the adapter that Windows chooses if none is named, on a host with several; empty for
	// sim.HNSOptions.ManagementIP. lab/windows/hns does not have it: the address belongs to the host.
	ChoosesAddress string
	// RefusesHostRoute rejects policy HostRoute, as builds before 18321 may (flannel, device_windows.go).
	RefusesHostRoute bool
	// ListsLate is how long lists lack every second object after the service has started, because it is still reading HNS.data: in the second
	// generation of the API the list of networks, in the first one all lists.
	ListsLate time.Duration
	// FindsLate means that, as long as that, the other lists of the second generation lack every second object, too, and that no generation finds
	// those by their IDs. lab/windows/hns does not have it: its objects are found by ID.
	FindsLate bool
	// OmitsAddresses and OmitsVIPs remove the addresses of endpoints and load balancers from the results of the first generation of the API.
	OmitsAddresses, OmitsVIPs bool
	// OmitsACLPorts removes the ports from the ACLs of endpoints that the service returns. Which fields it returns is not documented.
	OmitsACLPorts bool
	// UpdatesByType makes an update of an endpoint's policies keep those of types that the update does not have, as Calico's CNI plugin relies on
	// (dataplane_windows.go), and hcsshim's documents exclude. Only lab/windows/hns has it.
	UpdatesByType bool
	// ListsStale makes the first generation of the API list a removed pod endpoint: a second endpoint with the same address, on another host
	// (kubernetes#130963).
	ListsStale bool
	// Ports is the number of ports for load balancers, each of which uses 63 (AgentBaker, Adjust-DynamicPortRange); 0 means no limit.
	Ports int
	// StartsLate is how long the service takes to start. The first call starts it and fails (Manual and stopped on Windows Server 2019, K2s#593).
	// lab/windows/hns does not have it: the service belongs to the host.
	StartsLate time.Duration
}

// CanBind reports whether the service creates a network on an adapter; "" is none in particular. Bound are the adapters of the other networks.
func (q Quirks) CanBind(adapter string, isOverlay bool, bound []string) bool {
	isSame := func(name string) bool { return strings.EqualFold(name, adapter) }
	switch {
	case adapter == "":
		return !q.NeedsAdapter || !isOverlay
	case q.Adapters == nil:
		return true
	}
	return slices.ContainsFunc(q.Adapters, isSame) && !slices.ContainsFunc(bound, isSame)
}

// HasPorts reports whether there are ports for another load balancer.
func (q Quirks) HasPorts(balancers int) bool {
	const each = 63
	return q.Ports == 0 || (balancers+1)*each <= q.Ports
}

// EverySecond returns what a list has that is late.
func EverySecond[T any](all []T) []T {
	half := []T{}
	for i := 1; i < len(all); i += 2 {
		half = append(half, all[i])
	}
	return half
}
