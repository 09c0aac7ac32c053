package contract

import (
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// MemoryFixture is a computer for one test.
type MemoryFixture struct {
	Inventory hostapi.Inventory
	System    hostapi.System
	// Commit makes programs commit this much more memory, until the test ends; nil if a test cannot, and NoCommit is the reason.
	Commit   func(t *testing.T, bytes uint64)
	NoCommit string
}

// Memory checks the contract of hostapi.Inventory about memory.
func Memory(t *testing.T, fixture func(t *testing.T) MemoryFixture) {
	run(t, fixture, []test[MemoryFixture]{
		{"LimitExceedsCommittedMemory", limitExceedsCommittedMemory},
		{"CommittedMemoryIsCounted", committedMemoryIsCounted},
		{"CommitFailsAfterContextEnds", commitFailsAfterContextEnds},
	})
}

func mustCommit(t *testing.T, f MemoryFixture) hostapi.Commit {
	t.Helper()
	c, err := f.Inventory.Commit(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func limitExceedsCommittedMemory(t *testing.T, f MemoryFixture) {
	facts, err := f.System.Facts(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	if c := mustCommit(t, f); c.Used == 0 || c.Used > c.Limit || c.Limit < facts.MemoryBytes/2 {
		t.Errorf("committed is %d of %d bytes, and the machine has %d", c.Used, c.Limit, facts.MemoryBytes)
	}
}

func committedMemoryIsCounted(t *testing.T, f MemoryFixture) {
	if f.Commit == nil {
		t.Skip(f.NoCommit)
	}
	const more = 256 << 20
	before := mustCommit(t, f)
	f.Commit(t, more)
	if after := mustCommit(t, f); after.Used < before.Used+more/2 { // other programs may have freed some
		t.Errorf("committed is %d, and was %d before another %d", after.Used, before.Used, uint64(more))
	}
}

func commitFailsAfterContextEnds(t *testing.T, f MemoryFixture) {
	if _, err := f.Inventory.Commit(canceled(t)); err == nil {
		t.Error("a call whose context has ended succeeded")
	}
}
