package hostnetwork_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
)

// TestLostSettingsAreRestoredOnceAndThenReported plays the time after a network was created. Each check has the seconds since the
// previous one.
func TestLostSettingsAreRestoredOnceAndThenReported(t *testing.T) {
	type adapterCheck struct {
		after int
		// lost means that the adapter has no DNS servers.
		lost bool
		want string
	}
	for name, test := range map[string]struct {
		forbidden bool
		checks    []adapterCheck
	}{
		"nothing is lost":      {false, []adapterCheck{{0, false, "making"}, {9, false, "making"}, {1, false, "made"}}},
		"Windows returns it":   {false, []adapterCheck{{0, true, "making"}, {9, true, "making"}, {1, false, "made"}}},
		"the loss is restored": {false, []adapterCheck{{0, true, "making"}, {10, true, "making restore"}, {1, false, "made"}}},
		"restoring has no effect": {false, []adapterCheck{
			{0, true, "making"}, {10, true, "making restore"}, {19, true, "making"}, {1, true, "changed report"}, {60, true, "changed report"}, {1, false, "made"},
		}},
		"the first check is late": {false, []adapterCheck{{0, true, "making"}, {300, true, "making restore"}, {1, true, "changed report"}}},
		"restoring is not allowed": {true, []adapterCheck{
			{0, true, "making"}, {10, true, "making"}, {19, true, "making"}, {1, true, "changed report"}, {1, false, "made"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r, at, lost := record(), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), before()
			lost.DNS = nil
			var c hostnetwork.Recovery
			for i, check := range test.checks {
				at = at.Add(time.Duration(check.after) * time.Second)
				now := []hostnetwork.Adapter{before()}
				if check.lost {
					now[0] = lost
				}
				step := c.Step(r, now, at, !test.forbidden)
				got := string(step.Phase)
				for text, of := range map[string]hostnetwork.Loss{" restore": step.Restore, " report": step.Missing} {
					if !of.IsEmpty() {
						got += text
					}
				}
				if got != check.want {
					t.Errorf("check %d: got %q, want %q", i, got, check.want)
				}
				r.Phase = step.Phase
			}
		})
	}
}

// TestWaitBeginsWhenTheAddressIsBack: Windows configures the rest after the address.
func TestWaitBeginsWhenTheAddressIsBack(t *testing.T) {
	r, at, now := record(), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), before()
	now.DNS = nil
	var c hostnetwork.Recovery
	c.Step(r, []hostnetwork.Adapter{now}, at, true)
	c.Reset()
	if step := c.Step(r, []hostnetwork.Adapter{now}, at.Add(time.Minute), true); !step.Restore.IsEmpty() {
		t.Errorf("restored at once: %s", step.Restore)
	}
	if step := c.Step(r, []hostnetwork.Adapter{now}, at.Add(70*time.Second), true); step.Restore.IsEmpty() {
		t.Error("not restored after 10 seconds")
	}
}

func TestSettingsFromBeforeAnInterruptedAttemptAreKept(t *testing.T) {
	now := before()
	now.Name, now.DNS = "vEthernet (Ethernet)", nil
	address, other := netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("192.0.2.11")
	for name, test := range map[string]struct {
		phase   hostnetwork.Phase
		address netip.Addr
		all     []hostnetwork.Adapter
		want    string
		found   bool
	}{
		"the first attempt":            {"", address, []hostnetwork.Adapter{now}, now.Name, true},
		"interrupted":                  {hostnetwork.Making, address, []hostnetwork.Adapter{now}, "Ethernet", true},
		"with another address":         {hostnetwork.Making, other, []hostnetwork.Adapter{now}, now.Name, true},
		"the adapter had its settings": {hostnetwork.Made, address, []hostnetwork.Adapter{now}, now.Name, true},
		"the adapter lacked settings":  {hostnetwork.Changed, address, []hostnetwork.Adapter{now}, now.Name, true},
		"no adapter has the address":   {hostnetwork.Made, netip.MustParseAddr("192.0.2.99"), []hostnetwork.Adapter{now}, "", false},
	} {
		last := record()
		if last.Phase = test.phase; test.phase == "" {
			last = hostnetwork.Record{}
		}
		got, found := last.Begin(test.all, test.address)
		if found != test.found || got.Before.Name != test.want || got.Phase != hostnetwork.Making || got.Address != test.address {
			t.Errorf("%s: got %+v, %v", name, got, found)
		}
		if found && slices.Equal(got.Before.DNS, before().DNS) != (test.want == "Ethernet") {
			t.Errorf("%s: DNS servers %v", name, got.Before.DNS)
		}
	}
}
