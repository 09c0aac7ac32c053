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

// at says whether the window is open, and when it opens next; zero for never. The zero Window never opens.
func (w Window) at(now time.Time) (open bool, next time.Time) {
	if w.schedule == nil {
		return false, time.Time{}
	}
	now = now.In(w.zone)
	opened := w.schedule.Next(now.Add(-w.length))
	if !opened.IsZero() && !opened.After(now) {
		return true, time.Time{}
	}
	return false, w.schedule.Next(now)
}
