package sim

import (
	"math/rand/v2"
	"time"

	"github.com/windows-machine-config/wmco/internal/testing/sim/hnsquirks"
)

// NetworkQuirks concern the Host Network Service.
type NetworkQuirks = hnsquirks.Quirks

func randomNetwork(r *rand.Rand) NetworkQuirks {
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
	q.FindsLate = q.ListsLate > 0 && one(2)
	q.OmitsACLPorts = one(6)
	return q
}
