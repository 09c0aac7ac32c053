package sim_test

import (
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestSimulatedEventLogsKeepTheContract(t *testing.T) {
	contract.EventLogs(t, func(t *testing.T) contract.EventLogsFixture {
		w := mustNewComputer(t, nil)
		return contract.EventLogsFixture{
			EventLogs: w.Host().EventLogs, Inventory: w.Host().Inventory, Channel: "Application", Provider: "WICD contract",
			Write: func(_ *testing.T, id uint32, message string) {
				w.WriteEvent("Application", hostapi.Event{Provider: "WICD contract", ID: id, Level: hostapi.EventWarning, Message: message})
			},
			Clear: func(*testing.T) { w.ClearEvents("Application") },
		}
	})
}
