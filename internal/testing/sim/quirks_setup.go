package sim

import (
	"math/rand/v2"
	"time"
)

// SetupQuirks concern a Windows that has not finished its setup: first boot, clock, name, slowly starting services.
type SetupQuirks struct {
	// For is how long after its first start Windows is still in setup: HKLM\SYSTEM\Setup has OOBEInProgress or SystemSetupInProgress, and Setup\State
	// another ImageState than IMAGE_STATE_COMPLETE (Microsoft's article about the states of Windows Setup).
	For time.Duration
	// ClockOff is how far the clock is ahead, or behind if negative, until ClockOffFor after the first start: virtual machines begin with the clock of
	// their host, in a time zone that may not be Windows', and the time service corrects it once it has an answer.
	ClockOff, ClockOffFor time.Duration
	// Name is the host name that another component resets at each start: guest customization, a cloud agent, or a group policy.
	Name string
	// SlowServices are services that start slowly, or not at all when Windows starts.
	SlowServices SlowServices
	// Revision selects the revision of Windows.
	Revision Revision
	// Docker means that Docker Engine is installed as service docker. With DockerHasPipe, its containerd uses the pipe of a node's containerd.
	Docker, DockerHasPipe bool
}

func randomSetup(r *rand.Rand) SetupQuirks {
	var q SetupQuirks
	if r.IntN(3) == 0 {
		q.For = time.Duration(1+r.IntN(20)) * time.Minute
	}
	if r.IntN(6) == 0 {
		q.Name = "WIN-CLOUD"
	}
	q.SlowServices, q.Revision = randomSlowServices(r), randomRevision(r)
	q.Docker = r.IntN(8) == 0
	q.DockerHasPipe = q.Docker && r.IntN(2) == 0
	if r.IntN(4) == 0 {
		q.ClockOff = []time.Duration{-time.Hour, time.Hour}[r.IntN(2)] * time.Duration(1+r.IntN(12))
		q.ClockOffFor = time.Duration(1+r.IntN(10)) * time.Minute
	}
	return q
}
