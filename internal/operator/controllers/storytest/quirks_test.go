package storytest

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/payload"
)

// quirksSeeds is the default number of hosts. A host with quirks should be a Ready node within quirksSoon and must be within quirksTimeout: Windows
// setup and the completion of its features can take half an hour.
const (
	quirksSeeds   = 30
	quirksSoon    = 30 * time.Minute
	quirksTimeout = 90 * time.Minute
)

// TestHostsJoinDespiteWindowsQuirks joins hosts with random quirks, with the operator's own join over SSH, WICD and the overlay, in simulated time. A
// host becomes a Ready node, or reports what an administrator must do. No host is restarted more than twice or while Windows is busy, and none loses
// its address. WMCO_QUIRKS_SEEDS sets the number of hosts, WMCO_QUIRKS_SEED selects one.
func TestHostsJoinDespiteWindowsQuirks(t *testing.T) {
	content := quirksPayload(t)
	var sum joinedSum
	t.Run("seed", func(t *testing.T) {
		for _, seed := range seedsOf(t, "WMCO_QUIRKS", quirksSeeds) {
			t.Run(strconv.Itoa(seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { sum.add(mustJoin(t, content, seed)) })
			})
		}
	})
	fmt.Println(sum.String())
}

// mustJoin joins the host of a seed and checks the rules.
func mustJoin(t *testing.T, content *payload.Payload, seed int) joined {
	quirks := sim.RandomQuirks(uint64(seed))
	build := windowsbuild.Releases()[seed%len(windowsbuild.Releases())].Build
	o := joinWithQuirks(t, content, build, quirks)
	if losesAddress(quirks) {
		o.deleted = 0 // the deletion gives the host its address back
	}
	if o.restarts > 2 || o.disturbed > 0 || !o.hasAddress || o.deleted > 0 {
		t.Errorf("it breaks a rule: %+v", o)
	}
	if cause := needsPerson(quirks); !o.ready && cause == "" || !o.ready && o.reason == "" {
		t.Errorf("the host is not a Ready node, although no quirk needs an administrator: %+v", o)
	}
	if t.Failed() {
		t.Logf("quirks: %+v", quirks)
	}
	return o
}

// TestTransientQuirksNeedNoAdministrator checks the quirks that each simulated Windows has by default.
func TestTransientQuirksNeedNoAdministrator(t *testing.T) {
	for seed := range uint64(1000) {
		if reason := needsPerson(sim.RandomPassingQuirks(seed)); reason != "" {
			t.Errorf("seed %d: %s", seed, reason)
		}
	}
}

// needsPerson returns the quirk that only an administrator can fix, or "".
func needsPerson(q sim.Quirks) string {
	s := q.Servicing
	switch {
	case q.Files.Distrusted != "":
		return "security software distrusts WICD"
	case q.Setup.Revision == sim.RevisionTooOld:
		return "Windows lacks an update"
	case s.Hangs, s.BrokenStore, s.RolledBack != 0, s.Refuses != 0 && (s.RefusesIn < 0 || s.Refuses == 0x800f081f || s.Refuses == 0x800f0906):
		return "feature Containers cannot be enabled"
	case len(q.Adapter.Listeners) > 0:
		return "another program has a port of the node"
	case q.Setup.DockerHasPipe:
		return "Docker has the pipe of containerd"
	case losesAddress(q):
		return "the host loses its address with the first network"
	}
	return ""
}

func losesAddress(q sim.Quirks) bool {
	return q.Adapter.Instead.IsValid() || q.Adapter.AddressLostFor > time.Minute
}

// joined is the result of one host.
type joined struct {
	ready           bool
	after           time.Duration
	reason, message string // the last ones reported
	restarts        int    // requested by the operator
	disturbed       int    // of these, during setup or servicing
	deleted         int    // networks
	hasAddress      bool
}

// joinedSum adds up the results.
type joinedSum struct {
	mu                                        sync.Mutex
	all, soon, ready, restarts, deleted, lost int
}

func (s *joinedSum) add(o joined) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all++
	if o.ready {
		s.ready++
	}
	if o.ready && o.after <= quirksSoon {
		s.soon++
	}
	if !o.hasAddress {
		s.lost++
	}
	s.restarts, s.deleted = max(s.restarts, o.restarts), s.deleted+o.deleted
}

// String returns the summary line that the benchmark parses.
func (s *joinedSum) String() string {
	return fmt.Sprintf("quirks: %d of %d hosts are Ready within %s, %d later, %d need a person; restarts at most %d, networks deleted %d, addresses lost %d",
		s.soon, s.all, quirksSoon, s.ready-s.soon, s.all-s.ready, s.restarts, s.deleted, s.lost)
}
