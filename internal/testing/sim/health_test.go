package sim_test

import (
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestSimulatedMemoryKeepsTheContract(t *testing.T) {
	contract.Memory(t, func(t *testing.T) contract.MemoryFixture {
		w := mustNewComputer(t, nil)
		return contract.MemoryFixture{
			Inventory: w.Host().Inventory, System: w.Host().System, Commit: func(_ *testing.T, bytes uint64) { w.Commit(bytes) },
		}
	})
}

func TestSimulatedAccountsKeepTheContract(t *testing.T) {
	contract.Accounts(t, func(t *testing.T) contract.AccountsFixture {
		w := mustNewComputer(t, nil)
		classes := map[string]bool{}
		edit := func(id string, change func(a *sim.Accounts)) {
			w.EditAccounts(func(a *sim.Accounts) {
				if a.Plugins == nil {
					a.Plugins = map[string]bool{}
				}
				change(a)
				for name := range a.Plugins {
					a.Plugins[name] = classes[strings.ToUpper(name)]
				}
			})
		}
		return contract.AccountsFixture{
			Accounts: w.Host().Accounts,
			Join:     func(_ *testing.T, domain string) { w.EditAccounts(func(a *sim.Accounts) { a.Domain = domain }) },
			Register: func(_ *testing.T, id string) { edit(id, func(a *sim.Accounts) { a.Plugins[id] = true }) },
			Class: func(_ *testing.T, id string) {
				classes[strings.ToUpper(id)] = true
				edit(id, func(*sim.Accounts) {})
			},
		}
	})
}
