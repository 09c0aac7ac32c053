package sim

import "math/rand/v2"

// FileQuirks are those of files and programs: scanners that hold them, software that removes them.
type FileQuirks struct{}

func filesByChance(*rand.Rand) FileQuirks { return FileQuirks{} }
