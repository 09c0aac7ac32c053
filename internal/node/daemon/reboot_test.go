package daemon_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func TestAlreadyRestartedHostIsNotRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := daemontest.NewWindows(t, sim.WindowsOptions{NoQuirks: "each restart is expected"})
		request := func(boot string) (wicdapi.RestartResult, error) {
			var result wicdapi.RestartResult
			return result, wicdapi.Call(t.Context(), daemontest.NewWire(w), wicdapi.CommandRestart, wicdapi.RestartRequest{BootID: boot, Comment: "maintenance"}, &result, nil)
		}
		first := w.BootID()
		for range 2 { // the answer may get lost
			if _, err := request(first); err != nil {
				t.Error(err)
			}
		}
		if w.BootID() != first {
			t.Error("the host restarts before its response has arrived")
		}
		time.Sleep(time.Minute)
		if _, err := request(first); err != nil || w.BootID() != "2" {
			t.Errorf("boot %s, %v", w.BootID(), err)
		}
		time.Sleep(time.Minute)
		if all, disturbed := w.RestartsRequested(); all != 1 || disturbed > 0 {
			t.Errorf("Windows was restarted %d times, %d of them during setup or servicing", all, disturbed)
		}
		if _, err := request(""); err == nil {
			t.Error("a restart without a boot ID is granted")
		}
	})
}

// TestRestartDoesNotInterruptServicing: setup or servicing that has not finished long after the start is stuck, and does not block a restart.
func TestRestartDoesNotInterruptServicing(t *testing.T) {
	for name, test := range map[string]struct {
		quirks  sim.Quirks
		refused wicdapi.Code
		within  time.Duration
		stuck   bool
	}{
		"Windows sets itself up":   {quirks: sim.Quirks{Setup: sim.SetupQuirks{For: 9 * time.Minute}}, refused: wicdapi.CodeWaitingForSetup, within: 9 * time.Minute},
		"setup is stuck":           {quirks: sim.Quirks{Setup: sim.SetupQuirks{For: 24 * time.Hour}}, refused: wicdapi.CodeWaitingForSetup, within: 30 * time.Minute, stuck: true},
		"servicing is under way":   {quirks: sim.Quirks{Servicing: sim.ServicingQuirks{ServicingFor: 10 * time.Minute}}, refused: wicdapi.CodeServicing, within: 10 * time.Minute},
		"servicing is stuck":       {quirks: sim.Quirks{Servicing: sim.ServicingQuirks{ServicingFor: 24 * time.Hour}}, refused: wicdapi.CodeServicing, within: 15 * time.Minute, stuck: true},
		"DISM answers nothing":     {quirks: sim.Quirks{Servicing: sim.ServicingQuirks{Hangs: true}}},
		"nothing is to be awaited": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := daemontest.NewWindows(t, sim.WindowsOptions{Quirks: test.quirks, NoQuirks: "the test sets what Windows does"})
				began := time.Now()
				query := func() error {
					request := wicdapi.RestartRequest{BootID: w.BootID(), Comment: "maintenance"}
					return wicdapi.Call(t.Context(), daemontest.NewWire(w), wicdapi.CommandRestart, request, &wicdapi.RestartResult{}, nil)
				}
				if test.refused != "" {
					daemontest.ExpectCode(t, query(), test.refused)
					time.Sleep(time.Until(began.Add(test.within - time.Minute)))
					daemontest.ExpectCode(t, query(), test.refused)
				}
				time.Sleep(time.Until(began.Add(test.within + time.Second)))
				if err := query(); err != nil {
					t.Error(err)
				}
				if all, disturbed := w.RestartsRequested(); all != 1 || disturbed > 0 != test.stuck {
					t.Errorf("Windows was restarted %d times, %d of them during setup or servicing", all, disturbed)
				}
			})
		})
	}
}
