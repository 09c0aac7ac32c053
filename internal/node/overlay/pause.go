package overlay

import (
	"math/rand/v2"
	"time"
)

// Limits of the pauses between attempts.
const (
	firstPause   = time.Second
	longestPause = 15 * time.Second
)

// pauses are the pauses between failed attempts: they double and are random, because all hosts notice an outage at the same time.
type pauses struct{ last time.Duration }

// next returns the pause after one more failure.
func (p *pauses) next() time.Duration {
	p.last = min(max(2*p.last, firstPause), longestPause)
	return p.last/2 + rand.N(p.last/2+1)
}

// reset starts again with the shortest pause, after a success.
func (p *pauses) reset() { p.last = 0 }
