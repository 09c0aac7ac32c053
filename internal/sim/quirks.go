package sim

import "math/rand/v2"

// Quirks is what a real Windows Server does that an idle, finished and unguarded one would not. The zero value has none.
type Quirks struct {
	Servicing ServicingQuirks
	Setup     SetupQuirks
	Network   NetworkQuirks
	Adapter   AdapterQuirks
	Shell     ShellQuirks
	Files     FileQuirks
}

// QuirksByChance are those of a seed. Each kind has its own sequence, so that a new one changes no other.
func QuirksByChance(seed uint64) Quirks {
	of := func(kind uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, kind)) }
	return Quirks{
		Servicing: servicingByChance(of(1)), Setup: setupByChance(of(2)), Network: networkByChance(of(3)),
		Adapter: adapterByChance(of(4)), Shell: shellByChance(of(5)), Files: filesByChance(of(6)),
	}
}
