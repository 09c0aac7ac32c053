package daemon_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// withoutContainers returns the options of a computer with quirks, and without the feature that pods need.
func withoutContainers(q sim.Quirks) sim.WindowsOptions {
	return sim.WindowsOptions{Quirks: q, Features: map[string]wicdapi.FeatureState{
		desired.ContainersFeature: wicdapi.FeatureDisabled, desired.HyperVFeature: wicdapi.FeatureDisabled,
	}}
}

// stubborn repeats a join, as the operator does.
type stubborn struct {
	windows *sim.Windows
	request wicdapi.JoinRequest
	// told are its distinct error codes, in the order of their first occurrence.
	told []wicdapi.Code
}

// join repeats the join until it succeeds or within has passed. It returns the last error.
func (s *stubborn) join(within time.Duration) (err error) {
	pause := 15 * time.Second
	for began := time.Now(); time.Since(began) < within; time.Sleep(pause) {
		pause = min(2*pause, 4*time.Minute)
		var result wicdapi.JoinResult
		result, err = newWire(s.windows).attempt(s.request)
		if err == nil && result.Rebooting == "" {
			return nil
		}
		if failed := wicdapi.Failed(err); failed != nil && !slices.Contains(s.told, failed.Code) {
			s.told = append(s.told, failed.Code)
		}
	}
	if err == nil {
		err = errors.New("the host still restarts")
	}
	return err
}

// expectRestarts checks how often the host was restarted, and that no restart interrupted setup or servicing.
func expectRestarts(t *testing.T, w *sim.Windows, want int) {
	t.Helper()
	if all, disturbed := w.RestartsRequested(); all != want || disturbed > 0 {
		t.Errorf("the host was told to restart %d times, %d of them in the middle of setup or servicing; want %d and none", all, disturbed, want)
	}
}

func TestRestartsOfAJoinHaveAMemoryAndALimit(t *testing.T) {
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		quirks   sim.Quirks
		hostname string
		restarts int
		told     []wicdapi.Code
		joins    bool
		says     string
	}{
		"Windows completes the feature minutes after its start": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{PendingFor: 6 * time.Minute}}, restarts: 1, told: []wicdapi.Code{wicdapi.CodeServicing}, joins: true},
		"Windows restarts by itself three times": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{RestartsItself: 3}}, restarts: 1, told: []wicdapi.Code{wicdapi.CodeServicing}, joins: true},
		"the feature is pending for ever": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{PendingFor: 30 * day}}, restarts: 1,
			told: []wicdapi.Code{wicdapi.CodeServicing, wicdapi.CodeRebootDidNotHelp}, says: "feature Containers of Windows is Pending"},
		"the feature is rolled back": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{RolledBack: -1}}, restarts: 1,
			told: []wicdapi.Code{wicdapi.CodeServicing, wicdapi.CodeRebootDidNotHelp}, says: "feature Containers of Windows is Disabled"},
		"servicing is under way at each start": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{ServicingFor: 10 * time.Minute}}, restarts: 1, told: []wicdapi.Code{wicdapi.CodeServicing}, joins: true},
		"DISM is busy with something else": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{BusyFor: 2 * time.Minute}}, restarts: 1, joins: true},
		"Windows sets itself up": {
			quirks: sim.Quirks{Setup: sim.SetupQuirks{For: 9 * time.Minute}}, restarts: 1, told: []wicdapi.Code{wicdapi.CodeWaitingForSetup}, joins: true},
		"something sets the name back": {
			quirks: sim.Quirks{Setup: sim.SetupQuirks{Name: "WIN-CLOUD"}}, hostname: "wanted", restarts: 1,
			told: []wicdapi.Code{wicdapi.CodeRebootDidNotHelp}, says: "is WIN-CLOUD again instead of wanted"},
		"something was begun before": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{Refuses: 3017, RefusesIn: 1}}, restarts: 2, joins: true},
		"a restart is asked for by each attempt": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{Refuses: 0x800f082f, RefusesIn: -1}}, restarts: 1,
			told: []wicdapi.Code{wicdapi.CodeRebootDidNotHelp}, says: "0x800f082f"},
		"there is nothing to install from": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{Refuses: 0x800f081f, RefusesIn: -1}}, told: []wicdapi.Code{wicdapi.CodeFailed}, says: "LocalSourcePath"},
		"Windows Update sends it to WSUS": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{Refuses: 0x800f0906, RefusesIn: -1}}, told: []wicdapi.Code{wicdapi.CodeFailed}, says: "WSUS"},
		"the component store is damaged": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{BrokenStore: true}}, told: []wicdapi.Code{wicdapi.CodeFailed}, says: "0x80073712"},
		"DISM hangs": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{Hangs: true}}, told: []wicdapi.Code{wicdapi.CodeDISMSilent}, says: "DISM did not respond within 3m0s"},
		"DISM is busy for long": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{BusyFor: 8 * time.Minute}}, restarts: 1, told: []wicdapi.Code{wicdapi.CodeDISMSilent}, joins: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, c := newWindows(t, withoutContainers(test.quirks)), newCargo("1")
				mustSend(t, w, c)
				s := &stubborn{windows: w, request: newRequest(c)}
				s.request.Hostname = test.hostname
				err := s.join(2 * time.Hour)
				if (err == nil) != test.joins || err != nil && !strings.Contains(err.Error(), test.says) {
					t.Errorf("the join ends with %v; want one: %v, with %q", err, test.joins, test.says)
				}
				if !slices.Equal(s.told, test.told) {
					t.Errorf("it told %q, want %q", s.told, test.told)
				}
				expectRestarts(t, w, test.restarts)
				if test.joins {
					expectJoined(t, w, s.request)
				}
			})
		})
	}
}

