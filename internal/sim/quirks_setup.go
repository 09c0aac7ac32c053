package sim

import "math/rand/v2"

// SetupQuirks are those of a Windows that still sets itself up: first boot, clock, name, services that start slowly.
type SetupQuirks struct {
	// SlowServices are services that start slowly, or not at all when Windows starts.
	SlowServices SlowServices
	// Revision is how new the updates of Windows are.
	Revision Revision
}

func setupByChance(r *rand.Rand) SetupQuirks {
	return SetupQuirks{SlowServices: slowServicesByChance(r), Revision: revisionByChance(r)}
}
