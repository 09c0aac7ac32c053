package overlay

import (
	"math/rand/v2"
	"time"
)

// Pauses between attempts.
const (
	firstPause   = time.Second
	longestPause = 15 * time.Second
)

// pauses are those between attempts that fail: they double, and differ from host to host, which all notice an outage together.
type pauses struct{ last time.Duration }

// next returns how long to wait after one more failure.
func (p *pauses) next() time.Duration {
	p.last = min(max(2*p.last, firstPause), longestPause)
	return p.last/2 + rand.N(p.last/2+1)
}

// reset is called after a success.
func (p *pauses) reset() { p.last = 0 }
