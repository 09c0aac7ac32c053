package sim

import "math/rand/v2"

// SetupQuirks are those of a Windows that still sets itself up: first boot, clock, name, services that start slowly.
type SetupQuirks struct{}

func setupByChance(*rand.Rand) SetupQuirks { return SetupQuirks{} }
