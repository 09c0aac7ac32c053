package contract

import (
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// NextStartFixture is a computer for one test, which needs no restart. The fixture cleans up after the test.
type NextStartFixture struct {
	NextStart hostapi.NextStart
	System    hostapi.System
	// Await makes Windows need a restart, as installing updates does.
	Await func(t *testing.T)
	// Restart restarts the computer; nil if a test cannot, and NoRestart is the reason.
	Restart   func(t *testing.T)
	NoRestart string
	// AtOnce is why a new name is reported before the restart; empty if it is not.
	AtOnce string
}

// NextStart checks the contract of hostapi.NextStart.
func NextStart(t *testing.T, fixture func(t *testing.T) NextStartFixture) {
	run(t, fixture, []test[NextStartFixture]{
		{"PendingRestartIsReported", pendingRestartIsReported},
		{"UnfinishedSetupIsReported", unfinishedSetupIsReported},
		{"BootIDMatchesFacts", bootIDMatchesFacts},
		{"InvalidNamesAreRejected", invalidNamesAreRejected},
		{"NewNameTakesEffectAtNextStart", newNameTakesEffectAtNextStart},
	})
}

func mustWaits(t *testing.T, f NextStartFixture) []string {
	t.Helper()
	pending, err := f.NextStart.Waits(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	return pending.All()
}

func pendingRestartIsReported(t *testing.T, f NextStartFixture) {
	if pending := mustWaits(t, f); len(pending) > 0 {
		t.Fatalf("before the test: %q", pending)
	}
	f.Await(t)
	pending := mustWaits(t, f)
	if len(pending) == 0 || slices.Contains(pending, "") {
		t.Errorf("Waits() = %q, want the reasons", pending)
	}
	facts, err := f.System.Facts(deadline(t))
	if err != nil || !slices.Equal(facts.PendingReboot, pending) {
		t.Errorf("facts have %q, %v; Waits() = %q", facts.PendingReboot, err, pending)
	}
	if f.Restart == nil {
		t.Skip(f.NoRestart)
	}
	f.Restart(t)
	if pending := mustWaits(t, f); len(pending) > 0 {
		t.Errorf("after a restart: %q", pending)
	}
}

// unfinishedSetupIsReported expects a computer that was installed long ago.
func unfinishedSetupIsReported(t *testing.T, f NextStartFixture) {
	first, err := f.NextStart.Unfinished(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	second, err := f.NextStart.Unfinished(deadline(t))
	if err != nil || second.Up < first.Up {
		t.Errorf("uptime %s, and then %s, %v", first.Up, second.Up, err)
	}
	if len(first.Setup) > 0 {
		t.Errorf("Windows is still setting itself up: %q", first.Setup)
	}
}

func bootIDMatchesFacts(t *testing.T, f NextStartFixture) {
	mustBoot := func() string {
		t.Helper()
		facts, err := f.System.Facts(deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		id, err := f.NextStart.Boot(deadline(t))
		if err != nil || id == "" || id != facts.BootID {
			t.Errorf("Boot() = %q, %v; facts have %q", id, err, facts.BootID)
		}
		return id
	}
	before := mustBoot()
	if f.Restart == nil {
		t.Skip(f.NoRestart)
	}
	f.Restart(t)
	if after := mustBoot(); after == before {
		t.Errorf("after a restart, it is still %q", after)
	}
}

func invalidNamesAreRejected(t *testing.T, f NextStartFixture) {
	for _, name := range []string{"", "a b", "a.example", "-a", "a-", "a_b", "ä", strings.Repeat("a", 64)} {
		if err := f.NextStart.Rename(deadline(t), name); err == nil {
			t.Errorf("Rename(%q) succeeds", name)
		}
	}
	if pending := mustWaits(t, f); len(pending) > 0 {
		t.Errorf("afterwards Windows waits: %q", pending)
	}
}

func newNameTakesEffectAtNextStart(t *testing.T, f NextStartFixture) {
	const name = "wicd-contract-of-more-than-15"
	before, err := f.System.Facts(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := f.NextStart.Rename(deadline(t), name); err != nil {
			t.Fatal(err)
		}
	}
	if pending := strings.Join(mustWaits(t, f), "; "); !strings.Contains(strings.ToLower(pending), name[:15]) {
		t.Errorf("Waits() = %q, want the new name", pending)
	}
	if f.AtOnce != "" {
		t.Skip(f.AtOnce)
	}
	after, err := f.System.Facts(deadline(t))
	if err != nil || after.Hostname != before.Hostname {
		t.Errorf("before the restart, the name is %q, %v, want %q", after.Hostname, err, before.Hostname)
	}
	if f.Restart == nil {
		t.Skip(f.NoRestart)
	}
	f.Restart(t)
	if after, err = f.System.Facts(deadline(t)); err != nil || after.Hostname != name {
		t.Errorf("after the restart, the name is %q, %v, want %q", after.Hostname, err, name)
	}
}
