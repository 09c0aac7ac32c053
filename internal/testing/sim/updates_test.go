package sim_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

// mustUpdate installs a cumulative update with a revision, as if Windows had been restarted since, and returns the revision.
func mustUpdate(t *testing.T, w *sim.Windows, revision int) int {
	t.Helper()
	o := cumulative()
	o.Takes, o.Revision, o.Restart = 0, revision, windowsupdate.RestartNever
	w.EditUpdates(func(u *sim.Updates) { u.Offers = []sim.Offer{o} })
	agent := w.Host().UpdateAgent
	if _, err := agent.Search(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := agent.Download(t.Context(), []string{o.ID}); err != nil {
		t.Fatal(err)
	}
	mustInstall(t, w, o)
	return revision
}

func TestSimulatedUpdateAgentKeepsTheContract(t *testing.T) {
	contract.UpdateAgent(t, func(t *testing.T) contract.UpdatesFixture {
		w := mustNewComputer(t, nil)
		edit := func(edit func(*windowsupdate.Report)) { w.EditUpdates(func(u *sim.Updates) { u.Edit = edit }) }
		return contract.UpdatesFixture{
			Agent: w.Host().UpdateAgent,
			Configure: func(_ *testing.T, server string, isOff bool) {
				edit(func(r *windowsupdate.Report) { r.Server, r.NoSearches = windowsupdate.HostOf(server), isOff })
			},
			Disable: func(*testing.T) { edit(func(r *windowsupdate.Report) { r.Disabled = true }) },
			Offer: func(_ *testing.T, title, kb string, class windowsupdate.Class) {
				edit(func(r *windowsupdate.Report) {
					r.Pending = append(r.Pending, windowsupdate.Update{Title: title, KBs: []string{kb}, Class: class})
					r.Total++
				})
			},
			Serve: func(_ *testing.T, u windowsupdate.Update) {
				w.EditUpdates(func(all *sim.Updates) { all.Offers = append(all.Offers, sim.Offer{Update: u}) })
			},
			Cumulative: func(t *testing.T) (build, revision int) {
				revision = mustUpdate(t, w, 9999)
				build, _, _ = w.Host().Inventory.Version(t.Context())
				return build, revision
			},
			RestartFirst: func(*testing.T) { w.EditUpdates(func(u *sim.Updates) { u.RestartFirst = true }) },
		}
	})
}

// mustFind makes a computer whose agent has found and downloaded these offers.
func mustFind(t *testing.T, o sim.WindowsOptions, offers ...sim.Offer) *sim.Windows {
	t.Helper()
	w := newQuirkyWindows(t, o)
	w.EditUpdates(func(u *sim.Updates) { u.Offers = offers })
	if _, err := w.Host().UpdateAgent.Search(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Host().UpdateAgent.Download(t.Context(), idsOf(offers)); err != nil {
		t.Fatal(err)
	}
	return w
}

func idsOf(offers []sim.Offer) (ids []string) {
	for _, o := range offers {
		ids = append(ids, o.ID)
	}
	return ids
}

// cumulative is an update that needs a restart.
func cumulative() sim.Offer {
	return sim.Offer{Update: windowsupdate.Update{
		ID: "5a1c7c1e-0000-4000-8000-000000000007", Title: "2026-12 Cumulative Update", KBs: []string{"KB5070001"}, Class: windowsupdate.Security,
		Restart: windowsupdate.RestartAlways,
	}, Takes: time.Hour}
}

// tool is an update that needs none.
func tool() sim.Offer {
	return sim.Offer{Update: windowsupdate.Update{
		ID: "5a1c7c1e-0000-4000-8000-000000000008", Title: "A tool (KB890830)", Class: windowsupdate.Other, Restart: windowsupdate.RestartNever,
	}, Takes: time.Minute}
}

func mustInstall(t *testing.T, w *sim.Windows, offers ...sim.Offer) windowsupdate.Outcome {
	t.Helper()
	o, err := w.Host().UpdateAgent.Install(t.Context(), idsOf(offers))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func mustUpdates(t *testing.T, w *sim.Windows) windowsupdate.Report {
	t.Helper()
	r, err := w.Host().UpdateAgent.Updates(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// causes returns why Windows waits for a restart.
func causes(t *testing.T, w *sim.Windows) []string {
	t.Helper()
	waits, err := w.Host().NextStart.Waits(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return waits.All()
}

const noQuirksOfUpdates = "the durations are compared"

func TestUpdateIsCompletedByRestart(t *testing.T) {
	for name, test := range map[string]struct {
		undone bool
		result windowsupdate.Result
		code   uint32
		ubr    int
	}{
		"completed": {false, windowsupdate.ResultSucceeded, 0, 4520},
		"undone":    {true, windowsupdate.ResultFailed, 0x800f0922, 2402},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				offer := cumulative()
				offer.Undone, offer.Installed = test.undone, func(w *sim.Windows) { w.Update(4520) }
				w, began := mustFind(t, sim.WindowsOptions{NoQuirks: noQuirksOfUpdates}, offer), time.Now()
				if o := mustInstall(t, w, offer); !o.Restart || time.Since(began) != time.Hour {
					t.Errorf("the outcome after %s is %+v", time.Since(began), o)
				}
				if all := strings.Join(causes(t, w), "; "); !strings.Contains(all, "Windows Update") || !strings.Contains(all, "Component Based Servicing") {
					t.Errorf("after the installation, Windows waits for %q", all)
				}
				w.Restart()
				if all := causes(t, w); len(all) > 0 {
					t.Errorf("after the restart, Windows waits for %q", all)
				}
				r := mustUpdates(t, w)
				if isPending := len(r.Pending) == 2; isPending != test.undone || r.Restart {
					t.Errorf("the report has restart %v and %+v", r.Restart, r.Pending)
				}
				if last := r.History[0]; last.Result != test.result || last.Code != test.code || last.KB != "KB5070001" {
					t.Errorf("the last operation is %+v", last)
				}
				facts, err := w.Host().System.Facts(t.Context())
				if err != nil || facts.UBR != test.ubr {
					t.Errorf("the revision is %d, %v, want %d", facts.UBR, err, test.ubr)
				}
			})
		})
	}
}

// TestInterruptedInstallationIsNotDone: neither the end of the process, nor of the computer, is an installation.
func TestInterruptedInstallationIsNotDone(t *testing.T) {
	for name, test := range map[string]struct {
		interrupt func(w *sim.Windows, end context.CancelFunc)
		want      error
	}{
		"process ends":   {func(_ *sim.Windows, end context.CancelFunc) { end() }, context.Canceled},
		"restart":        {func(w *sim.Windows, _ context.CancelFunc) { w.Restart() }, sim.ErrPower},
		"power cut":      {func(w *sim.Windows, _ context.CancelFunc) { w.PowerCut(); w.PowerOn() }, sim.ErrPower},
		"cut at the end": {func(w *sim.Windows, _ context.CancelFunc) { w.CutPowerAfter(0) }, sim.ErrPower},
		"fault":          {func(w *sim.Windows, _ context.CancelFunc) { w.FailNext("update " + cumulative().ID) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := mustFind(t, sim.WindowsOptions{NoQuirks: noQuirksOfUpdates}, cumulative(), tool())
				ctx, end := context.WithCancel(t.Context())
				defer end()
				agent := w.Host().UpdateAgent
				time.AfterFunc(30*time.Second, func() { test.interrupt(w, end) })
				_, err := agent.Install(ctx, []string{tool().ID, cumulative().ID})
				if err == nil || test.want != nil && !errors.Is(err, test.want) {
					t.Errorf("the error is %v, want %v", err, test.want)
				}
				w.PowerOn()
				r := mustUpdates(t, w)
				for _, u := range r.Pending {
					if u.RestartPending {
						t.Errorf("%s waits for a restart", u.Title)
					}
				}
				if len(r.Pending) != 3 || r.Restart || r.History[0].KB != "KB2267602" {
					t.Errorf("the report has %+v", r)
				}
				if o := mustInstall(t, w, tool()); len(o.Results) != 1 {
					t.Errorf("another installation has %+v", o)
				}
			})
		})
	}
}

