package kube

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Backoff spaces out retries for failing instances: each failure doubles the delay. A restart of the operator resets it, since a restart is a
// reason to retry.
type Backoff struct {
	Min, Max time.Duration
	// Jitter returns a random duration below d.
	Jitter func(time.Duration) time.Duration

	mu     sync.Mutex
	failed map[types.NamespacedName]failure
}

type failure struct {
	delay time.Duration
	until time.Time
}

// Fail records a failure and returns the delay, which is up to a fifth longer than the back-off, so that instances that failed together do not
// retry together.
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

// Until returns when the instance may be retried; zero if it has not failed.
func (r *Backoff) Until(id types.NamespacedName) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed[id].until
}

// Remaining returns how long a failed instance still has to wait; zero or less if it may be retried.
func (r *Backoff) Remaining(id types.NamespacedName) time.Duration { return time.Until(r.Until(id)) }

// Reset clears the failures of an instance.
func (r *Backoff) Reset(id types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failed, id)
}

// Soonest returns the shortest of the given delays. Zero and negative delays mean never; it returns zero if all are.
func Soonest(times ...time.Duration) (after time.Duration) {
	for _, t := range times {
		if t > 0 && (after == 0 || t < after) {
			after = t
		}
	}
	return after
}
