package podnetwork

import (
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// TestServiceThatCreatesNetworkOnceIsRestarted: flanneld creates its network at start, and never checks it afterwards.
func TestServiceThatCreatesNetworkOnceIsRestarted(t *testing.T) {
	gone := func(v *networkView) { v.state = hns.State{} }
	withoutRouterMAC := func(v *networkView) { v.state.Networks[0].RouterMAC = "" }
	back := func(v *networkView) { v.state = healthy(0) }
	starts := func(v *networkView) { v.service++; gone(v) }
	type step struct {
		after   time.Duration
		change  func(*networkView)
		restart string // why
	}
	const missing, withoutAddresses = "network overlay does not exist", "network overlay has no addresses yet"
	for name, test := range map[string]struct {
		once  bool
		steps []step
	}{
		"its network is lost": {true, []step{
			{}, {after: time.Minute, change: gone}, {after: time.Second}, {after: time.Second, restart: missing},
			{after: 2 * time.Second}, {after: time.Minute}, {after: 2 * time.Minute, restart: missing},
			{after: time.Second, change: back}, {after: time.Hour, change: gone}, {after: networkSoon, restart: missing},
		}},
		"Windows starts its service, and lists the network late": {true, []step{
			{}, {after: time.Minute, change: starts}, {after: 20 * time.Second}, {after: time.Second, change: back}, {after: time.Hour},
			{after: time.Minute, change: gone}, {after: networkSoon, restart: missing},
		}},
		"Windows starts its service, which has lost the network": {true, []step{
			{}, {after: time.Minute, change: starts}, {after: hns.IncompleteFor - time.Second}, {after: time.Second, restart: missing}, {after: time.Minute},
		}},
		"it was lost before we looked":  {true, []step{{change: gone}, {after: 2 * time.Minute}, {after: time.Minute, restart: missing}, {after: 2 * time.Minute}}},
		"another makes it by itself":    {false, []step{{}, {after: time.Minute, change: gone}, {after: 2 * time.Minute}, {after: time.Minute, restart: missing}}},
		"Windows gives it no addresses": {false, []step{{}, {after: time.Minute, change: withoutRouterMAC}, {after: 3 * time.Minute, restart: withoutAddresses}}},
		"another waits for something":   {false, []step{{change: gone}, {after: time.Hour}}},
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
					t.Errorf("step %d: the maker is started again because %q, want %q", i, reason, s.restart)
				}
			}
		})
	}
}
