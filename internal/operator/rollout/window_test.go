package rollout_test

import (
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
)

func TestMaintenanceWindows(t *testing.T) {
	night, err := rollout.ParseWindow(v1alpha1.MaintenanceWindow{Schedule: "0 22 * * 1", Duration: "4h", TimeZone: "Europe/Berlin"})
	if err != nil {
		t.Fatal(err)
	}
	policy := allow(9)
	policy.Windows = []rollout.Window{night}
	fleet := func(now time.Time) rollout.Fleet {
		return rollout.Fleet{Policy: policy, Now: now, Hosts: named(
			host(""), host("", notReady), host("", restarts), host("", requestReboot), host("", leaving), host("", inMaintenance))}
	}
	closed := rollout.Decide(fleet(noon()))
	want := "win-00:Upgrade?MaintenanceWindow win-01:Upgrade?MaintenanceWindow win-02:Upgrade win-03:Reboot win-04:Leave win-05:Upgrade"
	if got := describe(closed); got != want {
		t.Errorf("outside of the window the plan is\n%s\nwant\n%s", got, want)
	}
	opens := time.Date(2026, 3, 2, 21, 0, 0, 0, time.UTC) // 22:00 in Berlin
	if !closed.RecheckAt.Equal(opens) {
		t.Errorf("next decision at %s, the window opens at %s", closed.RecheckAt, opens)
	}
	for _, test := range []struct {
		at   time.Time
		open bool
	}{{opens.Add(-time.Second), false}, {opens, true}, {opens.Add(4*time.Hour - time.Second), true}, {opens.Add(4 * time.Hour), false}} {
		if got := rollout.Decide(fleet(test.at)).Hosts["win-00"].Begin; got != test.open {
			t.Errorf("at %s the upgrade begins: %v, want %v", test.at, got, test.open)
		}
	}
}

// TestWindowsOnDaylightSavingChanges checks such a day in steps of five minutes: the window opens once a day, at the end of a skipped hour, and
// in the first of two equal hours.
func TestWindowsOnDaylightSavingChanges(t *testing.T) {
	for _, test := range []struct {
		zone, schedule string
		day            time.Time // the afternoon before
		opens          []string
	}{
		{"Europe/Berlin", "30 2 * * *", time.Date(2026, 3, 28, 15, 0, 0, 0, time.UTC), []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"Europe/Berlin", "30 2 * * *", time.Date(2026, 10, 24, 15, 0, 0, 0, time.UTC), []string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		{"America/New_York", "30 2 * * *", time.Date(2026, 3, 7, 22, 0, 0, 0, time.UTC), []string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"}},
		{"America/New_York", "30 1 * * *", time.Date(2026, 10, 31, 22, 0, 0, 0, time.UTC), []string{"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"}},
		{"Europe/Berlin", "0 22 * * *", time.Date(2026, 3, 28, 15, 0, 0, 0, time.UTC), []string{"2026-03-28T22:00:00+01:00", "2026-03-29T22:00:00+02:00"}},
		{"", "30 2 * * *", time.Date(2026, 3, 28, 15, 0, 0, 0, time.UTC), []string{"2026-03-29T02:30:00Z", "2026-03-30T02:30:00Z"}},
	} {
		t.Run(test.zone+" "+test.schedule+test.day.Format(" January"), func(t *testing.T) {
			window, err := rollout.ParseWindow(v1alpha1.MaintenanceWindow{Schedule: test.schedule, Duration: "20m", TimeZone: test.zone})
			if err != nil {
				t.Fatal(err)
			}
			policy := allow(1)
			policy.Windows = []rollout.Window{window}
			var opened []string
			wasOpen := false
			for at := test.day; at.Before(test.day.Add(44 * time.Hour)); at = at.Add(5 * time.Minute) {
				plan := rollout.Decide(rollout.Fleet{Policy: policy, Hosts: hosts(1), Now: at})
				isOpen := plan.Hosts["win-00"].Begin
				if isOpen && !wasOpen {
					zone, _ := time.LoadLocation(test.zone)
					opened = append(opened, at.In(zone).Format(time.RFC3339))
				}
				if soon := at.Add(5 * time.Minute); !isOpen && !plan.RecheckAt.After(at) {
					t.Errorf("at %s the window is closed, and reported to open at %s, before %s", at, plan.RecheckAt, soon)
				}
				wasOpen = isOpen
			}
			if strings.Join(opened, " ") != strings.Join(test.opens, " ") {
				t.Errorf("it opened at %v, want %v", opened, test.opens)
			}
		})
	}
}

func TestInvalidWindowNeverOpens(t *testing.T) {
	for _, w := range []v1alpha1.MaintenanceWindow{
		{Schedule: "0 22 * *", Duration: "4h"},
		{Schedule: "0 22 * * 1", Duration: "4h", TimeZone: "Berlin"},
		{Schedule: "0 22 * * 1", Duration: "soon"},
		{Schedule: "0 22 * * 1", Duration: "4h", TimeZone: "Local"},
		{Schedule: "TZ=UTC123", Duration: "4h"},
		{Schedule: "TZ=Europe/Berlin", Duration: "4h"},
		{Schedule: "CRON_TZ=Europe/Berlin", Duration: "4h"},
		{Schedule: "CRON_TZ=Europe/Berlin 0 22 * * 1", Duration: "4h"},
	} {
		window, err := rollout.ParseWindow(w)
		if err == nil {
			t.Errorf("%v was read as a window", w)
		}
		policy := allow(1)
		policy.Windows = []rollout.Window{window}
		plan := rollout.Decide(rollout.Fleet{Policy: policy, Hosts: hosts(1), Now: noon()})
		if got := describe(plan); got != "win-00:Upgrade?MaintenanceWindow" {
			t.Errorf("with window %v the plan is %s", w, got)
		}
	}
}
