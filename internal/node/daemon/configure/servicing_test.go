package configure_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
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

// repeatedJoin repeats a join, as the operator does.
type repeatedJoin struct {
	windows *sim.Windows
	request wicdapi.JoinRequest
	// codes are the distinct error codes, in the order of their first occurrence.
	codes []wicdapi.Code
}

// join repeats the join until it succeeds or within has passed. It returns the last error.
func (s *repeatedJoin) join(within time.Duration) (err error) {
	pause := 15 * time.Second
	for began := time.Now(); time.Since(began) < within; time.Sleep(pause) {
		pause = min(2*pause, 4*time.Minute)
		var result wicdapi.JoinResult
		result, err = daemontest.NewWire(s.windows).TryJoin(s.request)
		if err == nil && result.Rebooting == "" {
			return nil
		}
		if failed := wicdapi.Failed(err); failed != nil && !slices.Contains(s.codes, failed.Code) {
			s.codes = append(s.codes, failed.Code)
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
		t.Errorf("Windows was restarted %d times, %d of them during setup or servicing; want %d and none", all, disturbed, want)
	}
}

func TestJoinRestartsAreRecordedAndLimited(t *testing.T) {
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		quirks   sim.Quirks
		hostname string
		restarts int
		codes    []wicdapi.Code
		joins    bool
		message  string
	}{
		"Windows completes the feature minutes after its start": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{PendingFor: 6 * time.Minute}}, restarts: 1, codes: []wicdapi.Code{wicdapi.CodeServicing}, joins: true},
		"Windows restarts by itself three times": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{RestartsItself: 3}}, restarts: 1, codes: []wicdapi.Code{wicdapi.CodeServicing}, joins: true},
		"the feature stays pending": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{PendingFor: 30 * day}}, restarts: 1,
			codes: []wicdapi.Code{wicdapi.CodeServicing, wicdapi.CodeRebootDidNotHelp}, message: "feature Containers of Windows is Pending"},
		"the feature is rolled back": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{RolledBack: -1}}, restarts: 1,
			codes: []wicdapi.Code{wicdapi.CodeServicing, wicdapi.CodeRebootDidNotHelp}, message: "feature Containers of Windows is Disabled"},
		"servicing is under way at each start": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{ServicingFor: 10 * time.Minute}}, restarts: 1, codes: []wicdapi.Code{wicdapi.CodeServicing}, joins: true},
		"DISM is busy with something else": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{BusyFor: 2 * time.Minute}}, restarts: 1, joins: true},
		"Windows sets itself up": {
			quirks: sim.Quirks{Setup: sim.SetupQuirks{For: 9 * time.Minute}}, restarts: 1, codes: []wicdapi.Code{wicdapi.CodeWaitingForSetup}, joins: true},
		"something sets the name back": {
			quirks: sim.Quirks{Setup: sim.SetupQuirks{Name: "WIN-CLOUD"}}, hostname: "wanted", restarts: 1,
			codes: []wicdapi.Code{wicdapi.CodeRebootDidNotHelp}, message: "is WIN-CLOUD again instead of wanted"},
		"something was begun before": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{Refuses: 3017, RefusesIn: 1}}, restarts: 2, joins: true},
		"a restart is needed by each attempt": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{Refuses: 0x800f082f, RefusesIn: -1}}, restarts: 1,
			codes: []wicdapi.Code{wicdapi.CodeRebootDidNotHelp}, message: "0x800f082f"},
		"no installation source": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{Refuses: 0x800f081f, RefusesIn: -1}}, codes: []wicdapi.Code{wicdapi.CodeFailed}, message: "LocalSourcePath"},
		"Windows Update sends it to WSUS": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{Refuses: 0x800f0906, RefusesIn: -1}}, codes: []wicdapi.Code{wicdapi.CodeFailed}, message: "WSUS"},
		"the component store is damaged": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{BrokenStore: true}}, codes: []wicdapi.Code{wicdapi.CodeFailed}, message: "0x80073712"},
		"DISM hangs": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{Hangs: true}}, codes: []wicdapi.Code{wicdapi.CodeDISMSilent}, message: "DISM did not respond within 3m0s"},
		"DISM is busy for long": {
			quirks: sim.Quirks{Servicing: sim.ServicingQuirks{BusyFor: 8 * time.Minute}}, restarts: 1, codes: []wicdapi.Code{wicdapi.CodeDISMSilent}, joins: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, r := daemontest.NewHost(t, withoutContainers(test.quirks))
				s := &repeatedJoin{windows: w, request: r}
				s.request.Hostname = test.hostname
				err := s.join(2 * time.Hour)
				if (err == nil) != test.joins || err != nil && !strings.Contains(err.Error(), test.message) {
					t.Errorf("the join ended with %v; want success: %v, or an error with %q", err, test.joins, test.message)
				}
				if !slices.Equal(s.codes, test.codes) {
					t.Errorf("reported %q, want %q", s.codes, test.codes)
				}
				expectRestarts(t, w, test.restarts)
				if test.joins {
					daemontest.ExpectJoined(t, w, s.request)
				}
			})
		})
	}
}

