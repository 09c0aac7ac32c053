package podnetwork_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// flanneled is a member whose network is created by a service that does so once, at its start, on an adapter with quirks.
type flanneled struct {
	*daemontest.Member
}

// flanneldTakes is how long the service needs until it creates the network: it asks the API server for the Node first.
const flanneldTakes = 10 * time.Second

// newFlanneled returns a member whose network has existed for two minutes.
func newFlanneled(t *testing.T, q sim.AdapterQuirks, repair v1alpha1.NetworkRepair, once bool) *flanneled {
	t.Helper()
	f := &flanneled{}
	c := daemontest.NewPayload("1")
	c.Add("kube-proxy.exe", []byte("kube-proxy"))
	daemontest.NewMember(t, daemontest.Options{
		Windows: sim.WindowsOptions{
			NoQuirks: "the effect of the first network on the adapter is chosen", RestartDelay: daemontest.Never, Quirks: sim.Quirks{Adapter: q},
			Programs: map[string]sim.Program{"hybrid-overlay-node": f.makeNetwork},
		},
		Heartbeat: 5 * time.Minute, Payload: c,
		Prepare: func(m *daemontest.Member) {
			f.Member = m
			declareOverlay(&m.Request.Desired)
			m.Request.Desired.Network.Once, m.Request.Desired.Network.Repair = once, repair
		},
	})
	f.AwaitVersion(t)
	time.Sleep(2 * time.Minute)
	return f
}

func (f *flanneled) makeNetwork(ctx context.Context, _ sim.Process) uint32 {
	select {
	case <-ctx.Done():
		return 0
	case <-time.After(flanneldTakes):
	}
	if len(f.Windows.HNS().State().Networks) == 0 {
		_, _ = f.Windows.Adapter().CreateNetwork(ctx, hns.Network{Name: overlayName, Type: hns.Overlay, Subnets: []hns.Subnet{
			{Prefix: netip.MustParsePrefix("10.132.1.0/24"), Gateway: netip.MustParseAddr("10.132.1.1"), VNI: 4097},
		}})
	}
	<-ctx.Done()
	return 0
}

