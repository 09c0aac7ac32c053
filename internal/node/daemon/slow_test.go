package daemon_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// TestAJoinStartsAWICDThatMissedTheStartOfWindows: Windows does not retry the start, and the kubelet works without WICD.
func TestAJoinStartsAWICDThatMissedTheStartOfWindows(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{Quirks: sim.Quirks{Setup: sim.SetupQuirks{SlowServices: sim.SlowServices{MissBoot: []string{api.WICDService}}}}}), newCargo("1")
	mustSend(t, w, c)
	r := newRequest(c)
	mustJoin(t, w, r)
	w.Restart()
	if got := w.Service(api.WICDService); got.State != hostapi.Stopped || got.ExitCode != 1053 {
		t.Fatalf("WICD is %s with exit code %d after the start of Windows", got.State, got.ExitCode)
	}
	mustJoin(t, w, r)
	expectServices(t, w, r)
}

// TestSlowServicesOfAnyHostStart simulates hosts whose services start slowly, or miss the start of Windows.
func TestSlowServicesOfAnyHostStart(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			drawn := sim.QuirksByChance(seed).Setup
			quirks := sim.SetupQuirks{SlowServices: drawn.SlowServices, Revision: drawn.Revision}
			w, c := newWindows(t, sim.WindowsOptions{Quirks: sim.Quirks{Setup: quirks}}), newCargo("1")
			defer w.PowerOff()
			mustSend(t, w, c)
			r := newRequest(c)
			mustJoin(t, w, r)
			expectServices(t, w, r)
			w.Restart()
			time.Sleep(time.Minute)
			mustJoin(t, w, r) // the operator repairs hosts that do not report
			expectServices(t, w, r)
			if t.Failed() {
				t.Logf("seed %d: %+v", seed, quirks)
			}
		})
	}
}
