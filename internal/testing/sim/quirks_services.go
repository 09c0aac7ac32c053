package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// SlowServices are services that start slowly.
type SlowServices struct {
	// MissBoot are those that do not connect to the service control manager within its 30 seconds (ServicesPipeTimeout) when Windows starts. They
	// stay stopped with exit code 1053, which the manager does not treat as a failure to recover from
	// (https://learn.microsoft.com/troubleshoot/windows-server/system-management-components/service-not-start-events-7000-7011-time-out-error).
	MissBoot []string
	// StartTakes is how long each later start takes.
	StartTakes time.Duration
}

// missedBoot is ERROR_SERVICE_REQUEST_TIMEOUT.
const missedBoot = 1053

func (s SlowServices) misses(name string) bool { return slices.Contains(s.MissBoot, name) }

func randomSlowServices(r *rand.Rand) (s SlowServices) {
	for _, name := range []string{api.WICDService, desired.ContainerdService, desired.KubeletService} {
		if r.IntN(3) == 0 {
			s.MissBoot = append(s.MissBoot, name)
		}
	}
	if r.IntN(2) == 0 {
		s.StartTakes = time.Duration(r.IntN(25)) * time.Second
	}
	return s
}

// Revision selects the revision of Windows. The zero value selects WindowsOptions.UBR.
type Revision string

// Revisions with a meaning in package windowsbuild.
const (
	// RevisionTooOld is the last one with which a host cannot become a node, for builds that have one.
	RevisionTooOld Revision = "TooOld"
	// RevisionFaulty is the first one with a known defect, for builds that have one.
	RevisionFaulty Revision = "Faulty"
)

// Of returns the revision of a build, or otherwise if the build has none of this kind.
func (k Revision) Of(build, otherwise int) int {
	revision := otherwise
	switch k {
	case RevisionTooOld:
		for _, u := range windowsbuild.Updates() {
			if int(u.Build) == build && !u.Optional {
				revision = u.Revision - 1
			}
		}
	case RevisionFaulty:
		for _, f := range windowsbuild.Faults() {
			if int(f.Build) == build {
				revision = max(1, f.From)
			}
		}
	}
	return revision
}

func randomRevision(r *rand.Rand) Revision {
	return []Revision{"", "", RevisionTooOld, RevisionFaulty}[r.IntN(4)]
}
