package nodestatus_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

const november = "KB5070001"

// installer returns a node that installs security updates, with these offers at its server.
func installer(t *testing.T, noQuirks string, blocked []string, offers ...sim.Offer) *daemontest.Member {
	t.Helper()
	m := daemontest.NewIsolated(t, noQuirks)
	m.Windows.EditUpdates(func(u *sim.Updates) { u.Offers = offers })
	node := m.Changed()
	node.UpdatesToInstall = &windowsupdate.Selection{Classes: []windowsupdate.Class{windowsupdate.Security}, Blocked: blocked}
	m.Follow(t, node)
	time.Sleep(afterNextQuery)
	cordon(m, true)
	return m
}

func cordon(m *daemontest.Member, isCordoned bool) {
	m.Cluster.Patch(daemontest.NodePath, map[string]any{"spec": map[string]any{"unschedulable": isCordoned}})
}

func offer(n int, change ...func(*sim.Offer)) sim.Offer {
	kb := fmt.Sprintf("KB507000%d", n)
	o := sim.Offer{Takes: 5 * time.Minute, Update: windowsupdate.Update{
		ID: fmt.Sprintf("11111111-0000-4000-8000-00000000000%d", n), Title: "2026-11 Cumulative Update (" + kb + ")", KBs: []string{kb},
		Class: windowsupdate.Security, Restart: windowsupdate.RestartAlways, Published: time.Date(2000, 1, n, 0, 0, 0, 0, time.UTC),
	}}
	for _, c := range change {
		c(&o)
	}
	return o
}

func order(t *testing.T, m *daemontest.Member, name string, kbs ...string) error {
	t.Helper()
	request := wicdapi.InstallUpdatesRequest{Order: name, KBs: kbs}
	return wicdapi.Call(t.Context(), daemontest.NewWire(m.Windows), wicdapi.CommandInstallUpdates, request, &wicdapi.InstallUpdatesResult{}, nil)
}

func mustOrder(t *testing.T, m *daemontest.Member, name string, kbs ...string) {
	t.Helper()
	if err := order(t, m, name, kbs...); err != nil {
		t.Fatal(err)
	}
}

// mustState expects the state of the last installation, and a part of its message.
func mustState(t *testing.T, m *daemontest.Member, want windowsupdate.InstallationState, message string) {
	t.Helper()
	i := mustSummary(t, m).Installation
	if i == nil || i.State != want || !strings.Contains(i.Message, message) {
		t.Fatalf("the installation is %+v, want %s %q", i, want, message)
	}
}

// offered returns the articles that the Node offers.
func offered(t *testing.T, m *daemontest.Member) string {
	t.Helper()
	var kbs []string
	for _, o := range mustSummary(t, m).Offers {
		kbs = append(kbs, o.KB)
	}
	return strings.Join(kbs, " ")
}

func TestSelectedUpdatesAreDownloadedAndOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := func(o *sim.Offer) { o.Interactive = true }
		nameless := func(o *sim.Offer) { o.KBs = nil }
		preview := func(o *sim.Offer) { o.Class = windowsupdate.Other }
		broken := func(o *sim.Offer) { o.DownloadCode = 0x80070070 }
		m := installer(t, "", []string{"KB5070007"}, offer(2), offer(1), offer(3, ask), offer(4, nameless), offer(5, preview), offer(6, broken), offer(7))
		if got := offered(t, m); got != "KB5070001 KB5070002" {
			t.Errorf("offers %q", got)
		}
		s := mustSummary(t, m)
		if !strings.Contains(s.Blocked, "the disk is full") || !s.Offers[0].Published.Equal(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("the summary is %s", s.Format())
		}
		if u := m.Windows.Updates(); u.Installs > 0 || u.Searches > 4 {
			t.Errorf("without an order, the agent has installed %d times, and searched %d times", u.Installs, u.Searches)
		}
		if err := order(t, m, "early", "KB5070001; x"); err == nil {
			t.Error("an order for a text that is no article is stored")
		}
	})
}

// TestSearchAgeIsThatOfOwnSearches: with automatic updates off, the agent's date of the last search says nothing.
func TestSearchAgeIsThatOfOwnSearches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := installer(t, "", nil)
		m.Windows.EditUpdates(func(u *sim.Updates) {
			u.Edit = func(r *windowsupdate.Report) { r.Searched, r.NoSearches = r.Read.AddDate(0, 0, -30), true }
		})
		time.Sleep(2 * afterNextQuery)
		if s := mustSummary(t, m); time.Since(s.Searched) > afterNextQuery {
			t.Errorf("the last search was %s ago", time.Since(s.Searched))
		}
		m.Windows.EditUpdates(func(u *sim.Updates) { u.SearchCode = 0x80240438 })
		searched := mustSummary(t, m).Searched
		time.Sleep(2 * afterNextQuery)
		if s := mustSummary(t, m); s.Searched.Sub(searched) > time.Hour || !strings.Contains(s.Blocked, "no route") {
			t.Errorf("after searches that failed, the summary is %s", s.Format())
		}
	})
}

func TestOrderedUpdatesAreInstalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := installer(t, "states are expected at times", nil, offer(1), offer(2, func(o *sim.Offer) { o.Restart = windowsupdate.RestartNever }))
		mustOrder(t, m, "first", november)
		mustOrder(t, m, "first", november)
		time.Sleep(time.Minute)
		mustState(t, m, windowsupdate.Installing, "")
		if err := order(t, m, "second", november); err == nil {
			t.Error("another order replaces one that is carried out")
		}
		time.Sleep(10 * time.Minute)
		mustState(t, m, windowsupdate.RestartRequired, "")
		if i := mustSummary(t, m).Installation; i.Boot != m.Windows.BootID() {
			t.Errorf("a restart is required in boot %q, the host is in %q", i.Boot, m.Windows.BootID())
		}
		if got := offered(t, m); got != "KB5070002" {
			t.Errorf("before the restart, the Node offers %q", got)
		}
		time.Sleep(24 * time.Hour)
		if all, _ := m.Windows.RestartsRequested(); all > 0 {
			t.Error("WICD has restarted the host")
		}
		m.Restart(t)
		mustState(t, m, windowsupdate.Done, "")
		mustOrder(t, m, "second", "KB5070002")
		time.Sleep(10 * time.Minute)
		mustState(t, m, windowsupdate.Done, "")
		if got := offered(t, m); got != "" {
			t.Errorf("in the end, the Node offers %q", got)
		}
		if u := m.Windows.Updates(); u.Installs != 2 {
			t.Errorf("the agent has installed %d times", u.Installs)
		}
	})
}

// TestInstallationsThatFail expects the reason, and that nothing is tried again.
func TestInstallationsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		offer   func(*sim.Offer)
		edit    func(*sim.Updates)
		restart bool
		message string
	}{
		"refused":       {offer: func(o *sim.Offer) { o.Code = 0x80070643 }, message: "KB5070001 failed with 0x80070643 (the installer of the update failed)"},
		"taken back":    {offer: func(o *sim.Offer) { o.Undone = true }, restart: true, message: "Windows rolled back KB5070001 during its restart: 0x800f0922"},
		"always busy":   {edit: func(u *sim.Updates) { u.Busy = true }, message: "not installed within 2h0m0s"},
		"hangs":         {offer: func(o *sim.Offer) { o.Takes = 1000 * time.Hour }, message: "not installed within 2h0m0s"},
		"silent":        {edit: func(u *sim.Updates) { u.Hangs = true }, message: "not installed within 2h0m0s"},
		"agent fails":   {edit: func(u *sim.Updates) { u.Fails = fmt.Errorf("no process") }, message: "not installed within 2h0m0s: no process"},
		"agent is gone": {edit: func(u *sim.Updates) { u.Edit = func(r *windowsupdate.Report) { r.Disabled = true } }, message: "service wuauserv is disabled"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				change := func(*sim.Offer) {}
				if c.offer != nil {
					change = c.offer
				}
				m := installer(t, "restarts are counted", nil, offer(1, change))
				if c.edit != nil {
					m.Windows.EditUpdates(c.edit)
				}
				mustOrder(t, m, "first", november)
				time.Sleep(time.Hour)
				if c.restart {
					mustState(t, m, windowsupdate.RestartRequired, "")
					m.Restart(t)
				}
				time.Sleep(3 * time.Hour)
				mustState(t, m, windowsupdate.Failed, c.message)
				installs := m.Windows.Updates().Installs
				time.Sleep(24 * time.Hour)
				if n := m.Windows.Updates().Installs; n != installs {
					t.Errorf("installed %d times after the failure", n-installs)
				}
			})
		})
	}
}

// TestInterruptedInstallationContinues interrupts WICD or Windows in the middle of an installation.
func TestInterruptedInstallationContinues(t *testing.T) {
	for name, interrupt := range map[string]func(*testing.T, *daemontest.Member){
		"WICD":    func(t *testing.T, m *daemontest.Member) { m.Stop(); m.Start(t) },
		"Windows": func(t *testing.T, m *daemontest.Member) { m.Restart(t) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := installer(t, "restarts are counted", nil, offer(1))
				mustOrder(t, m, "first", november)
				time.Sleep(2 * time.Minute)
				interrupt(t, m)
				time.Sleep(30 * time.Minute)
				mustState(t, m, windowsupdate.RestartRequired, "")
				m.Restart(t)
				mustState(t, m, windowsupdate.Done, "")
			})
		})
	}
}

