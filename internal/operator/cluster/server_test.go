package cluster

import (
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// TestLoopbackServerAddressIsSkipped: https://github.com/kubernetes-sigs/kubespray/issues/12136, https://github.com/kubernetes-sigs/kubespray/issues/12851
func TestLoopbackServerAddressIsSkipped(t *testing.T) {
	for _, server := range []string{
		"https://127.0.0.1:6443", "https://127.1:6443", "https://localhost:6443", "https://LOCALHOST.:6443", "https://api.localhost:6443", "https://0.0.0.0:6443", "https://[::1]:6443",
		"https://[::]:6443", "https://[::ffff:127.0.0.1]:6443",
	} {
		got, err := read(t, v1alpha1.WindowsConfigSpec{}, clusterInfo(server))
		if err != nil || got.Server != "https://10.0.0.5:6443" || got.ServerFrom != "EndpointSlice default/kubernetes" {
			t.Errorf("cluster-info has %s: got server %q from %s, %v", server, got.Server, got.ServerFrom, err)
		}
		_, err = read(t, v1alpha1.WindowsConfigSpec{}, clusterInfo(server), endpoints())
		if err == nil || !strings.Contains(err.Error(), server) || !strings.Contains(err.Error(), "spec.cluster.apiServer") {
			t.Errorf("cluster-info has %s without another source: error %v", server, err)
		}
		if got, err := ParseServer(server); err == nil || !strings.Contains(err.Error(), "loopback") {
			t.Errorf("spec.cluster.apiServer is %s: got server %q, %v", server, got, err)
		}
	}
}

// TestConfiguredAPIServerIsUsed: https://github.com/kubernetes-sigs/kubespray/pull/12137
func TestConfiguredAPIServerIsUsed(t *testing.T) {
	for text, want := range map[string]string{
		"api.example.com:6443": "https://api.example.com:6443", "https://api.example.com:6443/": "https://api.example.com:6443", "https://api.example.com": "https://api.example.com",
		"10.0.0.100:443": "https://10.0.0.100:443", "[fd00::5]:6443": "https://[fd00::5]:6443", "127.example.com:6443": "https://127.example.com:6443",
	} {
		got, err := read(t, v1alpha1.WindowsConfigSpec{Cluster: v1alpha1.ClusterSpec{APIServer: text}}, infrastructure("https://api-int.example:6443"))
		if err != nil || got.Server != want || !strings.Contains(got.ServerFrom, "spec.cluster.apiServer") {
			t.Errorf("%q: got server %q from %s, %v; want %q", text, got.Server, got.ServerFrom, err, want)
		}
	}
	for _, text := range []string{"api.example.com", "http://api.example.com:6443", "https://user@api.example.com", "https://api.example.com:0", "api.example.com:70000", "https://a/b", "a b:1", "https://", ":6443"} {
		_, err := read(t, v1alpha1.WindowsConfigSpec{Cluster: v1alpha1.ClusterSpec{APIServer: text}})
		if err == nil || !strings.Contains(err.Error(), "spec.cluster.apiServer") || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: error %v, want one that names the field and the value", text, err)
		}
	}
}

func TestAPIEndpoints(t *testing.T) {
	config := v1alpha1.ClusterSpec{APIServer: "API.example.com:6443"}
	got, err := APIEndpoints(t.Context(), reader(append(plain(), clusterInfo("https://lb-apiserver.kubernetes.local:6443"))...), Connection{}, config)
	want := []string{"api.example.com:6443", "lb-apiserver.kubernetes.local:6443", "10.0.0.5:6443", "10.0.0.6:6443"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

func TestAllServiceCIDRsAreRead(t *testing.T) {
	added := func(name string, cidrs ...string) client.Object {
		return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
	}
	for name, test := range map[string]struct {
		objects []client.Object
		want    []string
	}{
		"added range":                      {[]client.Object{added("a", "10.200.0.0/16")}, []string{"10.96.0.0/12", "10.200.0.0/16"}},                                                        // https://github.com/kubernetes/kubernetes/issues/104088
		"both families, IPv6 first":        {[]client.Object{serviceCIDR("fd01::/112", "10.97.0.0/16"), added("b", "fd02::/112", "10.98.0.0/16")}, []string{"10.97.0.0/16", "10.98.0.0/16"}}, // https://github.com/kubeovn/kube-ovn/issues/3509
		"default range first":              {[]client.Object{added("a", "10.1.0.0/16"), added("z", "10.2.0.0/16")}, []string{"10.96.0.0/12", "10.1.0.0/16", "10.2.0.0/16"}},
		"change to a wider range":          {[]client.Object{serviceCIDR("10.96.0.0/24"), added("wide", "10.96.0.0/16")}, []string{"10.96.0.0/16"}},
		"overlapping range with host bits": {[]client.Object{serviceCIDR("10.96.0.0/16"), added("a", "10.96.1.0/16")}, []string{"10.96.0.0/16"}},
		"IPv4 only in an added range":      {[]client.Object{serviceCIDR("fd01::/112"), added("a", "10.5.0.0/16")}, []string{"10.5.0.0/16"}},
		"invalid range":                    {[]client.Object{added("a", "10.5.0.0")}, []string{"10.96.0.0/12"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(t, v1alpha1.WindowsConfigSpec{}, test.objects...)
			if err != nil || !slices.Equal(got.ServiceCIDRs, test.want) {
				t.Errorf("%v, %v; want %v", got.ServiceCIDRs, err, test.want)
			}
		})
	}
}
