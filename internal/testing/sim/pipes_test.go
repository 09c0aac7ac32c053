package sim_test

import (
	"testing"

	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestSimulatedPipesKeepTheContract(t *testing.T) {
	contract.Pipes(t, func(t *testing.T) contract.PipesFixture {
		w := mustNewComputer(t, nil)
		return contract.PipesFixture{Pipes: w.Host().Pipes, Dial: w.DialPipe}
	})
}