// TestRestartBeforeInstallation: an earlier installation waits for a restart, once.
func TestRestartBeforeInstallation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := installer(t, "restarts are counted", nil, offer(1))
		m.Windows.EditUpdates(func(u *sim.Updates) { u.RestartFirst = true })
		mustOrder(t, m, "first", november)
		time.Sleep(30 * time.Minute)
		mustState(t, m, windowsupdate.RestartRequired, "an earlier installation waits for a restart")
		m.Restart(t)
		time.Sleep(30 * time.Minute)
		mustState(t, m, windowsupdate.RestartRequired, "")
		m.Restart(t)
		mustState(t, m, windowsupdate.Done, "")
	})
}

// TestUpdatesThatAreNotPendingAreDone: Windows has installed them without an order, or they are no longer offered.
func TestUpdatesThatAreNotPendingAreDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := installer(t, "states are expected at times", nil, offer(1))
		m.Windows.EditUpdates(func(u *sim.Updates) { u.Offers = nil })
		time.Sleep(afterNextQuery)
		mustOrder(t, m, "first", november)
		time.Sleep(time.Minute)
		mustState(t, m, windowsupdate.Done, "")
		if n := m.Windows.Updates().Installs; n > 0 {
			t.Errorf("the agent has installed %d times", n)
		}
	})
}

func TestUpdateThatIsNotSelectedIsNotInstalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := installer(t, "states are expected at times", []string{november}, offer(1))
		mustOrder(t, m, "first", november)
		time.Sleep(time.Minute)
		mustState(t, m, windowsupdate.Failed, november+" is not selected by spec.windowsUpdates of WindowsConfig")
	})
}

// TestRevisionIsJudgedAfterInstallation installs an update that leaves the revision of Windows below the minimum.
func TestRevisionIsJudgedAfterInstallation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := installer(t, "states are expected at times", nil, offer(1, func(o *sim.Offer) { o.Restart = windowsupdate.RestartNever }))
		build, revision, err := m.Windows.Host().Inventory.Version(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		node := m.Changed()
		node.UpdatesToInstall = &windowsupdate.Selection{Classes: []windowsupdate.Class{windowsupdate.Security}}
		node.UpdateGoal.Revisions = map[string]int{strconv.Itoa(build): revision + 1}
		m.Follow(t, node)
		time.Sleep(afterNextQuery)
		mustOrder(t, m, "first", november)
		time.Sleep(10 * time.Minute)
		mustState(t, m, windowsupdate.Done, "")
		if c := m.Condition(api.ConditionUpdatesOverdue); c.Reason != api.ReasonRevisionTooLow {
			t.Errorf("the condition is %+v, want %s", c, api.ReasonRevisionTooLow)
		}
	})
}

// TestOnlyCordonedNodesInstall: the cordon is the proof that the operator has drained the node.
func TestOnlyCordonedNodesInstall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := installer(t, "states are expected at times", nil, offer(1))
		cordon(m, false)
		mustOrder(t, m, "first", november)
		time.Sleep(30 * time.Minute)
		mustState(t, m, windowsupdate.Installing, "the node is not cordoned")
		if n := m.Windows.Updates().Installs; n > 0 {
			t.Errorf("the agent has installed %d times", n)
		}
		cordon(m, true)
		time.Sleep(10 * time.Minute)
		mustState(t, m, windowsupdate.RestartRequired, "")
	})
}

// TestOrderEndsWithThePolicy: when updates are to be installed again, an earlier order does not continue.
func TestOrderEndsWithThePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := installer(t, "states are expected at times", nil, offer(1))
		m.Windows.EditUpdates(func(u *sim.Updates) { u.Busy = true })
		mustOrder(t, m, "first", november)
		time.Sleep(time.Minute)
		installing := m.Changed()
		installing.UpdatesToInstall = &windowsupdate.Selection{Classes: []windowsupdate.Class{windowsupdate.Security}}
		m.Follow(t, m.Changed())
		time.Sleep(2 * time.Minute)
		if i := mustSummary(t, m).Installation; i != nil {
			t.Errorf("the Node reports installation %+v", i)
		}
		m.Windows.EditUpdates(func(u *sim.Updates) { u.Busy = false })
		m.Follow(t, installing)
		time.Sleep(30 * time.Minute)
		mustState(t, m, windowsupdate.Failed, "no longer Install")
		if n := len(offered(t, m)); n == 0 {
			t.Error("the update was installed")
		}
	})
}

func TestNodesWithoutThePolicyRefuseOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, "")
		m.Windows.EditUpdates(func(u *sim.Updates) { u.Offers = []sim.Offer{offer(1)} })
		time.Sleep(afterNextQuery)
		daemontest.ExpectCode(t, order(t, m, "first", november), wicdapi.CodeRequestInvalid)
		if u := m.Windows.Updates(); u.Searches+u.Downloads+u.Installs > 0 || offered(t, m) != "" {
			t.Errorf("the agent has searched %d, downloaded %d and installed %d times", u.Searches, u.Downloads, u.Installs)
		}
	})
}
