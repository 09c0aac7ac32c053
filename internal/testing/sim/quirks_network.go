package sim

import (
	"math/rand/v2"
	"time"
)

// NetworkQuirks concern the Host Network Service: what it returns, rejects, loses and lists late.
type NetworkQuirks struct {
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
	// HNSOptions.ManagementIP.
	ChoosesAddress string
	// RefusesHostRoute rejects policy HostRoute, as builds before 18321 may (flannel, device_windows.go).
	RefusesHostRoute bool
	// ListsLate is how long lists lack every second object after the service has started, because it is still reading HNS.data.
	ListsLate time.Duration
	// OmitsAddresses and OmitsVIPs remove the addresses of endpoints and load balancers from the results of the first generation of the API.
	OmitsAddresses, OmitsVIPs bool
	// ListsStale makes the first generation of the API list a removed pod endpoint: a second endpoint with the same address, on another host
	// (kubernetes#130963).
	ListsStale bool
	// Ports is the number of ports for load balancers, each of which uses 63 (AgentBaker, Adjust-DynamicPortRange); 0 means no limit.
	Ports int
	// StartsLate is how long the service takes to start. The first call starts it and fails (Manual and stopped on Windows Server 2019, K2s#593).
	StartsLate time.Duration
}

func networkByChance(r *rand.Rand) NetworkQuirks {
	one := func(in int) bool { return r.IntN(in) == 0 }
	seconds := func(most int) time.Duration { return time.Duration(r.IntN(most)) * time.Second }
	q := NetworkQuirks{
		OmitsVNI: one(2), OmitsVXLANPort: one(2), OmitsAdapter: one(3), RenamesAdapter: one(2), NeedsAdapter: one(4), RefusesHostRoute: one(4),
		OmitsAddresses: one(6), OmitsVIPs: one(6), ListsStale: one(2),
	}
	if one(2) {
		q.ListsLate = seconds(30)
	}
	if one(2) {
		q.StartsLate = seconds(40)
	}
	if one(3) {
		q.Ports = 63 * (1 + r.IntN(250))
	}
	if !q.NeedsAdapter && one(2) {
		q.Adapters = []string{"Ethernet", "Ethernet 2"}
	}
	return q
}
