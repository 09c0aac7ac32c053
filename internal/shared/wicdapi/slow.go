package wicdapi

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// A host must meet these limits to keep its slot while it receives content. Progress that it only reports does not count.
const (
	// minProgress is what a host must receive, in bytes, in each progressTimeout that the operator spends waiting for it. An honest host on
	// a slower link tries again and resumes where it was.
	minProgress     = 1 << 20
	progressTimeout = 2 * time.Minute
	// workTimeout is how long a host may take to find out what is missing, and to unpack after the last byte.
	workTimeout = 10 * time.Minute
)

// ErrTooSlow means that a host blocked a transfer for longer than other hosts should wait.
var ErrTooSlow = errors.New("the host is too slow")

// progressGuard ends a transfer by calling end if the host is too slow.
type progressGuard struct {
	to  io.Writer
	end func(error)

	// Bytes taken, and the time that the host needed for them, since the last reset.
	taken int64
	took  time.Duration
}

// Write implements io.Writer. Only time in which the host blocks the operator counts, not time in which the operator withholds bytes.
func (p *progressGuard) Write(b []byte) (written int, err error) {
	for piece := range slices.Chunk(b, minProgress/16) {
		n, err := p.write(piece)
		if written += n; err != nil {
			return written, err
		}
	}
	return written, nil
}

func (p *progressGuard) write(b []byte) (int, error) {
	late := time.AfterFunc(progressTimeout-p.took, func() {
		p.end(fmt.Errorf("%w: it accepted less than %d MiB in %s; the next attempt resumes where this one ended", ErrTooSlow, minProgress>>20, progressTimeout))
	})
	defer late.Stop()
	began := time.Now()
	n, err := p.to.Write(b)
	p.taken, p.took = p.taken+int64(n), p.took+time.Since(began)
	if p.taken >= minProgress {
		p.taken, p.took = 0, 0
	}
	return n, err
}

// limitWork limits the time for work on the host. The caller calls done when the host has finished it.
func (p *progressGuard) limitWork(what string) (done func()) {
	late := time.AfterFunc(workTimeout, func() { p.end(fmt.Errorf("%w: it has not %s after %s", ErrTooSlow, what, workTimeout)) })
	return func() { late.Stop() }
}
