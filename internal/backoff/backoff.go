// Package backoff gives the pauses between attempts that fail, and waits for them. The pauses grow, and differ from host to
// host: all hosts notice an outage together, and should not come back together.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// ResetAfter is how long work goes well before a failure counts as the first again.
const ResetAfter = time.Minute

// Backoff gives pauses that double up to a limit, each longer by chance by up to half.
type Backoff struct{ next, longest time.Duration }

// New gives pauses from one second to 20.
func New() *Backoff { return Between(time.Second, 20*time.Second) }

// Between gives pauses that begin with first and grow up to longest.
func Between(first, longest time.Duration) *Backoff { return &Backoff{next: first, longest: longest} }

// Next is how long to wait after one more failure.
func (b *Backoff) Next() time.Duration {
	d := b.next
	b.next = min(2*d, b.longest)
	return d + rand.N(d/2+1)
}

// Sleep waits; it ends early, with an error, when ctx is done.
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
