package instance

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// stopwatch measures how long the step of each maintenance has taken, by a clock that nobody sets: an operator whose wall clock jumps must
// not give up what goes well. Nothing of it is kept over a restart; then what was written down of the step counts.
type stopwatch struct {
	// up is how long the process has run.
	up func() time.Duration

	mu   sync.Mutex
	laps map[types.NamespacedName]lap
}

// lap is one step of one maintenance.
type lap struct {
	step  string
	since time.Duration // by up
	// before is how long the step had taken when the process saw it first.
	before time.Duration
}

func newStopwatch() *stopwatch {
	began := time.Now()
	return &stopwatch{up: func() time.Duration { return time.Since(began) }}
}

// start begins to measure: the step begins, or begins anew.
func (w *stopwatch) start(id types.NamespacedName, m v1alpha1.Maintenance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set(id, lap{step: stepOf(m), since: w.up()})
}

// ran is how long the step has taken. Where another operator began it, the wall clock counts for half of what the step may take at most:
// it may have jumped.
func (w *stopwatch) ran(id types.NamespacedName, m v1alpha1.Maintenance, within time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, known := w.laps[id]
	if !known || l.step != stepOf(m) {
		l = lap{step: stepOf(m), since: w.up(), before: min(max(time.Since(m.StepStartedAt.Time), 0), within/2)}
		w.set(id, l)
	}
	return l.before + w.up() - l.since
}

// forget forgets an instance with which nothing is done any more.
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

// stepOf names a step of a maintenance. When the step began is not in it, or a step that begins anew would count as seen for the first time.
func stepOf(m v1alpha1.Maintenance) string {
	return fmt.Sprint(m.Action, " ", m.StartedAt.Unix(), " ", m.Step)
}
