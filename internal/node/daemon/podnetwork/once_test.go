package podnetwork

import (
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// TestServiceThatCreatesNetworkOnceIsRestarted: flanneld creates its network at start, and never checks it afterwards.
func TestServiceThatCreatesNetworkOnceIsRestarted(t *testing.T) {
	missingNetwork := func(v *networkView) { v.state = hns.State{} }
	withoutRouterMAC := func(v *networkView) { v.state.Networks[0].RouterMAC = "" }
	back := func(v *networkView) { v.state = healthy(0) }
	restartedService := func(v *networkView) { v.service++; missingNetwork(v) }
	type step struct {
		after   time.Duration
		change  func(*networkView)
		restart string // the reason
	}
	const missing, withoutAddresses = "network overlay does not exist", "network overlay has no addresses yet"
	for name, test := range map[string]struct {
		once  bool
		steps []step
	}{
		"the network is lost": {true, []step{
			{}, {after: time.Minute, change: missingNetwork}, {after: time.Second}, {after: time.Second, restart: missing},
			{after: 2 * time.Second}, {after: time.Minute}, {after: 2 * time.Minute, restart: missing},
			{after: time.Second, change: back}, {after: time.Hour, change: missingNetwork}, {after: networkSoon, restart: missing},
		}},
		"the Host Network Service restarts and lists the network late": {true, []step{
			{}, {after: time.Minute, change: restartedService}, {after: 20 * time.Second}, {after: time.Second, change: back}, {after: time.Hour},
			{after: time.Minute, change: missingNetwork}, {after: networkSoon, restart: missing},
		}},
		"the Host Network Service restarts without the network": {true, []step{
			{}, {after: time.Minute, change: restartedService}, {after: hns.IncompleteFor - time.Second}, {after: time.Second, restart: missing}, {after: time.Minute},
		}},
		"the network was lost before the first pass":      {true, []step{{change: missingNetwork}, {after: 2 * time.Minute}, {after: time.Minute, restart: missing}, {after: 2 * time.Minute}}},
		"a service that re-creates the network by itself": {false, []step{{}, {after: time.Minute, change: missingNetwork}, {after: 2 * time.Minute}, {after: time.Minute, restart: missing}}},
		"the network gets no addresses":                   {false, []step{{}, {after: time.Minute, change: withoutRouterMAC}, {after: 3 * time.Minute, restart: withoutAddresses}}},
		"a service that creates the network later":        {false, []step{{change: missingNetwork}, {after: time.Hour}}},
	} {
		t.Run(name, func(t *testing.T) {
			want := overlayWanted()
			want.Once = test.once
			m, v := newNetworkMemory(), networkView{now: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), state: healthy(0), proxy: 1}
			for i, s := range test.steps {
				v.now = v.now.Add(s.after)
				if s.change != nil {
					s.change(&v)
				}
				p := m.evaluate(want, v)
				if reason := p.restart[want.MadeBy]; reason != s.restart {
					t.Errorf("step %d: the reason of the restart is %q, want %q", i, reason, s.restart)
				}
			}
		})
	}
}
