package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

const (
	november = "KB5070001" // published a week ago
	dotnet   = "KB5070002" // published yesterday
)

func offer(kb string) windowsupdate.Offer {
	published := noon().AddDate(0, 0, -7)
	if kb == dotnet {
		published = noon().AddDate(0, 0, -1)
	}
	return windowsupdate.Offer{KB: kb, Published: published}
}

// offers makes a node of the wanted version offer updates.
func offers(kbs ...string) func(*rollout.Host) {
	return func(h *rollout.Host) {
		upToDate(h)
		for _, kb := range kbs {
			h.Node.Offers = append(h.Node.Offers, offer(kb))
		}
	}
}

func offered(h *rollout.Host) { offers(november)(h) }

func patching(h *rollout.Host) {
	upToDate(h)
	h.Node.Unschedulable, h.Node.CordonedFor = true, v1alpha1.ActionPatch
	h.Maintenance = &v1alpha1.Maintenance{
		Action: v1alpha1.ActionPatch, Step: v1alpha1.MaintenanceAct, Disruption: v1alpha1.DisruptionReboot, Updates: []string{november},
	}
}

// patched makes a node have the update for a time.
func patched(ago time.Duration) func(*rollout.Host) {
	return func(h *rollout.Host) {
		upToDate(h)
		h.Installed = append(h.Installed, v1alpha1.InstalledUpdate{Article: november, At: metav1.NewTime(noon().Add(-ago))})
	}
}

func patchFailed(h *rollout.Host) {
	upToDate(h)
	h.Failure = &v1alpha1.Failure{Action: v1alpha1.ActionPatch, Step: v1alpha1.MaintenanceAct, Updates: []string{november}, Message: "the disk is full"}
}

func patchNotDrained(h *rollout.Host) { patchFailed(h); h.Failure.Step = v1alpha1.MaintenanceDrain }
func early(h *rollout.Host)           { h.Node.Labels = map[string]string{"ring": "early"} }
func late(h *rollout.Host)            { h.Node.Labels = map[string]string{"ring": "late"} }

func rings() []rollout.Ring {
	ring := func(name string, days int) rollout.Ring {
		return rollout.Ring{Name: name, Selector: labels.SelectorFromSet(labels.Set{"ring": name}), Defer: time.Duration(days) * 24 * time.Hour}
	}
	return []rollout.Ring{ring("early", 0), ring("late", 5)}
}

func withUpdates(n int, rings ...rollout.Ring) rollout.Policy {
	p := allow(n)
	p.Updates = &rollout.Updates{Rings: rings}
	return p
}

func all(changes ...func(*rollout.Host)) func(*rollout.Host) {
	return func(h *rollout.Host) {
		for _, change := range changes {
			change(h)
		}
	}
}

