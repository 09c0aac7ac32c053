package kube

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Backoff spaces out the attempts at instances that fail: each failure doubles the time to the next attempt.
// Nothing of it is kept over a restart of the operator, which is a reason to try again.
type Backoff struct {
	Min, Max time.Duration
	// Jitter returns a time below the one that is given.
	Jitter func(time.Duration) time.Duration

	mu     sync.Mutex
	failed map[types.NamespacedName]failure
}

// failure is the last one of an instance.
type failure struct {
	delay time.Duration
	until time.Time
}

// Fail counts a failure and returns how long to wait, up to a fifth longer than the rule says, so that
// instances which failed together do not come back together.
func (r *Backoff) Fail(id types.NamespacedName, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = map[types.NamespacedName]failure{}
	}
	delay := min(max(r.Min, 2*r.failed[id].delay), r.Max)
	wait := delay + r.Jitter(delay/5+1)
	r.failed[id] = failure{delay: delay, until: now.Add(wait)}
	return wait
}

// Until is when the instance may be tried again; zero where it did not fail.
func (r *Backoff) Until(id types.NamespacedName) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed[id].until
}

// Remaining is how long an instance that failed still has to wait; zero or less where it may be tried.
func (r *Backoff) Remaining(id types.NamespacedName) time.Duration { return time.Until(r.Until(id)) }

// Reset forgets the failures of an instance.
func (r *Backoff) Reset(id types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failed, id)
}

// Sooner is the shortest of the times after which to look again, of which zero and less mean never; zero where all do.
func Sooner(times ...time.Duration) (after time.Duration) {
	for _, t := range times {
		if t > 0 && (after == 0 || t < after) {
			after = t
		}
	}
	return after
}
