package sim

import (
	"math/rand/v2"
	"time"
)

// ServicingQuirks concern DISM, features, and pending restarts of Windows.
type ServicingQuirks struct {
	// PendingFor is how long after a start an enabled feature is still Pending: TrustedInstaller finishes its work while other services already run
	// (actions/runner-images issue 4720 waits for feature Containers after the restart).
	PendingFor time.Duration
	// RolledBack is how many times an enabled feature is Disabled again after the start that should have completed it; negative for every time
	// (microsoft/WSL issue 1304).
	RolledBack int
	// RestartsItself is how many times Windows restarts on its own, half a minute after its start, before a feature is complete (up to three:
	// actions/runner-images issue 4668).
	RestartsItself int
	// ServicingFor is how long servicing continues after each start: Component Based Servicing has the key RebootInProgress, or
	// SessionsPending\Exclusive is not 0, or TrustedInstaller runs. RebootPending exists until then.
	ServicingFor time.Duration
	// BusyFor is how long after each start DISM does not answer, because Windows Update uses the component store.
	BusyFor time.Duration
	// Takes is the duration of each DISM call.
	Takes time.Duration
	// Hangs makes DISM never answer.
	Hangs bool
	// Refuses is DISM's error for enabling a feature, in the first RefusesIn boots; negative for all. 3017 and 0x800f082f require a restart first;
	// 0x800f081f and 0x800f0906 mean that no files to install from were found (dismapi.h, winerror.h, and Microsoft's article about error codes of
	// .NET Framework 3.5).
	Refuses   uint32
	RefusesIn int
	// BrokenStore makes DISM fail to return the state of features: ERROR_SXS_COMPONENT_STORE_CORRUPT.
	BrokenStore bool
	// FileRenames are strings of PendingFileRenameOperations that a program writes at each start, in pairs: a file, and its replacement or, if the
	// file is to be deleted, an empty string (chocolatey/choco issue 1768, dotnet/sdk pull request 36159).
	FileRenames []string
	// Unread are the names of facts that Windows does not return.
	Unread []string
}

const storeCorrupt = 0x80073712 // ERROR_SXS_COMPONENT_STORE_CORRUPT

func randomServicing(r *rand.Rand) ServicingQuirks {
	chance := func(n int) bool { return r.IntN(n) == 0 }
	minutes := func(most int) time.Duration { return time.Duration(1+r.IntN(most)) * time.Minute }
	var q ServicingQuirks
	if chance(2) {
		q.PendingFor = minutes(12)
	}
	if chance(4) {
		q.RolledBack = []int{1, -1}[r.IntN(2)]
	}
	if chance(3) {
		q.RestartsItself = 1 + r.IntN(3)
	}
	if chance(3) {
		q.ServicingFor = minutes(10)
	}
	if chance(4) {
		q.BusyFor = minutes(8)
	}
	if chance(3) {
		q.Takes = time.Duration(r.IntN(60)) * time.Second
	}
	q.Hangs, q.BrokenStore = chance(12), chance(12)
	if chance(4) {
		q.Refuses = []uint32{3017, 0x800f082f, 0x800f081f, 0x800f0906}[r.IntN(4)]
		q.RefusesIn = []int{1, -1}[r.IntN(2)]
	}
	if chance(3) {
		q.FileRenames = []string{`\??\C:\Windows\AppCompat\Programs\Amcache.hve.tmp`, ""}
	}
	if chance(3) {
		q.FileRenames = append(q.FileRenames, `\??\C:\Program Files\agent\new.dll`, `!\??\C:\Program Files\agent\agent.dll`)
	}
	return q
}
