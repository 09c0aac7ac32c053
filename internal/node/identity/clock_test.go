package identity_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/identity"
)

// TestWaitToleratesClockChanges waits for a time 19 hours away while the clock is set.
func TestWaitToleratesClockChanges(t *testing.T) {
	const hour, day = time.Hour, 24 * time.Hour
	for name, test := range map[string]struct {
		// wrong is how much the clock is ahead at first, set how much after an hour.
		wrong, set time.Duration
		want       time.Duration
	}{
		"right":                              {0, 0, 19 * hour},
		"moves forward":                      {0, day, hour},
		"moves forward a little":             {0, 2 * hour, 17 * hour},
		"moves back":                         {0, -day, 19 * hour},
		"was years behind":                   {-3000 * day, 0, 19 * hour},
		"was ahead":                          {10 * hour, 0, 9 * hour}, // by the wrong clock
		"is ahead by more than the validity": {20 * hour, 20 * hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				clock := func() time.Time {
					if time.Since(began) < hour {
						return time.Now().Add(test.wrong)
					}
					return time.Now().Add(test.set)
				}
				at := began.Add(19 * hour).UTC().Round(0) // as in a certificate: without a monotonic reading
				if err := identity.AwaitClock(t.Context(), at, clock); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < test.want || took > test.want+identity.ClockInterval {
					t.Errorf("it took %v, want %v", took, test.want)
				}
			})
		})
	}
}
