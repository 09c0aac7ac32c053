package rollout

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// Window opens again and again, for a while each time.
type Window struct {
	schedule cron.Schedule
	zone     *time.Location
	length   time.Duration
}

// ParseWindow reads a maintenance window; its error says which field is wrong, and what would be right.
func ParseWindow(w v1alpha1.MaintenanceWindow) (Window, error) {
	zone, err := time.LoadLocation(w.TimeZone)
	if err != nil || w.TimeZone == "Local" { // the operator's own, which is nobody's
		return Window{}, fmt.Errorf("timeZone is %q, must be a name of the IANA database, for example Europe/Berlin, or empty for UTC", w.TimeZone)
	}
	fields := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	if strings.Contains(w.Schedule, "=") { // the parser takes TZ= at the beginning for a time zone, and panics where nothing follows it
		return Window{}, fmt.Errorf("schedule is %q, must be five fields of cron, for example \"0 22 * * 6\"; the time zone is in timeZone", w.Schedule)
	}
	schedule, err := fields.Parse(w.Schedule)
	if err != nil {
		return Window{}, fmt.Errorf("schedule is %q, must be five fields of cron, for example \"0 22 * * 6\": %w", w.Schedule, err)
	}
	length, err := time.ParseDuration(w.Duration)
	if err != nil || length <= 0 {
		return Window{}, fmt.Errorf("duration is %q, must be hours, minutes and seconds, for example 4h", w.Duration)
	}
	return Window{schedule: schedule, zone: zone, length: length}, nil
}

// windows are the maintenance windows at the moment of a plan.
type windows struct {
	open  bool
	opens time.Time // the next one; zero for never
}

// lookAtWindows looks once whether one is open.
func (p *planner) lookAtWindows() {
	for _, w := range p.Policy.Windows {
		open, next := w.at(p.Now)
		p.windows.open = p.windows.open || open
		if !next.IsZero() && (p.windows.opens.IsZero() || next.Before(p.windows.opens)) {
			p.windows.opens = next
		}
	}
}

// at says whether the window is open, and when it opens next, unless it is; zero for never. The zero Window never opens.
//
// Schedules are read by the clock on the wall. Of an hour that it goes through twice the first counts, and what falls into one that it leaves
// out is at its end: so a window opens once on each day.
func (w Window) at(now time.Time) (open bool, next time.Time) {
	if w.schedule == nil {
		return false, time.Time{}
	}
	for wall := w.schedule.Next(w.wall(now.Add(-w.length))); !wall.IsZero(); wall = w.schedule.Next(wall) {
		switch opens := w.when(wall); {
		case opens.After(now):
			return false, opens
		case opens.After(now.Add(-w.length)):
			return true, time.Time{}
		}
	}
	return false, time.Time{}
}

// wall is what the clock on the wall shows, as if it were UTC, which leaves out no hour and has none twice.
func (w Window) wall(t time.Time) time.Time {
	_, offset := t.In(w.zone).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// when is the first moment at which the clock on the wall shows so, or, where it never does, the one at which it is set past that.
func (w Window) when(wall time.Time) time.Time {
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, w.zone) // of two, either
	start, end := t.ZoneBounds()
	switch shown := w.wall(t); {
	case shown.After(wall):
		return start
	case shown.Before(wall):
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
