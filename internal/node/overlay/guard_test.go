package overlay_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/overlay"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// onAdapter makes the host create its networks on an adapter with quirks. Without its address, the host reaches nothing.
func (h *host) onAdapter(q sim.AdapterQuirks) *sim.HostAdapter {
	a := h.service.On(q)
	h.options.HNS, h.options.Adapters = a, a
	h.options.StatusFile = filepath.Join(h.options.CertDir, "status")
	dial := h.options.Dial
	h.options.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if !a.HasAddress() {
			return nil, errors.New("the host has no address")
		}
		return dial(ctx, network, address)
	}
	return a
}

// messages returns the messages in the status file by their reasons.
func (h *host) messages() map[string]string {
	h.env.Helper()
	all := map[string]string{}
	for _, p := range h.problems() {
		all[p.Reason] = p.Message
	}
	return all
}

func (h *host) record() string { return filepath.Join(h.options.CertDir, "host-network") }

// TestNetworksAreRemovedFromHostThatLosesItsAddress expects the networks to be removed and not created again, however often the program
// starts, until a user deletes the record.
func TestNetworksAreRemovedFromHostThatLosesItsAddress(t *testing.T) {
	for name, test := range map[string]struct {
		quirks  sim.AdapterQuirks
		build   int
		message string
	}{
		"static on Windows Server 2019": {sim.AdapterQuirks{Static: true}, 17763, `had 169.254.3.4/16 on "vEthernet (Ethernet)" instead`},
		"static on Windows Server 2025": {sim.AdapterQuirks{Static: true, Second: true}, 26100, `had 169.254.3.4/16 on "vEthernet (Ethernet) 2" instead`},
		"another address by DHCP":       {sim.AdapterQuirks{Instead: netip.MustParsePrefix("192.0.2.77/24")}, 20348, "had 192.0.2.77/24"},
		"no answer of DHCP":             {sim.AdapterQuirks{Instead: netip.MustParsePrefix("169.254.9.9/16")}, 26100, "configure the DHCP server to give it"},
		"away for good":                 {sim.AdapterQuirks{AddressLostFor: 24 * time.Hour}, 20348, "had no address instead"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(e *env) {
				e.linux(1)
				h := e.windows(1, sim.HNSOptions{Build: test.build})
				a := h.onAdapter(test.quirks)
				h.start()
				e.await(time.Minute, "the first network exists", func() bool { _, base := h.network(overlay.BaseNetwork); return base })
				if a.HasAddress() {
					t.Fatal("the host keeps its address")
				}
				e.await(90*time.Second, "the host has its address again", a.HasAddress)
				if n := h.service.State().Networks; len(n) != 0 {
					t.Errorf("networks exist: %v", n)
				}
				for range 3 { // the program starts again, with or without Windows
					h.service.ResetCalls()
					e.passes(10 * time.Minute)
					h.wantChanges(map[string]int{})
					if got := h.messages()["HostAddressLost"]; !strings.Contains(got, test.message) || !strings.Contains(got, h.record()) || !strings.Contains(got, "192.0.2.1") {
						t.Fatalf("reported %q, want %q and the file to delete", got, test.message)
					}
					h.stop()
					h.start()
				}
				e.passes(time.Minute)
				a.DisableDeviceLess() // the user's correction
				if err := os.Remove(h.record()); err != nil {
					t.Fatal(err)
				}
				e.await(time.Minute, "the network is created again", func() bool { _, base := h.network(overlay.BaseNetwork); return base })
			})
		})
	}
}

// TestHostBrieflyWithoutAddressKeepsNetworks, even if the program is restarted in the meantime.
func TestHostBrieflyWithoutAddressKeepsNetworks(t *testing.T) {
	for _, away := range []time.Duration{0, 5 * time.Second, 55 * time.Second} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprint(away, restarted), func(t *testing.T) {
				story(t, func(e *env) {
					e.linux(1)
					h := e.windows(1, sim.HNSOptions{})
					a := h.onAdapter(sim.AdapterQuirks{AddressLostFor: away, LosesDNS: true})
					h.start()
					e.await(time.Minute, "the first network exists", func() bool { _, base := h.network(overlay.BaseNetwork); return base })
					if restarted {
						h.stop()
						h.start()
					}
					e.await(away+90*time.Second, "the overlay is configured", func() bool { return a.HasAddress() && h.published() && h.has(linuxRemote(1)) })
					e.passes(5 * time.Minute)
					if got := h.messages(); len(got) > 0 || a.Restores() != 1 {
						t.Errorf("reported %v, restored %d times", got, a.Restores())
					}
					if calls := h.changes(); calls["DeleteNetwork"] > 0 || calls["CreateNetwork"] != 2 {
						t.Errorf("calls: %v", calls)
					}
				})
			})
		}
	}
}