// TestUserCanRequestAnotherRestart has a feature that is rolled back once.
func TestUserCanRequestAnotherRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := daemontest.NewHost(t, withoutContainers(sim.Quirks{Servicing: sim.ServicingQuirks{RolledBack: 1}}))
		s := &repeatedJoin{windows: w, request: r}
		daemontest.ExpectCode(t, s.join(time.Hour), wicdapi.CodeRebootDidNotHelp)
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

// TestJoinRestartsHostAtMostTwice, even if each restart has another cause: earlier servicing, the feature, and a name that changes meanwhile.
func TestJoinRestartsHostAtMostTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := sim.ServicingQuirks{Refuses: 3017, RefusesIn: 1, PendingFor: 6 * time.Minute}
		w, r := daemontest.NewHost(t, withoutContainers(sim.Quirks{Servicing: q}))
		s := &repeatedJoin{windows: w, request: r}
		requested := 0
		for began := time.Now(); requested < 2 && time.Since(began) < time.Hour; time.Sleep(time.Minute) {
			_, _ = daemontest.NewWire(w).Join(s.request) // it needs another restart
			requested, _ = w.RestartsRequested()
		}
		expectRestarts(t, w, 2)
		s.request.Hostname = "wanted"
		daemontest.ExpectCode(t, s.join(time.Hour), wicdapi.CodeRebootDidNotHelp)
		expectRestarts(t, w, 2)
		s.request.Retried = "2026-11-26T10:00:00Z"
		if err := s.join(time.Hour); err != nil {
			t.Error(err)
		}
		expectRestarts(t, w, 3)
	})
}

// TestJoinDoesNotRestartHostWithoutRecord fills the disk, so that restarts cannot be recorded.
func TestJoinDoesNotRestartHostWithoutRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := daemontest.NewHost(t, withoutContainers(sim.Quirks{}))
		if _, err := daemontest.NewWire(w).Join(wicdapi.JoinRequest{}); err == nil { // this creates its folders
			t.Error("an empty request was accepted")
		}
		w.FillDisk(0)
		if result, err := daemontest.NewWire(w).Join(r); err == nil {
			t.Errorf("the join returned %+v", result)
		}
		expectRestarts(t, w, 0)
	})
}

