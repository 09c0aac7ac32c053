package daemon

import (
	"fmt"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/host"
)

// A service that dies loopDeaths times within loopWithin is in a loop, until it has not died for that long. Windows restarts
// it after 5 s, 10 s and then every minute (internal/win), and forgets after the same time.
const (
	loopDeaths = 3
	loopWithin = 5 * time.Minute
)

// pauses before a service is started or mended again that ended, or had to be mended, so many times within loopWithin.
// The first few are short: somebody may be at work on the host.
func pauses() []time.Duration {
	return []time.Duration{0, 0, time.Second, 2 * time.Second, 4 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute}
}

// career is what is remembered of a service.
type career struct {
	// runs is true when it ran when it was seen last.
	runs bool
	// ends are when, within loopWithin, it ended or was mended; deaths are those of them that nobody wanted.
	ends, deaths []time.Time
	// last says how it died last.
	last string
	// unfinished is true when it could not be mended or started at the last look.
	unfinished bool
	// loops is true from when it has died too often until it has not died for long.
	loops bool
	// blocked is since when it cannot be started because another service runs and does not work; zero when it can.
	blocked time.Time
	// trouble is what its Node is told of it, nil when there is none.
	trouble *trouble
}

// saw takes notice of how a service is now. Only the service manager's exit code tells a death from a stop: one that was
// asked for, or that the service decided on, has the code 0.
func (c *career) saw(now time.Time, s host.Service) {
	c.forget(now)
	c.unfinished = false
	if c.runs && !isActive(s) {
		c.ends = append(c.ends, now)
		if s.ExitCode != 0 {
			c.died(now, fmt.Sprintf("it ended with exit code %d", s.ExitCode))
		}
	}
	c.runs = isActive(s)
}

// isActive tells whether a service has, or may have, a process.
func isActive(s host.Service) bool { return s.State != "" && s.State != host.Stopped }

// forget forgets what was long ago.
func (c *career) forget(now time.Time) {
	old := func(t time.Time) bool { return now.Sub(t) >= loopWithin }
	c.ends, c.deaths = slices.DeleteFunc(c.ends, old), slices.DeleteFunc(c.deaths, old)
	c.loops = c.loops && len(c.deaths) > 0
}

// mended takes notice that the service had to be stopped and declared anew.
func (c *career) mended(now time.Time) { c.ends = append(c.ends, now) }

// failed takes notice that the service could not be stopped, declared or started, which is as good as a death.
func (c *career) failed(now time.Time, err error) {
	c.unfinished = true
	c.ends = append(c.ends, now)
	c.died(now, err.Error())
}

func (c *career) died(now time.Time, how string) {
	c.deaths = append(c.deaths, now)
	c.last = how
	c.loops = c.loops || len(c.deaths) >= loopDeaths
}

// rests tells until when the service is left alone.
func (c *career) rests() time.Time {
	if len(c.ends) == 0 {
		return time.Time{}
	}
	all := pauses()
	return c.ends[len(c.ends)-1].Add(all[min(len(c.ends), len(all)-1)])
}

// calm is when the service, if it does not die any more, is none that loops.
func (c *career) calm() time.Time {
	if len(c.deaths) == 0 {
		return time.Time{}
	}
	return c.deaths[len(c.deaths)-1].Add(loopWithin)
}
