package sim_test

import (
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestSimulatedHNSStateKeepsTheContract(t *testing.T) {
	contract.HNSState(t, func(t *testing.T) contract.HNSStateFixture {
		features := map[string]wicdapi.FeatureState{desired.ContainersFeature: wicdapi.FeatureEnabled}
		if t.Name() == "TestSimulatedHNSStateKeepsTheContract/NoServiceIsMade" {
			features[desired.ContainersFeature] = wicdapi.FeatureDisabled
		}
		w := sim.NewWindows(sim.WindowsOptions{Root: t.TempDir(), Features: features})
		t.Cleanup(w.PowerOff)
		return contract.HNSStateFixture{State: w.Host().HNSState, Without: func(*testing.T) {}}
	})
}
