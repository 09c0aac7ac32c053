package rollout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
)

// state is one value of a part of a host's input.
type state struct {
	name string
	set  func(*rollout.Host)
}

// nodeStates are states of a node, needs what a host can need, busyness what can be in progress.
func nodeStates() []state {
	return []state{
		{"serves", func(*rollout.Host) {}},
		{"not Ready for a minute", notReadyBriefly},
		{"not Ready for an hour", notReady},
		{"silent for a minute", silentBriefly},
		{"silent for an hour", silent},
		{"cordoned", cordoned},
		{"unhealthy", func(h *rollout.Host) { unhealthy(h); h.Node.UnhealthySince = noon().Add(-time.Hour) }},
		{"no Node", withoutNode},
	}
}

func needStates() []state {
	return []state{
		{"upgrade", func(*rollout.Host) {}},
		{"upgrade without a drain", restarts},
		{"nothing", upToDate},
		{"requested reboot", func(h *rollout.Host) { upToDate(h); requestReboot(h) }},
		{"Windows' reboot", func(h *rollout.Host) { upToDate(h); pending(h) }},
		{"updates", func(h *rollout.Host) { upToDate(h); offered(h) }},
		{"leave", leaving},
		{"leave as it is", func(h *rollout.Host) { leaving(h); released(h) }},
		{"replacement", func(h *rollout.Host) { upToDate(h); h.ReplaceReason = "it knows no key" }},
		{"requested replacement", func(h *rollout.Host) { newer(h); h.ReplaceWith = "win-02" }},
		{"adoption", takenOver},
	}
}

func busyness() []state {
	return []state{
		{"idle", func(*rollout.Host) {}},
		{"under way", inMaintenance},
		{"granted", granted},
		{"failed", failedHere},
		{"settles", recentlyDrained},
	}
}

func policies(t *testing.T) []rollout.Policy {
	closed, err := rollout.ParseWindow(v1alpha1.MaintenanceWindow{Schedule: "0 22 * * 6", Duration: "1h"})
	if err != nil {
		t.Fatal(err)
	}
	var all []rollout.Policy
	for n := range 16 {
		p := rollout.Policy{Version: wanted, MaxUnavailable: intstr.FromInt32(int32(1 + n&1)), Reboots: true, Updates: &rollout.Updates{}}
		if n&2 != 0 {
			p.Canary = &rollout.Canary{Count: 1, Soak: 10 * time.Minute}
		}
		if n&4 != 0 {
			p.Windows = []rollout.Window{closed}
		}
		p.Paused = n&8 != 0
		all = append(all, p)
	}
	return all
}

// TestRulesHoldForAllInputs checks the rules of docs/fleet.md, rather than exact plans, for all combinations of two hosts (any node, any need, any
// action in progress) and a third that serves and needs an upgrade, with all kinds of policies.
func TestRulesHoldForAllInputs(t *testing.T) {
	var all []rollout.Host
	var names []string
	for _, need := range needStates() {
		for _, node := range nodeStates() {
			for _, busy := range busyness() {
				h := host("")
				need.set(&h)
				busy.set(&h)
				node.set(&h)
				all = append(all, h)
				names = append(names, fmt.Sprintf("%s, %s, %s", need.name, node.name, busy.name))
			}
		}
	}
	policies := policies(t)
	for a := range all {
		for b := a; b < len(all); b++ {
			fleet := rollout.Fleet{Now: noon(), Hosts: named(all[a], all[b], host(""))}
			for _, fleet.Policy = range policies {
				plan := rollout.Decide(fleet)
				for _, broken := range rulesBroken(fleet, plan) {
					t.Errorf("%s\nwin-00: %s\nwin-01: %s\npolicy: %+v\nplan: %s", broken, names[a], names[b], fleet.Policy, describe(plan))
				}
				if t.Failed() {
					return
				}
			}
		}
	}
}

