package sim

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// AdapterQuirks concern the host's own adapter: its name, its addresses and what the first network does to them. Without any quirk, the first network
// moves the host's address from the adapter to a virtual one, which has another index and a smaller MTU.
type AdapterQuirks struct {
	// AddressLostFor is how long no adapter has the host's address after the first network was created.
	AddressLostFor time.Duration
	// Static means that the address is not from DHCP. On builds other than 20348, the virtual adapter then gets its settings by DHCP, and the host
	// loses the address, unless the Host Network Service has no device-less adapters (registry value DeviceLessNicDisabled): prerequisites of the
	// original operator, https://github.com/ovn-kubernetes/ovn-kubernetes/issues/2530.
	Static bool
	// Instead is the address that the virtual adapter permanently gets instead of the host's: DHCP assigns another one, or no server answers and
	// Windows chooses one of 169.254.0.0/16 (https://github.com/microsoft/SDN/issues/498).
	Instead netip.Prefix
	// Second names the virtual adapter "vEthernet (Ethernet) 2", because one of an earlier network still has the name.
	Second bool
	// MTU is the MTU of the virtual adapter, regardless of the adapter below; 0 for 50 less than that one's. The Host Network Service sets 1450 even
	// if the adapter has 1460 (mtu-with-new-hnsnetwork.txt of https://github.com/pjh/SDN).
	MTU uint32
	// LosesDNS, LosesMetric and LosesSecondary mean that the virtual adapter does not get the configured DNS servers and suffix, the interface
	// metric, or the addresses after the first.
	LosesDNS, LosesMetric, LosesSecondary bool
	// Refuses means that Windows cannot set DNS servers (SetInterfaceDnsSettings is missing before build 19041).
	Refuses bool
	// Excluded are port ranges that no program can listen on (WSAEACCES, 10013): winnat and the Host Network Service reserve blocks of 100 at a start
	// of Windows, which may include a node's ports. Dynamic is the range of ports for programs that request any port; 49152-65535 if empty.
	Excluded []hostapi.PortRange
	Dynamic  hostapi.PortRange
	// Listeners are other programs that listen on a node's ports, such as an exporter that an installer put on the host.
	Listeners []wicdapi.Listener
	// More are addresses that the interface with the default route has before the host's own: addresses of a failover cluster, addresses that are not
	// used for outgoing connections (SkipAsSource), or addresses in another state than Preferred.
	More []wicdapi.AddressState
	// Moves means that the first overlay changes that interface in the facts, too: it gets another name, index, GUID and MTU.
	Moves bool
}

func randomAdapter(r *rand.Rand) AdapterQuirks {
	q := AdapterQuirks{
		AddressLostFor: time.Duration(r.IntN(100)) * time.Second, Static: r.IntN(2) == 0, Second: r.IntN(4) == 0,
		LosesDNS: r.IntN(2) == 0, LosesMetric: r.IntN(2) == 0, LosesSecondary: r.IntN(2) == 0, Refuses: r.IntN(4) == 0,
	}
	if r.IntN(2) == 0 {
		q.MTU = 1450
	}
	if r.IntN(2) == 0 {
		first := []uint16{9150, 10200, 10250, 50000}[r.IntN(4)]
		q.Excluded = []hostapi.PortRange{{First: first, Last: first + 99}}
	}
	if r.IntN(2) == 0 {
		q.Dynamic = hostapi.PortRange{First: 60000, Last: 65535}
	}
	q.Moves = r.IntN(2) == 0
	for i := range r.IntN(3) {
		more := wicdapi.AddressState{Address: netip.AddrFrom4([4]byte{198, 51, 100, byte(100 + i)}), State: "Preferred"}
		switch r.IntN(4) {
		case 0:
			more.Cluster = true
		case 1:
			more.SkipAsSource = true
		case 2:
			more.State = "Deprecated"
		default:
			more.State = "Tentative"
		}
		q.More = append(q.More, more)
	}
	if r.IntN(4) == 0 {
		q.Instead = netip.MustParsePrefix([]string{"169.254.3.4/16", "192.0.2.77/24"}[r.IntN(2)])
	}
	if r.IntN(8) == 0 {
		q.Listeners = []wicdapi.Listener{{
			Port: []uint16{9182, 10248, 10250, 10256}[r.IntN(4)], Address: netip.IPv4Unspecified(), PID: 812, Program: `C:\Program Files\agent\agent.exe`,
		}}
	}
	return q
}