// adapter describes the settings of the host's adapter that a network can remove.
func (f *flanneled) adapter(t *testing.T) string {
	t.Helper()
	all, err := f.Windows.Adapter().Adapters(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return fmt.Sprint(all[0].DNS, " ", all[0].Suffix, " ", all[0].MTU, " ", all[0].Metric, " ", len(all[0].Addresses))
}

// wantReported expects the condition to have the reason HostNetworkChanged, without a fault of the network, and a text; none if it is empty.
func (f *flanneled) wantReported(t *testing.T, text string) {
	t.Helper()
	c := networkCondition(f.Member)
	if c.Status != corev1.ConditionFalse || (c.Reason == api.ReasonHostNetworkChanged) != (text != "") || !strings.Contains(c.Message, text) {
		t.Errorf("the condition is %s %s: %s; want %q", c.Status, c.Reason, c.Message, text)
	}
}

const (
	intact  = "[192.0.2.53 192.0.2.54] example.com 1410 15 2"
	damaged = "[]  1450 0 1"
)

func harmful() sim.AdapterQuirks {
	return sim.AdapterQuirks{Static: true, LosesDNS: true, LosesMetric: true, LosesSecondary: true, MTU: 1450}
}

func TestSettingsRemovedByFlannelNetworkAreRestored(t *testing.T) {
	refuses := harmful()
	refuses.Refuses = true
	for name, test := range map[string]struct {
		quirks   sim.AdapterQuirks
		repair   v1alpha1.NetworkRepair
		twice    bool // hybrid-overlay-node, which creates its networks repeatedly, has its own guard
		want     string
		restores int
		reports  string
	}{
		"nothing is lost": {quirks: sim.AdapterQuirks{AddressLostFor: 5 * time.Second}, want: intact},
		"all is restored": {quirks: harmful(), want: intact, restores: 1},
		"Windows refuses DNS": {
			quirks: refuses, want: "[]  1410 15 2", restores: 1,
			reports: "DNS servers 192.0.2.53 192.0.2.54, DNS suffix example.com (restoring it failed: setting DNS",
		},
		"repairs are reported": {
			quirks: harmful(), repair: v1alpha1.RepairReport, want: damaged,
			reports: "address 198.51.100.10/24, DNS servers 192.0.2.53 192.0.2.54, DNS suffix example.com, MTU 1410, interface metric 15 " +
				"(spec.network.repair is Report)",
		},
		"repairs are off":       {quirks: harmful(), repair: v1alpha1.RepairOff, want: damaged, reports: "(spec.network.repair is Off)"},
		"of the hybrid overlay": {quirks: harmful(), twice: true, want: damaged},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFlanneled(t, test.quirks, test.repair, !test.twice)
				for starts := 1; starts < 3; starts++ { // Windows loses the network when it starts
					if got := f.adapter(t); got != test.want {
						t.Errorf("the adapter has %s, want %s", got, test.want)
					}
					f.wantReported(t, test.reports)
					if got := f.Windows.Adapter().Restores(); got != starts*test.restores {
						t.Errorf("restored %d times in %d starts, want %d each", got, starts, test.restores)
					}
					f.Restart(t)
					time.Sleep(time.Minute)
				}
				if notes := f.Notes(api.ReasonNetworkRepaired); (len(notes) > 0) != (test.restores > 0 && test.reports == "") {
					t.Errorf("events of repairs: %q", notes)
				}
				if test.reports == "" {
					return
				}
				if notes := f.Notes(api.ReasonHostNetworkChanged); len(notes) == 0 {
					t.Error("no event reports the loss")
				}
				if err := f.Windows.Disk().Remove(state.HostNetworkFile); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				f.wantReported(t, "")
			})
		})
	}
}

// TestSettingsAreRestoredAfterEachLossOfTheNetwork: the host has its own adapter until flanneld has been restarted.
func TestSettingsAreRestoredAfterEachLossOfTheNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlanneled(t, harmful(), "", true)
		for restores := 2; restores < 4; restores++ {
			if err := f.Windows.Adapter().DeleteNetwork(t.Context(), f.Windows.HNS().State().Networks[0].ID); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
			if got := f.Windows.Adapter().Restores(); got != restores || f.adapter(t) != intact {
				t.Errorf("restored %d times, want %d: %s", got, restores, f.adapter(t))
			}
			f.wantReported(t, "")
		}
	})
}

// TestHostWithoutAddressIsNotChanged: WICD neither removes the network nor sets anything on another adapter.
func TestHostWithoutAddressIsNotChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := harmful()
		q.Instead = netip.MustParsePrefix("192.0.2.77/24")
		f := newFlanneled(t, q, "", true)
		if got := f.Windows.Adapter().Restores(); got != 0 || len(f.Windows.HNS().State().Networks) != 1 {
			t.Errorf("restored %d times, %d networks", got, len(f.Windows.HNS().State().Networks))
		}
	})
}

// TestMissingSettingIsReportedUntilRestored: the Host Network Service may not list the network for a while, although the address is still on the
// virtual adapter.
func TestMissingSettingIsReportedUntilRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := harmful()
		q.Refuses = true
		f := newFlanneled(t, q, "", true)
		f.Windows.HNS().Lose(f.Windows.HNS().State().Networks[0].ID)
		time.Sleep(2 * time.Minute)
		f.wantReported(t, "DNS servers 192.0.2.53 192.0.2.54")
		if got := f.Windows.Adapter().Restores(); got != 1 {
			t.Errorf("restored %d times", got)
		}
		f.Windows.Adapter().SetDNS("example.com", "192.0.2.53", "192.0.2.54") // by the user
		time.Sleep(time.Minute)
		f.wantReported(t, "")
	})
}
