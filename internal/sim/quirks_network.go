package sim

import (
	"math/rand/v2"
	"time"
)

// NetworkQuirks are those of the Host Network Service: what it echoes, refuses, forgets and lists late.
type NetworkQuirks struct {
	// OmitsVNI, OmitsVXLANPort and OmitsAdapter leave that out of networks that the service returns. The policies of a network are what the
	// caller sent, and no document says which of them come back (OVN-Kubernetes compares type, prefix and gateway only).
	OmitsVNI, OmitsVXLANPort, OmitsAdapter bool
	// RenamesAdapter returns an adapter by the name of the virtual one on it, vEthernet (Ethernet), which has its address by then.
	RenamesAdapter bool
	// Adapters are the names of the host's adapters; nil allows any. A network on another, or on one that has a switch, is refused: 0x803B0006
	// (microsoft/SDN#300, "is already allocated to a vswitch").
	Adapters []string
	// NeedsAdapter refuses an overlay for which no adapter is named, which no document rules out.
	NeedsAdapter bool
	// ChoosesAddress is the host's address on the adapter that Windows chooses when none is named, on a host with several; empty for
	// HNSOptions.ManagementIP.
	ChoosesAddress string
	// RefusesHostRoute refuses the policy HostRoute, as builds before 18321 may (flannel, device_windows.go).
	RefusesHostRoute bool
	// ListsLate is how long lists lack every second object after the service has started: it reads HNS.data then.
	ListsLate time.Duration
	// OmitsAddresses and OmitsVIPs leave the addresses of endpoints and load balancers out of what the first generation of the API returns.
	OmitsAddresses, OmitsVIPs bool
	// ListsStale has the first generation of the API list a removed endpoint of a pod: another endpoint with one address, that of another
	// host (kubernetes#130963).
	ListsStale bool
	// Ports is the number of ports for load balancers, of which each takes 63 (AgentBaker, Adjust-DynamicPortRange); 0 is no limit.
	Ports int
	// StartsLate is how long the service takes to start. It is not running until the first call (Manual and stopped on Windows Server 2019,
	// K2s#593), which the service does not answer.
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
