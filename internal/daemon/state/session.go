package state

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// Session is what all parts of the daemon work with as long as a record holds. None of them changes it.
type Session struct {
	Host   host.Host
	Record Record
	// Wanted is what the record wants of this host, with nothing left open.
	Wanted desired.Node
	Log    *slog.Logger
}

// IsCurrent tells whether the record on disk is still that of the session.
func (s Session) IsCurrent() bool { return s.Record.IsCurrent(s.Host.Disk) }

// RecordChange tells of a change: in the log and in the journal.
func (s Session) RecordChange(format string, args ...any) {
	RecordChange(s.Host.Disk, s.Log, "service", fmt.Sprintf(format, args...))
}

// RecordChange tells of a change in the log, and in the journal as part of a step.
func RecordChange(d host.Disk, log *slog.Logger, step, change string) {
	log.Info("Changed", "change", change)
	Note(d, agent.JournalEntry{Time: time.Now().UTC(), Step: step, Change: change})
}

// Signal tells a part that there is something new. Several signals before it looks are one.
type Signal chan struct{}

// NewSignal makes a signal.
func NewSignal() Signal { return make(Signal, 1) }

// Send never waits.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default: // there is one already
	}
}