func TestUpdatesAreInstalled(t *testing.T) {
	canary := withUpdates(5)
	canary.Canary = &rollout.Canary{Count: 1, Soak: 10 * time.Minute}
	blocked := withUpdates(5)
	blocked.Updates.Blocked = []string{november}
	reboots := withUpdates(5)
	reboots.Reboots = true
	closed, err := rollout.ParseWindow(v1alpha1.MaintenanceWindow{Schedule: "0 22 * * 6", Duration: "1h"})
	if err != nil {
		t.Fatal(err)
	}
	window := withUpdates(5)
	window.Windows = []rollout.Window{closed}
	for name, c := range map[string]struct {
		policy rollout.Policy
		hosts  []rollout.Host
		want   string // as describe, with the updates of each action that begins
	}{
		"policy does not install":    {allow(5), hosts(1, offered), ""},
		"nothing offered":            {withUpdates(5), hosts(1, upToDate), ""},
		"budget":                     {withUpdates(1), hosts(2, offered), "win-00:Patch KB5070001, win-01:Patch?Budget"},
		"window":                     {window, hosts(1, offered), "win-00:Patch?MaintenanceWindow"},
		"paused host":                {withUpdates(5), hosts(1, offered, paused), "win-00:Patch?Paused"},
		"node not Ready":             {withUpdates(5), hosts(1, offered, notReady), "win-00:Patch?NodeNotReady"},
		"two updates, one restart":   {withUpdates(5), hosts(1, offers(november, dotnet)), "win-00:Patch KB5070001,KB5070002"},
		"blocked":                    {blocked, hosts(1, offers(november, dotnet)), "win-00:Patch KB5070002"},
		"only a blocked one":         {blocked, hosts(1, offered), ""},
		"upgrade first":              {withUpdates(5), hosts(1, offered, func(h *rollout.Host) { h.Node.Version = old }), "win-00:Upgrade"},
		"shares the pending restart": {reboots, hosts(1, offered, pending), "win-00:Patch KB5070001"},
		"restart while held back": {
			reboots, named(host("", offered, pending), host("", patchFailed)), "win-00:Reboot",
		},
		"requested restart first": {withUpdates(5), hosts(1, offered, requestReboot), "win-00:Reboot"},
		"leaving":                 {withUpdates(5), hosts(1, offered, leaving), "win-00:Leave"},
		"continues when nothing is offered any more": {
			withUpdates(5), hosts(1, patching), "win-00:Patch KB5070001",
		},
		"failed here":        {withUpdates(5), hosts(1, offered, patchFailed), "win-00:Patch?Failed"},
		"failed elsewhere":   {withUpdates(5), named(host("", offered), host("", patchFailed)), "win-00:Patch?RolloutStopped"},
		"another one failed": {withUpdates(5), named(host("", offers(november, dotnet)), host("", patchFailed)), "win-00:Patch KB5070002"},
		"three have failed here": {
			withUpdates(5), hosts(1, offers(dotnet), patchFailed, func(h *rollout.Host) { h.Failure.Attempts = 3 }), "win-00:Patch?Failed",
		},
		"failed on a paused host": {
			withUpdates(5), named(host("", offered), host("", patchFailed, paused)), "win-00:Patch KB5070001",
		},
		"drain timed out elsewhere": {withUpdates(5), named(host("", offered), host("", patchNotDrained)), "win-00:Patch KB5070001"},
		"drain timed out here":      {withUpdates(5), hosts(1, offers(dotnet), patchNotDrained), "win-00:Patch?Failed"},
		"never began here": {
			withUpdates(5), named(host("", offers(dotnet), patchFailed, func(h *rollout.Host) { h.Failure.Updates = nil }), host("", offered)),
			"win-00:Patch?Failed, win-01:Patch KB5070001",
		},
		"offered again":        {withUpdates(5), hosts(1, offered, patched(time.Hour)), "win-00:Patch?UpdateNotKept"},
		"canary begins":        {canary, hosts(2, offered), "win-00:Patch KB5070001, win-01:Patch?Canary"},
		"canary in progress":   {canary, named(host("", patching), host("", offered)), "win-00:Patch KB5070001, win-01:Patch?Canary"},
		"canary soaks":         {canary, named(host("", patched(time.Minute)), host("", offered)), "win-01:Patch?Canary"},
		"canary does not work": {canary, named(host("", patched(time.Hour), unhealthy), host("", offered)), "win-01:Patch?Canary"},
		"canary has soaked":    {canary, named(host("", patched(time.Hour)), host("", offered)), "win-01:Patch KB5070001"},
		"in no ring":           {withUpdates(5, rings()...), hosts(1, offered), "win-00:Patch?UpdateRing"},
		"in two rings": {
			withUpdates(5, append(rings(), rollout.Ring{Name: "all", Selector: labels.Everything()})...), hosts(1, all(offered, early)), "win-00:Patch?UpdateRing",
		},
		"early ring first": {
			withUpdates(5, rings()...), named(host("", all(offered, early)), host("", all(offered, late))), "win-00:Patch KB5070001, win-01:Patch?UpdateRing",
		},
		"early ring is busy": {
			withUpdates(5, rings()...), named(host("", all(patching, early)), host("", all(offered, late))), "win-00:Patch KB5070001, win-01:Patch?UpdateRing",
		},
		"early ring soaks": {
			withUpdates(5, rings()...), named(host("", all(patched(time.Minute), early)), host("", all(offered, late))), "win-01:Patch?UpdateRing",
		},
		"early ring works": {
			withUpdates(5, rings()...), named(host("", all(patched(time.Hour), early)), host("", all(offered, late))), "win-01:Patch KB5070001",
		},
		"early ring does not need it": {
			withUpdates(5, rings()...), named(host("", all(upToDate, early)), host("", all(offered, late))), "win-01:Patch KB5070001",
		},
		"deferred": {
			withUpdates(5, rings()...), hosts(1, all(offers(dotnet), late)), "win-00:Patch?UpdateDeferred",
		},
		"one deferred": {
			withUpdates(5, rings()...), hosts(1, all(offers(november, dotnet), late)), "win-00:Patch KB5070001",
		},
		"unknown publication": {
			withUpdates(5, rings()...), hosts(1, all(offered, late, func(h *rollout.Host) { h.Node.Offers[0].Published = time.Time{} })), "win-00:Patch?UpdateDeferred",
		},
	} {
		plan := rollout.Decide(rollout.Fleet{Policy: c.policy, Hosts: c.hosts, Now: noon()})
		if got := describePatches(plan); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func describePatches(p rollout.Plan) string {
	var parts []string
	for _, h := range []string{"win-00", "win-01"} {
		next, planned := p.Hosts[h]
		switch {
		case !planned:
		case next.WaitsFor != "":
			parts = append(parts, fmt.Sprintf("%s:%s?%s", h, next.Action, next.WaitsFor))
		default:
			parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s:%s %s", h, next.Action, next.Updates)))
		}
	}
	return strings.Join(parts, ", ")
}

func TestPatchSaysWhatItInstallsAndHowItDisrupts(t *testing.T) {
	quiet := func(h *rollout.Host) {
		for i := range h.Node.Offers {
			h.Node.Offers[i].NoRestart = true
		}
	}
	for name, c := range map[string]struct {
		host        rollout.Host
		disruption  v1alpha1.PlanDisruption
		wantMessage string
	}{
		"restart":    {host("win-00", offers(november)), v1alpha1.DisruptionReboot, "installs KB5070001 (published 2026-02-23)"},
		"no restart": {host("win-00", offers(dotnet), quiet), v1alpha1.DisruptionDrain, "installs KB5070002 (published 2026-03-01)"},
		"held back": {
			host("win-00", offers(november), patched(time.Hour)), v1alpha1.DisruptionDrain,
			"the node needs KB5070001; KB5070001 was installed, and the node worked with it at 2026-03-02T11:00:00Z, but Windows offers it again; " +
				"to install it once more, annotate the WindowsInstance with " + api.AnnotationRetry + "=true",
		},
	} {
		next := rollout.Decide(rollout.Fleet{Policy: withUpdates(1), Hosts: []rollout.Host{c.host}, Now: noon()}).Hosts["win-00"]
		if next.Disruption != c.disruption || next.Message != c.wantMessage {
			t.Errorf("%s: disruption %s, message %q; want %s, %q", name, next.Disruption, next.Message, c.disruption, c.wantMessage)
		}
	}
}

func TestDeferredUpdateIsDecidedAgainWhenItIsDue(t *testing.T) {
	plan := rollout.Decide(rollout.Fleet{Policy: withUpdates(1, rings()...), Hosts: hosts(1, all(offers(dotnet), late)), Now: noon()})
	if want := noon().AddDate(0, 0, 4); !plan.RecheckAt.Equal(want) {
		t.Errorf("decided again at %s, want %s", plan.RecheckAt, want)
	}
}

func TestForecastsUpdates(t *testing.T) {
	policy := withUpdates(1, rings()...)
	fleet := rollout.Fleet{Policy: policy, Now: noon(), Hosts: named(host("", all(offered, early)), host("", all(offered, late)))}
	steps, waiting, _ := rollout.Forecast(fleet, 10*time.Minute)
	var got []string
	for _, s := range steps {
		got = append(got, fmt.Sprintf("%s %s %s", s.Host, s.Action, s.At.Sub(noon())))
	}
	if want := []string{"win-00 Patch 0s", "win-01 Patch 20m0s"}; !slices.Equal(got, want) || len(waiting) > 0 {
		t.Errorf("the steps are %q, waiting %v; want %q", got, waiting, want)
	}
}

func TestUpdatesOfSpec(t *testing.T) {
	spec := v1alpha1.WindowsUpdatesSpec{Policy: v1alpha1.UpdatesInstall, Rings: []v1alpha1.UpdateRing{
		{Name: "early", NodeSelector: metav1.LabelSelector{MatchLabels: map[string]string{"ring": "early"}}},
		{Name: "wrong", NodeSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "ring", Operator: "Near"}}}, DeferDays: 2},
	}}
	u, faults := rollout.UpdatesOf(spec)
	if len(u.Rings) != 2 || !u.Rings[0].Selector.Matches(labels.Set{"ring": "early"}) || u.Rings[1].Selector.Matches(labels.Set{"ring": "early"}) || u.Rings[1].Defer != 48*time.Hour {
		t.Errorf("the rings are %+v", u.Rings)
	}
	if want := `spec.windowsUpdates.rings[1].nodeSelector: "Near" is not a valid label selector operator`; len(faults) != 1 || faults[0] != want {
		t.Errorf("the faults are %q, want %q", faults, want)
	}
	for _, policy := range []v1alpha1.WindowsUpdatePolicy{"", v1alpha1.UpdatesNotify, v1alpha1.UpdatesUnmanaged} {
		if u, _ := rollout.UpdatesOf(v1alpha1.WindowsUpdatesSpec{Policy: policy}); u != nil {
			t.Errorf("policy %q installs updates", policy)
		}
	}
}
