package supervisor

import (
	"fmt"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// A service that crashes loopCrashes times within loopWithin is in a crash loop, until it has not crashed for that long. Windows restarts it after
// 5 s, 10 s and then every minute (internal/node/win), and resets its count after the same time.
const (
	loopCrashes = 3
	loopWithin  = 5 * time.Minute
)

// pauses returns the pauses before a service is started or restored again, by how often it ended or was restored within loopWithin. The
// first few are short: an administrator may be working on the host.
func pauses() []time.Duration {
	return []time.Duration{0, 0, time.Second, 2 * time.Second, 4 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute}
}

// restartHistory is the recent history of a service.
type restartHistory struct {
	// wasRunning is true if it was running at the last check.
	wasRunning bool
	// ends are the times within loopWithin at which it ended or was restored; crashes are the unwanted ones among them.
	ends, crashes []time.Time
	// total counts all ends.
	total int64
	// last describes the last crash.
	last string
	// unfinished is true when it could not be restored or started at the last check.
	unfinished bool
	// isLooping is true from when it has crashed too often until it has not crashed for loopWithin.
	isLooping bool
	// blocked is the time from which it could not be started because another service runs but does not work; zero if it can.
	blocked time.Time
	// problem is what is reported to the Node about it; nil if there is none.
	problem *nodestatus.Problem
}

// observe records the current state of a service. Only the service manager's exit code distinguishes a crash from a stop: a requested or voluntary
// stop has code 0.
func (h *restartHistory) observe(now time.Time, s hostapi.Service) {
	h.forget(now)
	h.unfinished = false
	if h.wasRunning && !isActive(s) {
		h.end(now)
		if s.ExitCode != 0 {
			h.recordCrash(now, fmt.Sprintf("it exited with code %d", s.ExitCode))
		}
	}
	h.wasRunning = isActive(s)
}

// isActive reports whether a service has, or may have, a process.
func isActive(s hostapi.Service) bool { return s.State != "" && s.State != hostapi.Stopped }

// forget removes entries older than loopWithin.
func (h *restartHistory) forget(now time.Time) {
	old := func(t time.Time) bool { return now.Sub(t) >= loopWithin }
	h.ends, h.crashes = slices.DeleteFunc(h.ends, old), slices.DeleteFunc(h.crashes, old)
	h.isLooping = h.isLooping && len(h.crashes) > 0
}

// end records that the service ended, or had to be stopped and declared again.
func (h *restartHistory) end(now time.Time) {
	h.ends = append(h.ends, now)
	h.total++
}

// failed records that the service could not be stopped, declared or started, which counts as a crash.
func (h *restartHistory) failed(now time.Time, err error) {
	h.unfinished = true
	h.end(now)
	h.recordCrash(now, err.Error())
}

func (h *restartHistory) recordCrash(now time.Time, cause string) {
	h.crashes = append(h.crashes, now)
	h.last = cause
	h.isLooping = h.isLooping || len(h.crashes) >= loopCrashes
}

// backoffUntil returns the end of the service's back-off.
func (h *restartHistory) backoffUntil() time.Time {
	if len(h.ends) == 0 {
		return time.Time{}
	}
	all := pauses()
	return h.ends[len(h.ends)-1].Add(all[min(len(h.ends), len(all)-1)])
}

// stableAt returns when the service no longer counts as looping if it does not crash again.
func (h *restartHistory) stableAt() time.Time {
	if len(h.crashes) == 0 {
		return time.Time{}
	}
	return h.crashes[len(h.crashes)-1].Add(loopWithin)
}
