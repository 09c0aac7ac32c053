package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// The journal has a line for each change that WICD made on the host. One older file is kept.
const (
	journalFile     = desired.State + `\journal.jsonl`
	olderJournal    = desired.State + `\journal.1.jsonl`
	MaxJournalBytes = 1 << 20
)

// Note adds a line to the journal. Errors are ignored, because the disk may be full.
func Note(d hostapi.Disk, e wicdapi.JournalEntry) {
	b, err := json.Marshal(e)
	if err != nil {
		return
	}
	f, size, err := d.Append(journalFile)
	if err != nil {
		return
	}
	_, _ = f.Write(append(b, '\n'))
	_ = f.Close()
	if size > MaxJournalBytes {
		_ = d.Rename(journalFile, olderJournal)
	}
}

// LastNotes returns the last lines of the journal, oldest first. A line that an interruption left incomplete is skipped.
func LastNotes(d hostapi.Disk, count int) ([]wicdapi.JournalEntry, error) {
	older, olderErr := d.Read(olderJournal)
	newer, err := d.Read(journalFile)
	if errors.Join(olderErr, err) != nil && len(older)+len(newer) == 0 {
		return nil, IgnoreAbsent(err)
	}
	var entries []wicdapi.JournalEntry
	lines := bytes.Split(append(older, newer...), []byte("\n"))
	for _, line := range slices.Backward(lines) {
		var e wicdapi.JournalEntry
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		if entries = append(entries, e); len(entries) == count {
			break
		}
	}
	slices.Reverse(entries)
	return entries, nil
}

// IsJournal reports whether a file is the journal, or the older one.
func IsJournal(name string) bool { return name == journalFile || name == olderJournal }