// TestUserCanRequestAnotherRestart has a feature that is rolled back once.
func TestUserCanRequestAnotherRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWindows(t, withoutContainers(sim.Quirks{Servicing: sim.ServicingQuirks{RolledBack: 1}})), newCargo("1")
		mustSend(t, w, c)
		s := &stubborn{windows: w, request: newRequest(c)}
		expectCode(t, s.join(time.Hour), wicdapi.CodeRebootDidNotHelp)
		s.request.Retried = "2026-11-26T10:00:00Z"
		if err := s.join(time.Hour); err != nil {
			t.Error(err)
		}
		expectRestarts(t, w, 2)
		if w.Disk().Exists(desired.State + `\restarts.json`) {
			t.Error("a host that has joined remembers restarts of its join")
		}
	})
}

// TestAJoinRestartsAHostTwiceAtMost, even if each restart has another cause: earlier servicing, the feature, and a name that changes meanwhile.
func TestAJoinRestartsAHostTwiceAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := sim.ServicingQuirks{Refuses: 3017, RefusesIn: 1, PendingFor: 6 * time.Minute}
		w, c := newWindows(t, withoutContainers(sim.Quirks{Servicing: q})), newCargo("1")
		mustSend(t, w, c)
		s := &stubborn{windows: w, request: newRequest(c)}
		requested := 0
		for began := time.Now(); requested < 2 && time.Since(began) < time.Hour; time.Sleep(time.Minute) {
			_, _ = newWire(w).join(s.request) // it needs another restart
			requested, _ = w.RestartsRequested()
		}
		expectRestarts(t, w, 2)
		s.request.Hostname = "wanted"
		expectCode(t, s.join(time.Hour), wicdapi.CodeRebootDidNotHelp)
		expectRestarts(t, w, 2)
		s.request.Retried = "2026-11-26T10:00:00Z"
		if err := s.join(time.Hour); err != nil {
			t.Error(err)
		}
		expectRestarts(t, w, 3)
	})
}

// TestAJoinWithoutAMemoryRestartsNothing fills the disk, so that restarts cannot be recorded.
func TestAJoinWithoutAMemoryRestartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWindows(t, withoutContainers(sim.Quirks{})), newCargo("1")
		mustSend(t, w, c)
		if _, err := newWire(w).join(wicdapi.JoinRequest{}); err == nil { // this creates its folders
			t.Error("an empty request is good")
		}
		w.FillDisk(0)
		if result, err := newWire(w).join(newRequest(c)); err == nil {
			t.Errorf("the join ends with %+v", result)
		}
		expectRestarts(t, w, 0)
	})
}

// TestANodeNeedsNoDISM: on patch days, and with a damaged component store, nodes restart, rejoin and leave as usual.
func TestANodeNeedsNoDISM(t *testing.T) {
	for name, q := range map[string]sim.ServicingQuirks{
		"hangs": {Hangs: true}, "is damaged": {BrokenStore: true}, "is busy": {BusyFor: 1000 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
				mustSend(t, w, c)
				w.SetServicing(q) // Containers is part of the image
				r := newRequest(c)
				mustJoin(t, w, r)
				expectJoined(t, w, r)
				began := time.Now()
				var facts wicdapi.Facts
				if err := wicdapi.Call(t.Context(), newWire(w), wicdapi.CommandFacts, nil, &facts, nil); err != nil || facts.Joined == nil {
					t.Errorf("facts: %+v, %v", facts, err)
				}
				r.MayReboot = false
				mustJoin(t, w, r)
				var restarted wicdapi.RestartResult
				request := wicdapi.RestartRequest{BootID: w.BootID(), Comment: "maintenance"}
				if err := wicdapi.Call(t.Context(), newWire(w), wicdapi.CommandRestart, request, &restarted, nil); err != nil || !restarted.Restarting {
					t.Errorf("restart: %+v, %v", restarted, err)
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("it took %s", took)
				}
				time.Sleep(time.Minute)
				mustJoin(t, w, r)
				mustLeave(t, w, r.Cluster)
			})
		})
	}
}

// TestHyperVAloneIsNotEnoughForPods: Hyper-V also installs some of the services of Containers.
func TestHyperVAloneIsNotEnoughForPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := withoutContainers(sim.Quirks{})
		o.Features[desired.HyperVFeature] = wicdapi.FeatureEnabled
		w, c := newWindows(t, o), newCargo("1")
		mustSend(t, w, c)
		if first := mustJoin(t, w, newRequest(c)); !strings.Contains(first.Rebooting, desired.ContainersFeature) {
			t.Errorf("the join ends with %+v, want a restart for the feature", first)
		}
	})
}

