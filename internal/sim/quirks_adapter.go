package sim

import "math/rand/v2"

// AdapterQuirks are those of the host's own adapter: its name, its addresses and what the first network does to them.
type AdapterQuirks struct{}

func adapterByChance(*rand.Rand) AdapterQuirks { return AdapterQuirks{} }
