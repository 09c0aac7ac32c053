package sim_test

import (
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestSimulatedFirewallKeepsTheContract(t *testing.T) {
	contract.Firewall(t, func(t *testing.T) contract.FirewallFixture {
		w := mustNewComputer(t, nil)
		edit := func(edit func(*sim.Rule)) func(*testing.T, string) {
			return func(_ *testing.T, name string) { w.EditRules(name, edit) }
		}
		return contract.FirewallFixture{
			Firewall: w.Host().Firewall,
			Rules: func(*testing.T) []contract.Rule {
				var rules []contract.Rule
				for _, r := range w.Rules() {
					rules = append(rules, contract.Rule{FirewallRule: r.FirewallRule, Ours: r.Group == hostapi.FirewallGroup, Works: !r.Disabled})
				}
				return rules
			},
			Give: func(_ *testing.T, r desired.FirewallRule) { w.AddRule(sim.Rule{FirewallRule: r}) },
			Edits: map[string]func(*testing.T, string){
				"disabled":    edit(func(r *sim.Rule) { r.Disabled = true }),
				"other ports": edit(func(r *sim.Rule) { r.Ports = []uint16{1} }),
				"one client":  edit(func(r *sim.Rule) { r.From = []string{"192.0.2.1/32"} }),
				"everybody":   edit(func(r *sim.Rule) { r.From = []string{"0.0.0.0/1", "128.0.0.0/1"} }),
				"protocol":    edit(func(r *sim.Rule) { r.Protocol = desired.TCP }),
			},
			Stop: func(*testing.T) { w.StopFirewall(true) },
		}
	})
}
