package rollout_test

import (
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// replaced makes win-01 take the place of a host with Windows Server 2022.
func replaced(h *rollout.Host) {
	upToDate(h)
	h.ReplaceWith, h.Node.Build = "win-01", windowsbuild.Server2022
}

// newer has worked with Windows Server 2025 for an hour.
func newer(h *rollout.Host) {
	upToDate(h)
	h.Node.Build, h.Node.WorksSince = windowsbuild.Server2025, noon().Add(-time.Hour)
}

// TestRequestedReplacement expects a host to be replaced only when the other one has proven that it works, and to get what it needs until then.
func TestRequestedReplacement(t *testing.T) {
	const waits = "win-00:Replace?ReplacementNotReady"
	failed := func(h *rollout.Host) {
		h.Failure = &v1alpha1.Failure{Action: v1alpha1.ActionReplace, Message: "these pods may find no other node"}
	}
	for name, test := range map[string]struct {
		policy rollout.Policy
		hosts  []rollout.Host
		want   string
	}{
		"the other host works":       {allow(1), named(host("", replaced), host("", newer)), "win-00:Replace"},
		"it has the same version":    {allow(1), named(host("", replaced), host("", newer, func(h *rollout.Host) { h.Node.Build = windowsbuild.Server2022 })), "win-00:Replace"},
		"it has an older version":    {allow(1), named(host("", replaced), host("", newer, func(h *rollout.Host) { h.Node.Build = windowsbuild.Server2019 })), waits},
		"it does not exist":          {allow(1), named(host("", replaced)), waits},
		"it is not a node yet":       {allow(1), named(host("", replaced), host("", fresh)), waits + " win-01:Join"},
		"it is not Ready":            {allow(2), named(host("", replaced), host("", newer, notReady)), waits},
		"its services do not work":   {allow(2), named(host("", replaced), host("", newer, unhealthy)), waits},
		"it is cordoned":             {allow(2), named(host("", replaced), host("", newer, cordoned)), waits},
		"it is being deleted":        {allow(2), named(host("", replaced), host("", newer, leaving)), waits + " win-01:Leave"},
		"it is replaced itself":      {allow(2), named(host("", replaced), host("", newer, func(h *rollout.Host) { h.ReplaceWith = "win-02" })), waits + " win-01:Replace?ReplacementNotReady"},
		"it has worked for a moment": {allow(1), named(host("", replaced), host("", newer, func(h *rollout.Host) { h.Node.WorksSince = noon().Add(-time.Minute) })), waits},

		"the user has paused the host":       {allow(1), named(host("", replaced, paused), host("", newer)), "win-00:Replace?Paused"},
		"one at a time":                      {allow(1), named(host("", replaced), host("", newer), host("", replaced)), "win-00:Replace win-02:Replace?Budget"},
		"it failed before":                   {allow(1), named(host("", replaced, failed), host("", newer)), "win-00:Replace?Failed"},
		"an upgrade does not wait for it":    {allow(1), named(host("", replaced, func(h *rollout.Host) { h.Node.Version = old })), "win-00:Upgrade"},
		"an upgrade after it failed":         {allow(1), named(host("", replaced, failed, func(h *rollout.Host) { h.Node.Version = old }), host("", newer)), "win-00:Upgrade"},
		"no upgrade of a host that can go":   {allow(1), named(host("", replaced, func(h *rollout.Host) { h.Node.Version = old }), host("", newer)), "win-00:Replace"},
		"a host that has left does not join": {allow(1), named(host("", replaced, fresh), host("", newer)), "win-00:Join?Replaced"},
		"a host of a ConfigMap entry":        {allow(1), named(host("", replaced, func(h *rollout.Host) { h.Source = api.SourceConfigMap }), host("", newer)), waits},
		"such a host joins":                  {allow(1), named(host("", replaced, fresh, func(h *rollout.Host) { h.Source = api.SourceConfigMap }), host("", newer)), "win-00:Join"},
		"a Machine is replaced as usual": {allow(1), named(host("", replaced, func(h *rollout.Host) {
			h.Source, h.ReplaceReason = api.SourceMachine, "it knows no key"
		})), "win-00:Replace"},
	} {
		t.Run(name, func(t *testing.T) {
			plan := rollout.Decide(rollout.Fleet{Policy: test.policy, Hosts: test.hosts, Now: noon()})
			if got := describe(plan); got != test.want {
				t.Errorf("got %q, want %q: %s", got, test.want, plan.Hosts["win-00"].Message)
			}
		})
	}
}

// TestReplacementBeginsAfterItsSoak expects a plan when the other host has worked for long enough.
func TestReplacementBeginsAfterItsSoak(t *testing.T) {
	since := noon().Add(-9 * time.Minute)
	hosts := named(host("", replaced), host("", newer, func(h *rollout.Host) { h.Node.WorksSince = since }))
	plan := rollout.Decide(rollout.Fleet{Policy: allow(1), Hosts: hosts, Now: noon()})
	if want := since.Add(10 * time.Minute); !plan.RecheckAt.Equal(want) {
		t.Errorf("decides again at %s, want %s", plan.RecheckAt, want)
	}
}

// TestReplacementNeedsNode expects no panic if the Node was deleted while it was drained.
func TestReplacementNeedsNode(t *testing.T) {
	with := host("win-01", newer)
	if fault, _ := rollout.ReplacementFault(host("win-00", replaced, withoutNode), &with, noon()); fault != "the host has no Node" {
		t.Errorf("got %q", fault)
	}
}
