package sim_test

import (
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func TestRandomRevisionsMatchTheirKind(t *testing.T) {
	seen := map[sim.Revision]int{}
	for seed := range uint64(40) {
		for _, release := range windowsbuild.Releases() {
			q := sim.RandomQuirks(seed)
			w := sim.NewWindows(sim.WindowsOptions{Root: t.TempDir(), Build: int(release.Build), UBR: 9999, Quirks: sim.Quirks{Setup: q.Setup}})
			t.Cleanup(w.PowerOff)
			facts, err := w.Host().System.Facts(t.Context())
			revision := facts.UBR
			if err != nil || facts.Build != int(release.Build) {
				t.Fatalf("build %d, %v", facts.Build, err)
			}
			_, isMissing := windowsbuild.Missing(release.Build, revision)
			_, hasFault := windowsbuild.FaultOf(release.Build, revision)
			switch {
			case isMissing && q.Setup.Revision != sim.RevisionTooOld, hasFault && q.Setup.Revision != sim.RevisionFaulty:
				t.Errorf("seed %d: %s has revision %d, of kind %q", seed, release.Name, revision, q.Setup.Revision)
			case isMissing, hasFault, q.Setup.Revision == "":
				seen[q.Setup.Revision]++
			}
		}
	}
	for _, kind := range []sim.Revision{"", sim.RevisionTooOld, sim.RevisionFaulty} {
		if seen[kind] == 0 {
			t.Errorf("no host has a revision of kind %q", kind)
		}
	}
}
