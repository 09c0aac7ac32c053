package sim_test

import (
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestSimulatedDefenderKeepsTheContract(t *testing.T) {
	contract.Defender(t, func(t *testing.T) contract.DefenderFixture {
		w := mustNewComputer(t, nil)
		return contract.DefenderFixture{
			Defender:    w.Host().Defender,
			Stop:        func(*testing.T) { w.EditDefender(func(d *sim.Defender) { d.Stopped = true }) },
			SetByPolicy: func(_ *testing.T, e desired.Exclusions) { w.EditDefender(func(d *sim.Defender) { d.Policy = e }) },
			Hide:        func(*testing.T) { w.EditDefender(func(d *sim.Defender) { d.Hidden = true }) },
			Protect:     func(_ *testing.T, on bool) { w.EditDefender(func(d *sim.Defender) { d.RealTimeOff = !on }) },
		}
	})
}
