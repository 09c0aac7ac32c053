package sim

import "math/rand/v2"

// NetworkQuirks are those of the Host Network Service: what it echoes, refuses, forgets and lists late.
type NetworkQuirks struct{}

func networkByChance(*rand.Rand) NetworkQuirks { return NetworkQuirks{} }