// rulesBroken returns the rules that a plan breaks.
func rulesBroken(f rollout.Fleet, plan rollout.Plan) (broken []string) {
	violate := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	limit := int(plan.Summary.MaxUnavailable)
	out, acting, started, upgrading, atRisk, silentNodes, soaked, dead := 0, 0, 0, 0, 0, 0, 0, 0
	stopped := false
	for _, h := range f.Hosts {
		if h.Node != nil && h.Node.Silent {
			silentNodes++
		}
		stopped = stopped || h.Failure != nil
	}
	for _, h := range f.Hosts {
		next, planned := plan.Hosts[h.Name]
		begins := planned && next.Begin && h.Maintenance == nil && h.Granted != next.Action
		takes := next.Disruption == v1alpha1.DisruptionDrain || next.Disruption == v1alpha1.DisruptionReboot || next.Action == v1alpha1.ActionUpgrade
		serves := h.Node != nil && h.Node.Ready && !h.Node.Unschedulable
		if planned && next.Begin == (next.WaitsFor != "") {
			violate("%s begins: %v, and waits for %q", h.Name, next.Begin, next.WaitsFor)
		}
		if h.Node != nil && (!serves || planned && next.Begin && takes) {
			out++
		}
		if h.Node != nil && (planned && next.Begin && takes || h.SettlesAt.After(f.Now)) {
			acting++
		}
		if next.Action == v1alpha1.ActionUpgrade && next.Begin && h.Node != nil && h.Node.Version != wanted {
			upgrading++
		}
		if h.Node != nil && h.Node.Version == wanted {
			switch {
			case serves && h.Node.Unhealthy == "":
				soaked++
			case h.Node.Silent && h.Node.NotReadySince.Before(noon().Add(-10*time.Minute)):
				dead++
				atRisk++
			default:
				atRisk++
			}
		}
		if !begins {
			continue
		}
		isLeave := next.Action == v1alpha1.ActionLeave
		if takes && h.Node != nil {
			started++
		}
		if f.Policy.Paused {
			violate("%s begins %s while all is paused", h.Name, next.Action)
		}
		if takes && h.Node != nil && !h.Node.Ready && h.Node.NotReadySince.After(noon().Add(-10*time.Minute)) {
			violate("%s begins %s on a node that has not been Ready for a minute", h.Name, next.Action)
		}
		if isLeave && !takes && h.Node != nil && (h.Node.Ready || !h.Released && h.Node.NotReadySince.After(noon().Add(-10*time.Minute))) {
			violate("%s leaves without a drain", h.Name)
		}
		if takes && !isLeave && silentNodes > limit {
			violate("%s begins %s while the fleet is silent", h.Name, next.Action)
		}
		waitsForWindow := next.Disruption == v1alpha1.DisruptionDrain || next.Disruption == v1alpha1.DisruptionReboot
		if waitsForWindow && !isLeave && next.RequestToken == "" && len(f.Policy.Windows) > 0 {
			violate("%s begins %s outside of the window", h.Name, next.Action)
		}
		if next.Action == v1alpha1.ActionUpgrade && stopped {
			violate("%s begins to go to a version that failed", h.Name)
		}
		if next.Action == v1alpha1.ActionUpgrade && h.Node != nil && h.Node.Version == wanted && !h.AdoptionPending {
			violate("%s goes to the version that it has", h.Name)
		}
		if next.Action == v1alpha1.ActionJoin && h.Node != nil && h.Node.Version != "" && h.Node.Version != wanted {
			violate("%s is joined with another version than its node has", h.Name)
		}
	}
	if started > 0 && acting > limit {
		violate("%d nodes are acted on, %d may be", acting, limit)
	}
	tookOneThatServed := slices.ContainsFunc(f.Hosts, func(h rollout.Host) bool {
		next := plan.Hosts[h.Name]
		return next.Begin && h.Maintenance == nil && h.Granted != next.Action && h.Node != nil && h.Node.Ready && !h.Node.Unschedulable &&
			(next.Disruption == v1alpha1.DisruptionDrain || next.Disruption == v1alpha1.DisruptionReboot || next.Action == v1alpha1.ActionUpgrade)
	})
	if tookOneThatServed && out > limit {
		violate("%d nodes are out of service, %d may be", out, limit)
	}
	if c := f.Policy.Canary; c != nil && soaked < c.Count {
		begins := slices.ContainsFunc(f.Hosts, func(h rollout.Host) bool {
			next := plan.Hosts[h.Name]
			return next.Action == v1alpha1.ActionUpgrade && next.Begin && h.Maintenance == nil && h.Granted != next.Action
		})
		if begins && atRisk+upgrading > c.Count+min(dead, 1) {
			violate("%d nodes go first or do not work, %d may", atRisk+upgrading, c.Count+min(dead, 1))
		}
	}
	if silentNodes > limit && len(plan.Unrepaired) != silentNodes-limit {
		violate("of %d silent nodes %d are not repaired, %d may be out of service", silentNodes, len(plan.Unrepaired), limit)
	}
	if plan.Summary.Waiting > 0 && plan.Summary.Message == "" || slices.Contains([]string{"", api.ReasonFailed}, plan.Summary.Message) {
		violate("the summary is %q", plan.Summary.Message)
	}
	return broken
}
