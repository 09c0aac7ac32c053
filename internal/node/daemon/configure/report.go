package configure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// report records changes: in the journal, to the caller, and in the result.
type report struct {
	disk hostapi.Disk
	// notify is called at the beginning of each step, and with each change.
	notify  func(wicdapi.Step)
	step    string
	began   time.Time
	changed []string
	// remains describes what a leave could not remove.
	remains remains
}

func (r *report) begin(step string) { r.step, r.began = step, time.Now() }

// recordChange records a change.
func (r *report) recordChange(format string, args ...any) {
	change := fmt.Sprintf(format, args...)
	r.changed = append(r.changed, change)
	state.Note(r.disk, wicdapi.JournalEntry{Time: r.began.UTC(), Step: r.step, Change: change, Duration: time.Since(r.began)})
	r.notify(wicdapi.Step{Name: r.step + ": " + change})
}

// recordSkip records in the journal why nothing was changed.
func (r *report) recordSkip(format string, args ...any) {
	state.Note(r.disk, wicdapi.JournalEntry{Time: r.began.UTC(), Step: r.step, Change: "none: " + fmt.Sprintf(format, args...)})
}

// recordFailure records a failure in the journal.
func (r *report) recordFailure(err error) {
	state.Note(r.disk, wicdapi.JournalEntry{Time: r.began.UTC(), Step: r.step, Error: err.Error(), Duration: time.Since(r.began)})
}

// remains is a list of descriptions.
type remains []string

func (r *remains) note(format string, args ...any) { *r = append(*r, fmt.Sprintf(format, args...)) }

// work is embedded by all parts that change the host: the host, and the report of changes.
type work struct {
	hostapi.Host
	*report
}

func newWork(h hostapi.Host, notify func(wicdapi.Step)) work {
	return work{Host: h, report: &report{disk: h.Disk, notify: notify}}
}

// readRecorded reads a file in which WICD recorded what it changed on the host. An unreadable one counts as empty: the recorded objects
// could belong to others, and stay.
func readRecorded[T any](w work, name, stays string) (recorded T, err error) {
	b, err := w.Disk.Read(name)
	if err != nil {
		return recorded, state.IgnoreAbsent(err)
	}
	if err := json.Unmarshal(b, &recorded); err != nil {
		w.recordChange("%s was unreadable and has been reset: %s", name, stays)
		var empty T
		return empty, nil
	}
	return recorded, nil
}

// step is one step. It changes only what is not as wanted.
type step struct {
	name string
	do   func(context.Context) error
}

// errRebooting ends a join when the host restarts.
var errRebooting = errors.New("the host is restarting")

// run runs the steps in order until one fails. The caller holds the command lock.
func (r *report) run(ctx context.Context, steps []step) error {
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		r.begin(s.name)
		r.notify(wicdapi.Step{Name: s.name})
		err := s.do(ctx)
		if errors.Is(err, errRebooting) {
			return err
		}
		if err != nil {
			r.recordFailure(err)
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}
