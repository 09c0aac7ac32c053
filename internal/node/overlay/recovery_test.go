package overlay_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/overlay"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

func TestNetworksAreRestoredAfterHNSLostThem(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(1)
		e.passes(20 * time.Second)
		h.service.ResetCalls()
		h.service.Restart(true)
		e.await(33*time.Second, "all is back", func() bool { return h.has(linuxRemote(1)) })
		e.await(3*time.Second, "the new address of the router is published", h.published)
		h.wantChanges(map[string]int{"CreateNetwork": 2, "AddRemotes": 1})
	})
}

func TestHNSRestartWithNetworksChangesNothing(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(1)
		before := h.service.State()
		h.service.ResetCalls()
		h.service.Stop()
		e.passes(10 * time.Minute)
		e.linux(2)
		e.passes(time.Minute)
		h.wantChanges(map[string]int{})
		h.service.Start(false)
		e.await(3*time.Second, "the changes during the outage are applied", func() bool { return h.has(linuxRemote(1), linuxRemote(2)) })
		e.passes(time.Minute)
		h.wantChanges(map[string]int{"AddRemotes": 1})
		if after := h.service.State(); after.Networks[0].ID != before.Networks[0].ID || after.Networks[1].ID != before.Networks[1].ID {
			t.Error("networks were created again")
		}
		if got, again := h.log.count("Configuring the overlay failed"), h.log.count("The overlay is configured"); got != 1 || again < 1 {
			t.Errorf("the log has %d failures of HNS, and %d recoveries", got, again)
		}
	})
}

func TestLossIsDetectedWhileNodesChange(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(1)
		n, _ := h.network(overlay.Network)
		h.service.Edit(n.ID, func(n *hns.Network) { n.Remotes = nil })
		for i := range 6 {
			e.linux(2 + i)
			e.passes(5 * time.Second)
		}
		if !h.has(linuxRemotes(8)[1:]...) {
			t.Error("the lost objects were not restored within 30 seconds")
		}
	})
}

// TestReappearingNetworkIsNotRecreated: a service that has just started may not have read its networks yet.
func TestReappearingNetworkIsNotRecreated(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(1)
		before := h.service.State()
		h.service.ResetCalls()
		h.service.Restart(true)
		e.passes(25 * time.Second)
		h.service.Add(before)
		e.passes(time.Minute)
		h.wantChanges(map[string]int{})
		if !h.has(linuxRemote(1)) {
			t.Error("the networks have changed")
		}
	})
}

func TestLostNetworksAndRemotesAreRestoredWithin30Seconds(t *testing.T) {
	for name, test := range map[string]struct {
		lose func(h *host, base, pods hns.Network)
		want map[string]int
	}{
		"network of pods": {func(h *host, _, pods hns.Network) { h.service.Lose(pods.ID) }, map[string]int{"CreateNetwork": 1, "AddRemotes": 1}},
		"base network":    {func(h *host, base, _ hns.Network) { h.service.Lose(base.ID) }, map[string]int{"CreateNetwork": 1}},
		"one remote subnet": {func(h *host, _, pods hns.Network) {
			h.service.Edit(pods.ID, func(n *hns.Network) { n.Remotes = n.Remotes[1:] })
		}, map[string]int{"AddRemotes": 1}},
		"all remote subnets": {func(h *host, _, pods hns.Network) { h.service.Edit(pods.ID, func(n *hns.Network) { n.Remotes = nil }) }, map[string]int{"AddRemotes": 1}},
		"an altered remote subnet": {func(h *host, _, pods hns.Network) {
			h.service.Edit(pods.ID, func(n *hns.Network) { n.Remotes[0].Host = netip.MustParseAddr("192.0.2.99") })
		}, map[string]int{"AddRemotes": 1, "RemoveRemotes": 1}},
		"a stale remote subnet": {func(h *host, _, pods hns.Network) {
			h.service.Edit(pods.ID, func(n *hns.Network) { n.Remotes = append(n.Remotes, linuxRemote(9)) })
		}, map[string]int{"RemoveRemotes": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(e *env) {
				h := e.overlaid(2)
				e.passes(time.Minute)
				h.service.ResetCalls()
				base, _ := h.network(overlay.BaseNetwork)
				pods, _ := h.network(overlay.Network)
				test.lose(h, base, pods)
				if h.has(linuxRemote(1), linuxRemote(2)) {
					t.Fatal("nothing was lost")
				}
				e.await(30*time.Second, "all is back", func() bool { return h.has(linuxRemote(1), linuxRemote(2)) && h.published() })
				h.wantChanges(test.want)
			})
		})
	}
}