// TestSettingsLostToFirstNetworkAreRestored expects this once: settings that a user changes later are not reverted.
func TestSettingsLostToFirstNetworkAreRestored(t *testing.T) {
	all := sim.AdapterQuirks{Static: true, LosesDNS: true, LosesMetric: true, LosesSecondary: true, MTU: 1450}
	story(t, func(e *env) {
		e.linux(1)
		h := e.windows(1, sim.HNSOptions{})
		a := h.onAdapter(all)
		h.start()
		e.await(time.Minute, "the overlay is configured", func() bool { return h.published() })
		e.passes(time.Minute)
		now, _ := a.Adapters(t.Context())
		if got := fmt.Sprint(now[0]); !strings.Contains(got, "[192.0.2.53 192.0.2.54] example.com") || now[0].MTU != 1410 || now[0].Metric != 15 || len(now[0].Addresses) != 2 {
			t.Errorf("the virtual adapter has %s", got)
		}
		h.stop()
		h.start()
		e.passes(10 * time.Minute)
		if got := h.messages(); len(got) > 0 || a.Restores() != 1 {
			t.Errorf("reported %v, restored %d times", got, a.Restores())
		}
	})
	all.Refuses = true
	story(t, func(e *env) {
		e.linux(1)
		h := e.windows(1, sim.HNSOptions{})
		a := h.onAdapter(all)
		h.start()
		e.await(2*time.Minute, "the problem is reported", func() bool {
			return strings.Contains(h.messages()["HostNetworkChanged"], "DNS servers 192.0.2.53 192.0.2.54, DNS suffix example.com (restoring it failed:")
		})
		h.stop()
		h.start()
		e.passes(time.Minute)
		if got := h.messages()["HostNetworkChanged"]; !strings.Contains(got, "DNS servers") || a.Restores() != 1 || !h.has(linuxRemote(1)) {
			t.Errorf("after a restart of the program: %q, restored %d times", got, a.Restores())
		}
		if err := os.Remove(h.record()); err != nil {
			t.Fatal(err)
		}
		e.await(time.Minute, "the problem is no longer reported", func() bool { return len(h.messages()) == 0 })
	})
}

// TestSettingsFromBeforeFirstAttemptAreRestored: Windows may have moved the address and lost settings, although it reports that it created
// no network.
func TestSettingsFromBeforeFirstAttemptAreRestored(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprint(restarted), func(t *testing.T) {
			story(t, func(e *env) {
				h := e.windows(1, sim.HNSOptions{})
				a := h.onAdapter(sim.AdapterQuirks{LosesDNS: true, LosesMetric: true})
				h.service.Refuse("CreateNetwork", errors.New("no"))
				h.start()
				e.passes(30 * time.Second)
				if restarted {
					h.stop()
					h.start()
				}
				h.service.Refuse("CreateNetwork", nil)
				e.await(time.Minute, "the overlay is configured", h.published)
				e.passes(time.Minute)
				if now, _ := a.Adapters(t.Context()); len(now[0].DNS) != 2 || now[0].Suffix != "example.com" || now[0].Metric != 15 {
					t.Errorf("the virtual adapter has %+v", now[0])
				}
			})
		})
	}
}

// TestRecordWithoutNetworkIsNoLoss: a power failure may occur between the two, and the address may be late at the next start.
func TestRecordWithoutNetworkIsNoLoss(t *testing.T) {
	story(t, func(e *env) {
		e.linux(1)
		h := e.windows(1, sim.HNSOptions{})
		a := h.onAdapter(sim.AdapterQuirks{AddressLostFor: 10 * time.Minute})
		h.start()
		e.await(time.Minute, "the first network exists", func() bool { _, base := h.network(overlay.BaseNetwork); return base })
		h.stop()
		for _, n := range h.service.State().Networks {
			h.service.Lose(n.ID)
		}
		h.start()
		e.await(time.Hour, "the overlay is configured", func() bool { return a.HasAddress() && h.published() && h.has(linuxRemote(1)) })
		if got := h.messages(); len(got) > 0 {
			t.Errorf("reported %v", got)
		}
	})
}

// TestRandomHostsKeepTheirNetwork expects that, whatever the first network does to a host, it gets its address and settings back, or the networks
// are removed and that is reported.
func TestRandomHostsKeepTheirNetwork(t *testing.T) {
	for seed := range uint64(40) {
		quirks := sim.RandomQuirks(seed).Adapter
		build := []int{17763, 20348, 26100}[seed%3]
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			story(t, func(e *env) {
				e.linux(1)
				h := e.windows(1, sim.HNSOptions{Build: build})
				a := h.onAdapter(quirks)
				h.start()
				e.passes(10 * time.Minute)
				reported := h.messages()
				_, lost := reported["HostAddressLost"]
				_, changed := reported["HostNetworkChanged"]
				now, _ := a.Adapters(t.Context())
				switch networks := len(h.service.State().Networks); {
				case !a.HasAddress():
					t.Error("the host has lost its address")
				case lost != (networks == 0) || lost && changed:
					t.Errorf("%d networks, and reported %v", networks, reported)
				case !lost && changed == (len(now[0].DNS) == 2 && now[0].Suffix != "" && now[0].Metric == 15 && now[0].MTU <= 1410):
					t.Errorf("the adapter has %+v, and reported %v", now[0], reported)
				}
				if t.Failed() {
					t.Logf("build %d, %+v", build, quirks)
				}
			})
		})
	}
}
