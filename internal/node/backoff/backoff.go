// Package backoff implements pauses between failed attempts. The pauses grow and are random, so that hosts that notice an outage at the same
// time do not return at the same time.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// ResetAfter is how long work must succeed before the next failure counts as the first.
const ResetAfter = time.Minute

// Backoff returns pauses that double up to a limit, each with a random extra of up to half.
type Backoff struct{ next, longest time.Duration }

// New returns a Backoff with pauses from one to 20 seconds.
func New() *Backoff { return Between(time.Second, 20*time.Second) }

// Between returns a Backoff with pauses from first to longest.
func Between(first, longest time.Duration) *Backoff { return &Backoff{next: first, longest: longest} }

// Next returns the pause after another failure.
func (b *Backoff) Next() time.Duration {
	d := b.next
	b.next = min(2*d, b.longest)
	return d + rand.N(d/2+1)
}

// Sleep waits for d. It returns early with an error when ctx is done.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
