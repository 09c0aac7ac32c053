package sim_test

import (
	"testing"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/sim"
	"github.com/windows-machine-config/wmco/internal/sim/contract"
)

func TestSimulatedHNSStateKeepsTheContract(t *testing.T) {
	contract.HNSState(t, func(t *testing.T) contract.HNSStateFixture {
		features := map[string]agent.FeatureState{desired.ContainersFeature: agent.FeatureEnabled}
		if t.Name() == "TestSimulatedHNSStateKeepsTheContract/NoServiceIsMade" {
			features[desired.ContainersFeature] = agent.FeatureDisabled
		}
		w := sim.NewWindows(sim.WindowsOptions{Root: t.TempDir(), Features: features})
		t.Cleanup(w.PowerOff)
		return contract.HNSStateFixture{State: w.Host().HNSState, Without: func(*testing.T) {}}
	})
}
