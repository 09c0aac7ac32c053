package state_test

import (
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func TestJournalIsBounded(t *testing.T) {
	w, r := daemontest.NewHost(t, sim.WindowsOptions{})
	daemontest.MustWrite(t, w.Disk(), daemontest.JournalFile, strings.Repeat("{\"step\":\"filler\"}\n", 100_000))
	daemontest.MustJoin(t, w, r)
	for name, limit := range map[string]int64{`\journal.jsonl`: 1 << 20, `\journal.1.jsonl`: 3 << 20} {
		if info, err := w.Disk().Stat(desired.State + name); err != nil || info.Size() > limit {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if n := len(daemontest.Status(t, w).Journal); n != 20 {
		t.Errorf("the status shows %d lines", n)
	}
}
