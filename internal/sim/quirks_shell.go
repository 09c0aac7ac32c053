package sim

import "math/rand/v2"

// ShellQuirks are those of the SSH server and of the shell that it starts.
type ShellQuirks struct{}

func shellByChance(*rand.Rand) ShellQuirks { return ShellQuirks{} }
