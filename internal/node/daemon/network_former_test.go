package daemon_test

import (
	"slices"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// TestFormerNetworkIsRemoved: a host cannot have two overlays with the same pod range.
func TestFormerNetworkIsRemoved(t *testing.T) {
	network := func(name, base string) *desired.Network {
		return &desired.Network{Name: name, Base: base, MadeBy: "kubelet", Endpoint: "VIPEndpoint", Proxy: "kube-proxy"}
	}
	for name, test := range map[string]struct {
		then *desired.Network
		want []string
	}{
		"another name":         {network("flannel.5000", ""), []string{"nat"}},
		"another provider":     {network("overlay", "base"), []string{"nat"}},
		"it becomes the base":  {network("overlay", "flannel.4096"), []string{"flannel.4096", "nat"}},
		"none of ours":         {nil, []string{"nat"}},
		"all as it was before": {network("flannel.4096", ""), []string{"flannel.4096", "nat"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
			mustSend(t, w, c)
			r := newRequest(c)
			r.Desired.Network = network("flannel.4096", "")
			mustJoin(t, w, r)
			w.HNS().Add(hns.State{
				Networks:  []hns.Network{{ID: "n1", Name: "flannel.4096"}, {ID: "n0", Name: "nat"}},
				Endpoints: []hns.Endpoint{{ID: "e1", Network: "n1"}, {ID: "others", Network: "n0"}},
			})
			r.Desired.Network = test.then
			mustJoin(t, w, r)
			got := w.HNS().State()
			var names []string
			for _, n := range got.Networks {
				names = append(names, n.Name)
			}
			slices.Sort(names)
			if !slices.Equal(names, test.want) || len(got.Endpoints) != len(test.want) {
				t.Errorf("there are networks %v with endpoints %v, want %v", names, got.Endpoints, test.want)
			}
		})
	}
}