// TestInstallerIsBusy during another installation, when the test wants it, and after a start.
func TestInstallerIsBusy(t *testing.T) {
	expect := func(t *testing.T, w *sim.Windows, isBusy bool) {
		t.Helper()
		o := mustInstall(t, w, tool())
		want := &windowsupdate.Failure{Call: windowsupdate.CallBusy, Code: windowsupdate.CodeInProgress}
		if (o.Failure != nil) != isBusy || isBusy && (*o.Failure != *want || len(o.Results) > 0) {
			t.Errorf("busy %v: the outcome is %+v", isBusy, o)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w := mustFind(t, sim.WindowsOptions{Quirks: sim.Quirks{Servicing: sim.ServicingQuirks{BusyFor: 5 * time.Minute}}}, cumulative(), tool())
		expect(t, w, true)
		time.Sleep(5 * time.Minute)
		w.EditUpdates(func(u *sim.Updates) { u.Busy = true })
		expect(t, w, true)
		w.EditUpdates(func(u *sim.Updates) { u.Busy = false })
		go func() { _, _ = w.Host().UpdateAgent.Install(t.Context(), []string{cumulative().ID}) }()
		synctest.Wait()
		expect(t, w, true)
		if _, err := w.Host().UpdateAgent.Search(t.Context()); err != nil { // it does not disturb the installation
			t.Error(err)
		}
		unfinished, err := w.Host().NextStart.Unfinished(t.Context())
		if err != nil || len(unfinished.Servicing) != 1 {
			t.Errorf("during an installation, unfinished is %+v, %v", unfinished, err)
		}
		time.Sleep(2 * time.Hour)
		expect(t, w, false)
		if u := w.Updates(); u.Searches != 2 || u.Downloads != 1 || u.Installs != 5 || u.Asked != 0 {
			t.Errorf("%d searches, %d downloads, %d installations and %d questions", u.Searches, u.Downloads, u.Installs, u.Asked)
		}
	})
}

func TestUpdatesFailAsOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := cumulative(), tool()
		first.DownloadCode, second.Code = 0x80070070, 0x80070643
		w := mustFind(t, sim.WindowsOptions{NoQuirks: noQuirksOfUpdates}, first, second)
		o := mustInstall(t, w, first, second)
		if r, found := o.Of(second.ID); len(o.Results) != 1 || !found || r.Code != second.Code || r.Succeeded() {
			t.Errorf("the outcome is %+v", o)
		}
		if last := mustUpdates(t, w).History[0]; last.Code != second.Code || last.Result != windowsupdate.ResultFailed {
			t.Errorf("the last operation is %+v", last)
		}
		w.EditUpdates(func(u *sim.Updates) { u.SearchCode, u.Offers = 0x80240438, []sim.Offer{tool()} })
		r, err := w.Host().UpdateAgent.Search(t.Context())
		if err != nil || len(r.Failures) != 1 || r.Failures[0].Call != windowsupdate.CallOnline || len(r.Pending) != 3 {
			t.Errorf("a failed search reports %+v, %v", r, err)
		}
		if o := mustInstall(t, w, second); o.Failure != nil || o.Restart || len(o.Results) != 1 || !o.Results[0].Succeeded() {
			t.Errorf("when it no longer fails, the outcome is %+v", o)
		}
		w.EditUpdates(func(u *sim.Updates) { u.SearchCode = 0 })
		if r, err = w.Host().UpdateAgent.Search(t.Context()); err != nil || len(r.Failures) > 0 || len(r.Pending) != 1 {
			t.Errorf("when the server has one update less, the report has %+v, %v", r, err)
		}
		w.EditUpdates(func(u *sim.Updates) { u.Edit = func(r *windowsupdate.Report) { r.Disabled = true } })
		if o := mustInstall(t, w, second); o.Failure == nil || o.Failure.Code != 0x80070422 {
			t.Errorf("a disabled agent has %+v", o)
		}
	})
}

// TestRestartFirstEndsWithStart, and an update may break the computer before services start.
func TestRestartFirstEndsWithStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		offer := cumulative()
		offer.Installed = func(w *sim.Windows) { w.FailNext("watch") }
		w := mustFind(t, sim.WindowsOptions{NoQuirks: noQuirksOfUpdates}, offer)
		w.EditUpdates(func(u *sim.Updates) { u.RestartFirst = true })
		if o := mustInstall(t, w, offer); !o.RestartFirst || len(o.Results) > 0 {
			t.Errorf("the outcome is %+v", o)
		}
		w.Restart()
		if o := mustInstall(t, w, offer); o.RestartFirst || !o.Restart {
			t.Errorf("after a restart, the outcome is %+v", o)
		}
		w.Restart()
		if _, err := w.Host().Changes.Watch(t.Context(), nil); err == nil {
			t.Error("the update did not break the computer")
		}
	})
}