func TestAHostThatHasRestartedSinceIsNotRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindows(t, sim.WindowsOptions{Kind: "each restart is expected"})
		request := func(boot string) (wicdapi.RestartResult, error) {
			var result wicdapi.RestartResult
			return result, wicdapi.Call(t.Context(), newWire(w), wicdapi.CommandRestart, wicdapi.RestartRequest{BootID: boot, Comment: "maintenance"}, &result, nil)
		}
		first := w.BootID()
		for range 2 { // the answer may get lost
			if _, err := request(first); err != nil {
				t.Error(err)
			}
		}
		if w.BootID() != first {
			t.Error("the host restarts before its answer has arrived")
		}
		time.Sleep(time.Minute)
		if _, err := request(first); err != nil || w.BootID() != "2" {
			t.Errorf("boot %s, %v", w.BootID(), err)
		}
		time.Sleep(time.Minute)
		expectRestarts(t, w, 1)
		if _, err := request(""); err == nil {
			t.Error("a restart without a boot ID is granted")
		}
	})
}

// TestARestartDoesNotInterruptWindows: setup or servicing that has not finished long after the start is stuck, and does not block a restart.
func TestARestartDoesNotInterruptWindows(t *testing.T) {
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
				w := newWindows(t, sim.WindowsOptions{Quirks: test.quirks, Kind: "the test says what Windows does"})
				began := time.Now()
				query := func() error {
					request := wicdapi.RestartRequest{BootID: w.BootID(), Comment: "maintenance"}
					return wicdapi.Call(t.Context(), newWire(w), wicdapi.CommandRestart, request, &wicdapi.RestartResult{}, nil)
				}
				if test.refused != "" {
					expectCode(t, query(), test.refused)
					time.Sleep(time.Until(began.Add(test.within - time.Minute)))
					expectCode(t, query(), test.refused)
					expectRestarts(t, w, 0)
				}
				time.Sleep(time.Until(began.Add(test.within + time.Second)))
				if err := query(); err != nil {
					t.Error(err)
				}
				if all, disturbed := w.RestartsRequested(); all != 1 || disturbed > 0 != test.stuck {
					t.Errorf("the host was told to restart %d times, %d of them in the middle of setup or servicing", all, disturbed)
				}
			})
		})
	}
}

// TestUnreadableFactsAreSkipped has a computer that does not report its memory, boot ID and interfaces.
func TestUnreadableFactsAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := sim.Quirks{Servicing: sim.ServicingQuirks{Unread: []string{wicdapi.FactMemory, wicdapi.FactBootID, wicdapi.FactInterfaces}}}
		w, c := newWindows(t, sim.WindowsOptions{Quirks: q}), newCargo("1")
		var facts wicdapi.Facts
		if err := wicdapi.Call(t.Context(), newWire(w), wicdapi.CommandFacts, nil, &facts, nil); err != nil || facts.Host.Hostname == "" {
			t.Errorf("facts: %+v, %v", facts, err)
		}
		if err := facts.Host.Must(wicdapi.FactHostname); err != nil {
			t.Error(err)
		}
		if err := facts.Host.Must(wicdapi.FactHostname, wicdapi.FactBootID); err == nil || !strings.Contains(err.Error(), wicdapi.FactBootID) {
			t.Errorf("Must() = %v, want what is missing", err)
		}
		mustSend(t, w, c)
		mustJoin(t, w, newRequest(c)) // it needs no restart
		mustLeave(t, w, newRequest(c).Cluster)
		w = newWindows(t, withoutContainers(q))
		mustSend(t, w, c)
		if _, err := newWire(w).join(newRequest(c)); err == nil {
			t.Error("a host is restarted whose boots cannot be told apart")
		}
		expectRestarts(t, w, 0)
	})
}

// TestJoinsByChanceRestartNoHostForEver simulates all quirks of servicing and setup.
func TestJoinsByChanceRestartNoHostForEver(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				drawn := sim.QuirksByChance(seed)
				q := sim.Quirks{Servicing: drawn.Servicing, Setup: drawn.Setup}
				w, c := newWindows(t, withoutContainers(q)), newCargo("1")
				mustSend(t, w, c)
				s := &stubborn{windows: w, request: newRequest(c)}
				s.request.Hostname = []string{"", "wanted"}[seed%2]
				err := s.join(3 * time.Hour)
				if all, disturbed := w.RestartsRequested(); all > 2 || disturbed > 0 {
					t.Errorf("%+v: the host was told to restart %d times, %d of them in the middle of setup or servicing", q, all, disturbed)
				}
				hopeless := q.Servicing.Hangs || q.Servicing.BrokenStore || q.Servicing.RefusesIn < 0 || q.Servicing.RolledBack != 0 ||
					q.Servicing.Refuses >= 0x800f081f && q.Servicing.Refuses != 0x800f082f || s.request.Hostname != "" && q.Setup.Name != ""
				if err != nil && !hopeless {
					t.Errorf("%+v: the host has not joined: %v (%q)", q, err, s.told)
				}
			})
		})
	}
}
