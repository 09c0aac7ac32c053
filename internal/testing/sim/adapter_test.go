package sim_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestSimulatedAdaptersKeepTheContract(t *testing.T) {
	for name, hasNetwork := range map[string]bool{"before the first network": false, "with a network": true} {
		t.Run(name, func(t *testing.T) {
			contract.Adapters(t, func(t *testing.T) contract.AdaptersFixture {
				w := sim.NewWindows(sim.WindowsOptions{Root: t.TempDir(), NoQuirks: "what the first network does to the adapter is chosen"})
				t.Cleanup(w.PowerOff)
				if hasNetwork {
					if _, err := w.Adapter().CreateNetwork(t.Context(), hns.Network{Name: "overlay", Type: hns.Overlay}); err != nil {
						t.Fatal(err)
					}
				}
				return contract.AdaptersFixture{Adapters: w.Host().Adapters}
			})
		})
	}
}

// TestNodeIPIsHostAddressDespiteOtherAddresses, regardless of other addresses of an adapter and of whether they moved to a virtual one.
func TestNodeIPIsHostAddressDespiteOtherAddresses(t *testing.T) {
	moved := false
	for seed := range uint64(30) {
		w := sim.NewWindows(sim.WindowsOptions{Root: t.TempDir(), Quirks: sim.Quirks{Adapter: sim.RandomQuirks(seed).Adapter}})
		t.Cleanup(w.PowerOff)
		for range 2 {
			facts, err := w.Host().System.Facts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := join.NodeIP(wicdapi.Facts{Host: facts}, nil); got != "192.0.2.10" {
				t.Errorf("seed %d: node IP %q of %+v", seed, got, facts.Interfaces)
			}
			moved = moved || strings.HasPrefix(facts.Interfaces[0].Name, "vEthernet (")
			w.HNS().Add(hns.State{Networks: []hns.Network{{Name: "overlay", Type: hns.Overlay, ManagementIP: netip.MustParseAddr("192.0.2.10")}}})
		}
	}
	if !moved {
		t.Error("no seed has a virtual adapter")
	}
}
