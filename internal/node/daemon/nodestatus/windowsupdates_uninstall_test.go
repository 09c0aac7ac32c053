package nodestatus_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// cumulative brings Windows to a revision.
func cumulative(revision int) func(*sim.Offer) {
	return func(o *sim.Offer) { o.Revision = revision }
}

// undo orders to undo an installation.
func undo(t *testing.T, m *daemontest.Member, name, installation string) error {
	t.Helper()
	request := wicdapi.InstallUpdatesRequest{Order: name, Undoes: installation}
	return wicdapi.Call(t.Context(), daemontest.NewWire(m.Windows), wicdapi.CommandInstallUpdates, request, &wicdapi.InstallUpdatesResult{}, nil)
}

func mustRevision(t *testing.T, m *daemontest.Member, want int) {
	t.Helper()
	if _, got, err := m.Windows.Host().Inventory.Version(t.Context()); err != nil || got != want {
		t.Errorf("Windows has revision %d, %v, want %d", got, err, want)
	}
}

func TestCumulativeUpdateIsUninstalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := installer(t, "states are expected at times", nil, offer(1, cumulative(9999)))
		_, before, err := m.Windows.Host().Inventory.Version(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		mustOrder(t, m, "first", november)
		time.Sleep(10 * time.Minute)
		if err := undo(t, m, "back", "first"); err == nil || !strings.Contains(err.Error(), "no cumulative update was installed") {
			t.Errorf("before the restart: %v", err)
		}
		m.Restart(t)
		time.Sleep(10 * time.Minute)
		mustState(t, m, windowsupdate.Done, "")
		mustRevision(t, m, 9999)
		if err := undo(t, m, "back", "another"); err == nil || !strings.Contains(err.Error(), `the last order of this host is "first"`) {
			t.Errorf("undoing another order: %v", err)
		}
		if err := undo(t, m, "back", "first"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		mustState(t, m, windowsupdate.RestartRequired, "")
		mustRevision(t, m, 9999)
		m.Restart(t)
		time.Sleep(10 * time.Minute)
		mustState(t, m, windowsupdate.Done, fmt.Sprintf("revision %d", before))
		mustRevision(t, m, before)
		if err := undo(t, m, "again", "back"); err == nil {
			t.Error("the undoing of an installation is undone")
		}
	})
}

func TestUninstallationStopsAtErrors(t *testing.T) {
	for name, test := range map[string]struct {
		edit    func(m *daemontest.Member)
		state   windowsupdate.InstallationState
		message string
	}{
		"DISM refuses": {func(m *daemontest.Member) { m.Windows.EditUpdates(func(u *sim.Updates) { u.RemoveCode = 0x800f0825 }) },
			windowsupdate.Failed, "DismRemovePackage"},
		"the node is not cordoned": {func(m *daemontest.Member) { cordon(m, false) }, windowsupdate.Installing, "not cordoned"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := installer(t, "states are expected at times", nil, offer(1, cumulative(9999)))
				mustOrder(t, m, "first", november)
				time.Sleep(10 * time.Minute)
				m.Restart(t)
				time.Sleep(10 * time.Minute)
				mustState(t, m, windowsupdate.Done, "")
				test.edit(m)
				time.Sleep(time.Minute) // WICD sees the Node
				if err := undo(t, m, "back", "first"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				mustState(t, m, test.state, test.message)
				mustRevision(t, m, 9999)
			})
		})
	}
}
