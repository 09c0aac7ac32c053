package agent

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// What a host must do to keep its place among those that are sent content. What it tells of its progress does not count.
const (
	// leastTaken is what a host must take while the operator has waited for it for takesWithin in all, in bytes. An honest host on a
	// slower link comes back, and goes on where it was.
	leastTaken  = 1 << 20
	takesWithin = 2 * time.Minute
	// worksWithin is how long it may look for what it has before it says what is missing, and unpack after the last byte.
	worksWithin = 10 * time.Minute
)

// ErrTooSlow means that a host kept a transfer waiting for longer than others should wait for it.
var ErrTooSlow = errors.New("the host is too slow")

// patience ends a transfer whose host is too slow, by calling end.
type patience struct {
	to  io.Writer
	end func(error)

	// taken bytes, and how long the host took for them, since both began anew.
	taken int64
	took  time.Duration
}

// Write implements io.Writer. Only the time in which the host keeps the operator waiting counts, and not that in which the operator holds
// bytes back.
func (p *patience) Write(b []byte) (written int, err error) {
	for piece := range slices.Chunk(b, leastTaken/16) {
		n, err := p.write(piece)
		if written += n; err != nil {
			return written, err
		}
	}
	return written, nil
}

func (p *patience) write(b []byte) (int, error) {
	late := time.AfterFunc(takesWithin-p.took, func() {
		p.end(fmt.Errorf("%w: it took less than %d MiB in %s; the next attempt goes on where this one ended", ErrTooSlow, leastTaken>>20, takesWithin))
	})
	defer late.Stop()
	began := time.Now()
	n, err := p.to.Write(b)
	p.taken, p.took = p.taken+int64(n), p.took+time.Since(began)
	if p.taken >= leastTaken {
		p.taken, p.took = 0, 0
	}
	return n, err
}

// works gives the host time for something that it does by itself; done is to be called when it did it.
func (p *patience) works(what string) (done func()) {
	late := time.AfterFunc(worksWithin, func() { p.end(fmt.Errorf("%w: it has not %s after %s", ErrTooSlow, what, worksWithin)) })
	return func() { late.Stop() }
}
