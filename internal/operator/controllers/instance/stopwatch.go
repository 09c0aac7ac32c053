package instance

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// stopwatch measures how long the step of each maintenance has taken, by a monotonic clock: a jump of the wall clock must not end a step that makes
// progress. It is not persisted; after a restart, the recorded start of the step counts.
type stopwatch struct {
	// uptime returns how long the process has run.
	uptime func() time.Duration

	mu   sync.Mutex
	laps map[types.NamespacedName]lap
}

type lap struct {
	step  string
	since time.Duration // process uptime
	// before is how long the step had taken when the process first saw it.
	before time.Duration
}

func newStopwatch() *stopwatch {
	began := time.Now()
	return &stopwatch{uptime: func() time.Duration { return time.Since(began) }}
}

func (w *stopwatch) start(id types.NamespacedName, m v1alpha1.Maintenance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set(id, lap{step: stepOf(m), since: w.uptime()})
}

// elapsed returns how long the step has taken. If an earlier process began it, the wall clock counts for at most half of the step's time limit,
// because it may have jumped.
func (w *stopwatch) elapsed(id types.NamespacedName, m v1alpha1.Maintenance, timeout time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, known := w.laps[id]
	if !known || l.step != stepOf(m) {
		l = lap{step: stepOf(m), since: w.uptime(), before: min(max(time.Since(m.StepStartedAt.Time), 0), timeout/2)}
		w.set(id, l)
	}
	return l.before + w.uptime() - l.since
}

// forget removes an instance that is no longer maintained.
func (w *stopwatch) forget(id types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.laps, id)
}

func (w *stopwatch) set(id types.NamespacedName, l lap) {
	if w.laps == nil {
		w.laps = map[types.NamespacedName]lap{}
	}
	w.laps[id] = l
}

// stepOf names a step of a maintenance. It omits the start of the step; otherwise, a restarted step would count as seen for the first time.
func stepOf(m v1alpha1.Maintenance) string {
	return fmt.Sprint(m.Action, " ", m.StartedAt.Unix(), " ", m.Step)
}
