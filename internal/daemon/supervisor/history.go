package supervisor

import (
	"fmt"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/host"
)

// A service that dies loopCrashes times within loopWithin is in a loop, until it has not died for that long. Windows restarts
// it after 5 s, 10 s and then every minute (internal/win), and forgets after the same time.
const (
	loopCrashes = 3
	loopWithin  = 5 * time.Minute
)

// pauses before a service is started or restored again that ended, or had to be restored, so many times within loopWithin.
// The first few are short: somebody may be at work on the host.
func pauses() []time.Duration {
	return []time.Duration{0, 0, time.Second, 2 * time.Second, 4 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute}
}

// restartHistory is what is remembered of a service.
type restartHistory struct {
	// runs is true when it ran when it was seen last.
	runs bool
	// ends are when, within loopWithin, it ended or was restored; crashes are those of them that nobody wanted.
	ends, crashes []time.Time
	// total counts all ends.
	total int64
	// last says how it died last.
	last string
	// unfinished is true when it could not be restored or started at the last look.
	unfinished bool
	// loops is true from when it has died too often until it has not died for long.
	loops bool
	// blocked is since when it cannot be started because another service runs and does not work; zero when it can.
	blocked time.Time
	// problem is what its Node is told of it, nil when there is none.
	problem *nodestatus.Problem
}

// observe takes notice of how a service is now. Only the service manager's exit code tells a death from a stop: one that was
// asked for, or that the service decided on, has the code 0.
func (h *restartHistory) observe(now time.Time, s host.Service) {
	h.forget(now)
	h.unfinished = false
	if h.runs && !isActive(s) {
		h.end(now)
		if s.ExitCode != 0 {
			h.recordCrash(now, fmt.Sprintf("it ended with exit code %d", s.ExitCode))
		}
	}
	h.runs = isActive(s)
}

// isActive tells whether a service has, or may have, a process.
func isActive(s host.Service) bool { return s.State != "" && s.State != host.Stopped }

// forget forgets what was long ago.
func (h *restartHistory) forget(now time.Time) {
	old := func(t time.Time) bool { return now.Sub(t) >= loopWithin }
	h.ends, h.crashes = slices.DeleteFunc(h.ends, old), slices.DeleteFunc(h.crashes, old)
	h.loops = h.loops && len(h.crashes) > 0
}

func (h *restartHistory) end(now time.Time) {
	h.ends = append(h.ends, now)
	h.total++
}

// restored takes notice that the service had to be stopped and declared again.
func (h *restartHistory) restored(now time.Time) { h.end(now) }

// failed takes notice that the service could not be stopped, declared or started, which is as good as a death.
func (h *restartHistory) failed(now time.Time, err error) {
	h.unfinished = true
	h.end(now)
	h.recordCrash(now, err.Error())
}

func (h *restartHistory) recordCrash(now time.Time, how string) {
	h.crashes = append(h.crashes, now)
	h.last = how
	h.loops = h.loops || len(h.crashes) >= loopCrashes
}

// backoffUntil tells until when the service is left alone.
func (h *restartHistory) backoffUntil() time.Time {
	if len(h.ends) == 0 {
		return time.Time{}
	}
	all := pauses()
	return h.ends[len(h.ends)-1].Add(all[min(len(h.ends), len(all)-1)])
}

// stableAt is when the service, if it does not die any more, is none that loops.
func (h *restartHistory) stableAt() time.Time {
	if len(h.crashes) == 0 {
		return time.Time{}
	}
	return h.crashes[len(h.crashes)-1].Add(loopWithin)
}
