package state

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// Session is shared by all parts of the daemon while a record is valid. It is read-only.
type Session struct {
	Host   hostapi.Host
	Record Record
	// Wanted is what the record requests of this host, with names and secrets filled in.
	Wanted desired.Node
	Log    *slog.Logger
}

// IsCurrent reports whether the record on disk is still that of the session.
func (s Session) IsCurrent() bool { return s.Record.IsCurrent(s.Host.Disk) }

// RecordChange reports a change in the log and in the journal.
func (s Session) RecordChange(format string, args ...any) {
	RecordChange(s.Host.Disk, s.Log, "service", fmt.Sprintf(format, args...))
}

// RecordChange reports a change in the log, and in the journal as part of a step.
func RecordChange(d hostapi.Disk, log *slog.Logger, step, change string) {
	log.Info("Host changed", "change", change)
	Note(d, wicdapi.JournalEntry{Time: time.Now().UTC(), Step: step, Change: change})
}

// Signal wakes a part of the daemon. Signals are merged until they are received.
type Signal chan struct{}

// NewSignal returns a new Signal.
func NewSignal() Signal { return make(Signal, 1) }

// Send never blocks.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default: // one is already pending
	}
}
