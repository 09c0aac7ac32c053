package rollout

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// Window is a recurring maintenance window.
type Window struct {
	schedule cron.Schedule
	zone     *time.Location
	length   time.Duration
}

// ParseWindow parses a maintenance window. Its error names the invalid field and the expected format.
func ParseWindow(w v1alpha1.MaintenanceWindow) (Window, error) {
	zone, err := time.LoadLocation(cmp.Or(w.TimeZone, "UTC"))
	if err != nil || w.TimeZone == "Local" { // "Local" is the operator container's zone, which means nothing to users
		return Window{}, fmt.Errorf("timeZone is %q; it must be an IANA time zone such as Europe/Berlin, or empty for UTC", w.TimeZone)
	}
	fields := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	if strings.Contains(w.Schedule, "=") { // the parser treats a leading TZ= as a time zone, and panics if nothing follows it
		return Window{}, fmt.Errorf("schedule is %q; it must have the five fields of cron, for example \"0 22 * * 6\"; set the time zone in timeZone", w.Schedule)
	}
	schedule, err := fields.Parse(w.Schedule)
	if err != nil {
		return Window{}, fmt.Errorf("schedule is %q; it must have the five fields of cron, for example \"0 22 * * 6\": %w", w.Schedule, err)
	}
	length, err := time.ParseDuration(w.Duration)
	if err != nil || length <= 0 {
		return Window{}, fmt.Errorf("duration is %q; it must be hours, minutes and seconds, for example 4h", w.Duration)
	}
	return Window{schedule: schedule, zone: zone, length: length}, nil
}

// windows is the state of the maintenance windows when the plan is made.
type windows struct {
	open  bool
	opens time.Time // zero if no window ever opens
}

// checkWindows checks the windows once per plan.
func (p *planner) checkWindows() {
	for _, w := range p.Policy.Windows {
		open, next := w.at(p.Now)
		p.windows.open = p.windows.open || open
		if !next.IsZero() && (p.windows.opens.IsZero() || next.Before(p.windows.opens)) {
			p.windows.opens = next
		}
	}
}

// at reports whether the window is open, and otherwise when it opens next; zero means never. The zero Window never opens.
//
// Schedules use local time. If the clock is set back, the first of two equal times counts. A time that is skipped counts as the end of the gap, so
// that the window opens once a day.
func (w Window) at(now time.Time) (open bool, next time.Time) {
	if w.schedule == nil {
		return false, time.Time{}
	}
	for wall := w.schedule.Next(w.wall(now.Add(-w.length))); !wall.IsZero(); wall = w.schedule.Next(wall) {
		switch opens := w.firstAt(wall); {
		case opens.After(now):
			return false, opens
		case opens.After(now.Add(-w.length)):
			return true, time.Time{}
		}
	}
	return false, time.Time{}
}

// wall returns the local time as if it were UTC, which has no gaps and no repeated hours.
func (w Window) wall(t time.Time) time.Time {
	_, offset := t.In(w.zone).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// firstAt returns the first moment with the given local time, or the end of the gap if that time is skipped.
func (w Window) firstAt(wall time.Time) time.Time {
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, w.zone) // of two, either one
	start, end := t.ZoneBounds()
	switch actual := w.wall(t); {
	case actual.After(wall):
		return start
	case actual.Before(wall):
		return end
	case start.IsZero():
		return t
	}
	_, before := start.Add(-time.Second).Zone()
	_, now := t.Zone()
	if earlier := t.Add(time.Duration(now-before) * time.Second); earlier.Before(start) && earlier.Before(t) {
		return earlier
	}
	return t
}
