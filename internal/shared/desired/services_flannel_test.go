package desired_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/payload"
)

func TestFlannelNetworkHasFlannelName(t *testing.T) {
	for netConf, want := range map[string]string{
		goodNetConf: "flannel.4096",
		strings.Replace(goodNetConf, "4096", "5000", 1):                         "flannel.5000",
		strings.Replace(goodNetConf, `"VNI"`, `"Name": "vxlan0", "VNI"`, 1):     "vxlan0",
		strings.Replace(goodNetConf, "10.244.0.0/16", "10.244.5.0/16", 1) + " ": "flannel.4096",
	} {
		rendered, err := desired.Render(withFlannel(netConf))
		if err != nil {
			t.Fatal(err)
		}
		network := rendered.Node.Network
		if network.Name != want || network.MadeBy != "flanneld" {
			t.Errorf("with %s the network is %q, made by %q, want %q", netConf, network.Name, network.MadeBy, want)
		}
		cni, err := desired.NetworkValues{Network: want, PodCIDR: "10.244.1.0/24", LastPodIP: "10.244.1.253", ManagementIP: "192.0.2.1"}.Fill(network.Files[0])
		if err != nil || !strings.Contains(cni, `"10.244.0.0/16"`) {
			t.Errorf("cni.conf of %s (%v):\n%s", netConf, err, cni)
		}
	}
}

func TestServiceHasOwnAndSharedVariables(t *testing.T) {
	node := desired.Node{
		Environment: map[string]string{"NO_PROXY": ".example.com,${NODE_IP}", "OTHER": "x"},
		Services: []desired.Service{
			{Name: "both", Environment: map[string]string{"NODE_NAME": "${NODE_NAME}", "AT": "${NODE_IP} on ${NODE_ADAPTER}"}, Reads: []string{"NO_PROXY", "HTTP_PROXY"}},
			{Name: "own", Environment: map[string]string{"A": "b"}},
			{Name: "none"},
		},
	}
	on, err := node.On(desired.Local{Node: "win-1", NodeIP: "192.0.2.1", Adapter: "Ethernet 2"}, desired.Secrets{})
	if err != nil {
		t.Fatal(err)
	}
	want := []map[string]string{
		{"NODE_NAME": "win-1", "AT": "192.0.2.1 on Ethernet 2", "NO_PROXY": ".example.com,192.0.2.1"}, {"A": "b"}, nil,
	}
	for i, s := range on.Services {
		if diff := cmp.Diff(want[i], s.Environment); diff != "" {
			t.Errorf("service %s (-want +got):\n%s", s.Name, diff)
		}
	}
	if node.Services[0].Environment["NODE_NAME"] != "${NODE_NAME}" {
		t.Error("the declaration for all nodes was changed")
	}
}

// TestOnlyFlannelHostsGetFlannel: another provider does not make another version.
func TestOnlyFlannelHostsGetFlannel(t *testing.T) {
	all := declared().Select(payload.Base, payload.Kubernetes("1.36"), payload.Flannel)
	isFlannel := func(f payload.File) bool { return f.Path == "flanneld.exe" }
	for _, provider := range []v1alpha1.NetworkProvider{"", v1alpha1.NetworkCustom, v1alpha1.NetworkOVNHybridOverlay, v1alpha1.NetworkFlannel} {
		got := desired.Content(all, provider)
		if ok, want := slices.ContainsFunc(got.Files, isFlannel), provider == v1alpha1.NetworkFlannel; ok != want {
			t.Errorf("provider %q: flanneld.exe is among its files: %v, want %v", provider, ok, want)
		}
		if without := len(all.Files) - 1; len(got.Files) < without || got.Digest != all.Digest {
			t.Errorf("provider %q: %d files with digest %s; the payload has %d with %s", provider, len(got.Files), got.Digest, len(all.Files), all.Digest)
		}
	}
	if !slices.ContainsFunc(all.Files, isFlannel) {
		t.Error("the payload itself was changed")
	}
	node := mustRender(t, func(in *desired.Inputs) { in.Payload = all })
	if slices.ContainsFunc(node.Payload, func(f desired.PayloadFile) bool { return f.Path == "flanneld.exe" }) || node.Digest != all.Digest {
		t.Errorf("a node with provider Custom has the payload %v of digest %s", node.Payload, node.Digest)
	}
}
