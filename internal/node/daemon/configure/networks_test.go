package configure_test

import (
	"slices"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

const hybridOverlay = "OVNKubernetesHybridOverlayNetwork"

// TestFormerNetworkIsRemoved: a host cannot have two overlays with the same pod range.
func TestFormerNetworkIsRemoved(t *testing.T) {
	network := func(name, base string) *desired.Network {
		return &desired.Network{Name: name, Base: base, MadeBy: "kubelet", Endpoint: "VIPEndpoint", Proxy: "kube-proxy"}
	}
	for name, test := range map[string]struct {
		then *desired.Network
		want []string
	}{
		"another name":                 {network("flannel.5000", ""), []string{"nat"}},
		"another provider":             {network("overlay", "base"), []string{"nat"}},
		"the network becomes the base": {network("overlay", "flannel.4096"), []string{"flannel.4096", "nat"}},
		"no network of the operator":   {nil, []string{"nat"}},
		"all as it was before":         {network("flannel.4096", ""), []string{"flannel.4096", "nat"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := daemontest.NewHost(t, sim.WindowsOptions{})
			r.Desired.Network = network("flannel.4096", "")
			daemontest.MustJoin(t, w, r)
			w.HNS().Add(hns.State{
				Networks:  []hns.Network{{ID: "n1", Name: "flannel.4096"}, {ID: "n0", Name: "nat"}},
				Endpoints: []hns.Endpoint{{ID: "e1", Network: "n1"}, {ID: "others", Network: "n0"}},
			})
			r.Desired.Network = test.then
			daemontest.MustJoin(t, w, r)
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

func TestLeaveRemovesOwnNetworks(t *testing.T) {
	w, r := daemontest.NewHost(t, sim.WindowsOptions{NoQuirks: "the networks are added just before the leave, and must be listed"})
	r.Desired.Network = &desired.Network{Name: hybridOverlay, Base: "Base" + hybridOverlay, MadeBy: "kubelet", Endpoint: "VIPEndpoint", Proxy: "kube-proxy"}
	daemontest.MustJoin(t, w, r)
	w.HNS().Add(hns.State{
		Networks:      []hns.Network{{ID: "n1", Name: hybridOverlay}, {ID: "n0", Name: "Base" + hybridOverlay}, {ID: "nat", Name: "nat"}},
		Endpoints:     []hns.Endpoint{{ID: "e1", Network: "n1"}, {ID: "e2", Network: "n1", Remote: true}, {ID: "others", Network: "nat"}},
		LoadBalancers: []hns.LoadBalancer{{ID: "b1", Protocol: hns.TCP, External: 80}},
	})
	daemontest.MustLeave(t, w, r.Cluster)
	got := w.HNS().State()
	if len(got.Networks) != 1 || got.Networks[0].Name != "nat" || len(got.Endpoints) != 1 || len(got.LoadBalancers) != 0 {
		t.Errorf("remaining: %+v", got)
	}
}

func TestPodAddressesOfOtherClusterAreRemoved(t *testing.T) {
	const reserved = desired.CNIData + `\networks\` + hybridOverlay + `\10.132.0.2`
	for name, test := range map[string]struct {
		prepare func(*sim.Windows)
		stays   bool
	}{
		"nothing runs":        {prepare: func(*sim.Windows) {}},
		"a container has one": {prepare: func(w *sim.Windows) { w.AddContainer("pause", shim) }, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := daemontest.NewHost(t, sim.WindowsOptions{})
			daemontest.MustWrite(t, w.Disk(), reserved, "x")
			daemontest.MustWrite(t, w.Disk(), shim, "a shim")
			test.prepare(w)
			daemontest.MustJoin(t, w, r)
			if w.Disk().Exists(reserved) != test.stays {
				t.Errorf("the address exists: %v, want %v", !test.stays, test.stays)
			}
			daemontest.MustWrite(t, w.Disk(), reserved, "x")
			daemontest.MustJoin(t, w, r)
			if !w.Disk().Exists(reserved) {
				t.Error("a repeated join forgot an address of this cluster")
			}
		})
	}
}
