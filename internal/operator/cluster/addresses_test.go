package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

func TestReadAddresses(t *testing.T) {
	kubeadm := configMap("kube-system", "kubeadm-config", "ClusterConfiguration", "networking: {podSubnet: '10.244.0.0/16,fd01::/48'}")
	tests := map[string]struct {
		network v1alpha1.NetworkSpec
		cluster v1alpha1.ClusterSpec
		objects []client.Object
		want    []string
		server  string
	}{
		"minimal cluster": {
			want: []string{"10.96.0.0/12", "10.0.0.5", "10.0.0.6", "10.0.0.5"},
		},
		"additional Service range": {
			objects: []client.Object{&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.200.0.0/16"}}}},
			want:    []string{"10.96.0.0/12", "10.200.0.0/16", "10.0.0.5", "10.0.0.6", "10.0.0.5"},
		},
		"kubeadm": {
			objects: []client.Object{kubeadm, clusterInfo("https://api.example:6443")},
			want:    []string{"10.96.0.0/12", "10.244.0.0/16", "fd01::/48", "10.0.0.5", "10.0.0.6"}, server: "api.example",
		},
		"common address of API servers": {
			objects: []client.Object{clusterInfo("https://10.0.0.100:6443")},
			want:    []string{"10.96.0.0/12", "10.0.0.5", "10.0.0.6", "10.0.0.100"},
		},
		"addresses from WindowsConfig and cluster-info": {
			cluster: v1alpha1.ClusterSpec{APIServer: "api.example:6443"},
			objects: []client.Object{clusterInfo("https://lb.internal:6443")},
			want:    []string{"10.96.0.0/12", "10.0.0.5", "10.0.0.6"}, server: "api.example lb.internal",
		},
		"Flannel": {
			network: v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkFlannel},
			objects: []client.Object{configMap("kube-flannel", "kube-flannel-cfg", "net-conf.json",
				`{"Network": "10.11.0.0/16", "Backend": {"Type": "vxlan", "VNI": 4096, "Port": 4789}}`)},
			want: []string{"10.96.0.0/12", "10.11.0.0/16", "10.0.0.5", "10.0.0.6", "10.0.0.5"},
		},
		"OpenShift with an overlay for Windows": {
			objects: []client.Object{
				infrastructure("https://api-int.example:6443"),
				openshift("config.openshift.io", "Network", "cluster", "status: {networkType: OVNKubernetes, clusterNetwork: [{cidr: 10.128.0.0/14}]}"),
				openshift("operator.openshift.io", "Network", "cluster",
					"spec: {defaultNetwork: {ovnKubernetesConfig: {hybridOverlayConfig: {hybridClusterNetwork: [{cidr: 10.132.0.0/14}]}}}}"),
			},
			want: []string{"10.96.0.0/12", "10.128.0.0/14", "10.132.0.0/14", "10.0.0.5", "10.0.0.6"}, server: "api-int.example",
		},
		"OpenShift with a custom network": {
			network: v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkCustom, Custom: &v1alpha1.CustomNetwork{}},
			objects: []client.Object{
				infrastructure("https://api-int.example:6443"),
				openshift("config.openshift.io", "Network", "cluster", "status: {networkType: Calico, clusterNetwork: [{cidr: 10.128.0.0/14}]}"),
			},
			want: []string{"10.96.0.0/12", "10.128.0.0/14", "10.0.0.5", "10.0.0.6"}, server: "api-int.example",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			current, names, err := ReadAddresses(t.Context(), reader(append(plain(), test.objects...)...), Connection{}, v1alpha1.WindowsConfigSpec{Network: test.network, Cluster: test.cluster})
			if err != nil || strings.Join(names, " ") != test.server {
				t.Errorf("names %q, %v; want %q", names, err, test.server)
			}
			var got []string
			for _, p := range append(current.Services, current.Pods...) {
				got = append(got, p.String())
			}
			for _, s := range current.Servers {
				got = append(got, s.String())
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	current, _, err := ReadAddresses(t.Context(), reader(plain()[:4]...), Connection{}, v1alpha1.WindowsConfigSpec{})
	if broken, _, err := ReadAddresses(t.Context(), reader(append(plain(), kubelets("[x]"))...), Connection{}, v1alpha1.WindowsConfigSpec{}); err != nil || len(broken.Servers) == 0 {
		t.Errorf("with an invalid kubelet configuration: %+v, %v", broken, err)
	}
	if named, _, err := ReadAddresses(t.Context(), reader(append(plain(), kubelets("clusterDomain: k8s.example"))...), Connection{}, v1alpha1.WindowsConfigSpec{}); err != nil || named.Domain != "k8s.example" {
		t.Errorf("the domain is %q, %v", named.Domain, err)
	}
	if err == nil || fmt.Sprint(current.Servers) != "[10.0.0.5 10.0.0.6 10.0.0.5]" {
		t.Errorf("without a ServiceCIDR: %+v, %v; want an error and a partial result", current, err)
	}
}