// TestJoinedNodeNeedsNoDISM: on patch days, and with a damaged component store, nodes restart, rejoin and leave as usual.
func TestJoinedNodeNeedsNoDISM(t *testing.T) {
	for name, q := range map[string]sim.ServicingQuirks{
		"hangs": {Hangs: true}, "is damaged": {BrokenStore: true}, "is busy": {BusyFor: 1000 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, r := daemontest.NewHost(t, sim.WindowsOptions{})
				w.SetServicing(q) // Containers is part of the image
				daemontest.MustJoin(t, w, r)
				began := time.Now()
				daemontest.ExpectJoined(t, w, r)
				r.MayReboot = false
				daemontest.MustJoin(t, w, r)
				var restarted wicdapi.RestartResult
				request := wicdapi.RestartRequest{BootID: w.BootID(), Comment: "maintenance"}
				if err := wicdapi.Call(t.Context(), daemontest.NewWire(w), wicdapi.CommandRestart, request, &restarted, nil); err != nil || !restarted.Restarting {
					t.Errorf("restart: %+v, %v", restarted, err)
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("it took %s", took)
				}
				time.Sleep(time.Minute)
				daemontest.MustJoin(t, w, r)
				daemontest.MustLeave(t, w, r.Cluster)
			})
		})
	}
}

// TestOtherFeaturesDoNotReplaceContainers: they also install some of the services of Containers.
func TestOtherFeaturesDoNotReplaceContainers(t *testing.T) {
	for _, feature := range []string{desired.HyperVFeature, sim.VirtualMachinePlatform} {
		synctest.Test(t, func(t *testing.T) {
			o := withoutContainers(sim.Quirks{})
			o.Features[feature] = wicdapi.FeatureEnabled
			w, r := daemontest.NewHost(t, o)
			if first := daemontest.MustJoin(t, w, r); !strings.Contains(first.Rebooting, desired.ContainersFeature) {
				t.Errorf("with %s, the join ends with %+v, want a restart for the feature", feature, first)
			}
		})
	}
}

// TestUnreadableFactsAreSkipped has a computer that does not report its memory, boot ID and interfaces.
func TestUnreadableFactsAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := sim.Quirks{Servicing: sim.ServicingQuirks{Unread: []string{wicdapi.FactMemory, wicdapi.FactBootID, wicdapi.FactInterfaces}}}
		w, r := daemontest.NewHost(t, sim.WindowsOptions{Quirks: q})
		facts := daemontest.Facts(t, w)
		if err := facts.Host.Must(wicdapi.FactHostname); err != nil {
			t.Error(err)
		}
		if err := facts.Host.Must(wicdapi.FactHostname, wicdapi.FactBootID); err == nil || !strings.Contains(err.Error(), wicdapi.FactBootID) {
			t.Errorf("Must() = %v, want the missing configuration", err)
		}
		daemontest.MustJoin(t, w, r) // it needs no restart
		daemontest.MustLeave(t, w, r.Cluster)
		w, r = daemontest.NewHost(t, withoutContainers(q))
		if _, err := daemontest.NewWire(w).Join(r); err == nil {
			t.Error("a host without distinguishable boots is restarted")
		}
		expectRestarts(t, w, 0)
	})
}

// TestRandomJoinsRestartNoHostForever simulates all quirks of servicing and setup.
func TestRandomJoinsRestartNoHostForever(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				drawn := sim.RandomQuirks(seed)
				q := sim.Quirks{Servicing: drawn.Servicing, Setup: drawn.Setup}
				w, r := daemontest.NewHost(t, withoutContainers(q))
				s := &repeatedJoin{windows: w, request: r}
				s.request.Hostname = []string{"", "wanted"}[seed%2]
				err := s.join(3 * time.Hour)
				if all, disturbed := w.RestartsRequested(); all > 2 || disturbed > 0 {
					t.Errorf("%+v: Windows was restarted %d times, %d of them during setup or servicing", q, all, disturbed)
				}
				needsAdministrator := q.Servicing.Hangs || q.Servicing.BrokenStore || q.Servicing.RefusesIn < 0 || q.Servicing.RolledBack != 0 ||
					q.Servicing.Refuses >= 0x800f081f && q.Servicing.Refuses != 0x800f082f || s.request.Hostname != "" && q.Setup.Name != ""
				if err != nil && !needsAdministrator {
					t.Errorf("%+v: the host has not joined: %v (%q)", q, err, s.codes)
				}
			})
		})
	}
}
