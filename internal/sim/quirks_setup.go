package sim

import (
	"math/rand/v2"
	"time"
)

// SetupQuirks are those of a Windows that still sets itself up: first boot, clock, name, services that start slowly.
type SetupQuirks struct {
	// For is how long after its first start Windows still sets itself up: HKLM\SYSTEM\Setup has OOBEInProgress or SystemSetupInProgress, and
	// Setup\State another ImageState than IMAGE_STATE_COMPLETE (Microsoft's article about the states of Windows Setup).
	For time.Duration
	// Name is the host name that something sets back at each start: customization of guests, an agent of the cloud, or a group policy.
	Name string
	// SlowServices are services that start slowly, or not at all when Windows starts.
	SlowServices SlowServices
	// Revision is how new the updates of Windows are.
	Revision Revision
	// Docker says that Docker Engine was installed before, as service docker. Its containerd may have the pipe of that of nodes.
	Docker, DockerHasPipe bool
}

func setupByChance(r *rand.Rand) SetupQuirks {
	var q SetupQuirks
	if r.IntN(3) == 0 {
		q.For = time.Duration(1+r.IntN(20)) * time.Minute
	}
	if r.IntN(6) == 0 {
		q.Name = "WIN-CLOUD"
	}
	q.SlowServices, q.Revision = slowServicesByChance(r), revisionByChance(r)
	q.Docker = r.IntN(8) == 0
	q.DockerHasPipe = q.Docker && r.IntN(2) == 0
	return q
}
