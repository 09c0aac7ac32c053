package sim_test

import (
	"net/netip"
	"testing"

	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestSimulatedRoutesKeepTheContract(t *testing.T) {
	contract.Routes(t, func(t *testing.T) contract.RoutesFixture {
		w := mustNewComputer(t, nil)
		return contract.RoutesFixture{
			Routes: w.Host().Routes, Address: netip.MustParseAddr("192.0.2.10"), Remove: func(*testing.T) { w.LoseRoutes() },
		}
	})
}
