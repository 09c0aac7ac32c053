package sim

import "math/rand/v2"

// ServicingQuirks are those of DISM, of features, and of restarts that Windows waits for.
type ServicingQuirks struct{}

func servicingByChance(*rand.Rand) ServicingQuirks { return ServicingQuirks{} }
