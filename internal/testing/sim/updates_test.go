package sim_test

import (
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

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
		}
	})
}
