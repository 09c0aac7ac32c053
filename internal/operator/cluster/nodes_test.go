package cluster

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

func TestNetworksAreDetectedFromNodes(t *testing.T) {
	node := func(name, os string, annotations map[string]string) client.Object {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: os}, Annotations: annotations}}
		n.Spec.PodCIDR = "10.244.3.0/24"
		return n
	}
	// Annotations that OVN-Kubernetes wrote (commit 8871cd9ce).
	linux := map[string]string{"k8s.ovn.org/node-id": "2", "k8s.ovn.org/node-subnets": `{"default":["10.128.0.0/23"]}`}
	hybrid := map[string]string{"k8s.ovn.org/node-subnets": `{"default":["10.128.0.0/23"]}`, "k8s.ovn.org/hybrid-overlay-distributed-router-gateway-mac": "0a:58:0a:80:00:03"}
	windows := map[string]string{"k8s.ovn.org/hybrid-overlay-node-subnet": "10.132.0.0/24"}
	found := func(names ...string) (all []desired.FoundNetwork) {
		for i := 0; i < len(names); i += 3 {
			all = append(all, desired.FoundNetwork{Name: names[i], Node: names[i+1], Annotation: names[i+2]})
		}
		return all
	}
	const ovn, flannel = v1alpha1.NetworkOVNHybridOverlay, v1alpha1.NetworkFlannel
	for name, test := range map[string]struct {
		openshift bool
		provider  v1alpha1.NetworkProvider
		nodes     []client.Object
		want      desired.NodeNetworks
	}{
		"nothing": {false, ovn, nil, desired.NodeNetworks{}},
		"OVN-Kubernetes without hybrid overlay": {false, ovn, []client.Object{node("linux-1", "linux", linux)},
			desired.NodeNetworks{Found: found(desired.OVNKubernetes, "linux-1", "k8s.ovn.org/node-subnets")}},
		"OVN-Kubernetes": {false, ovn, []client.Object{node("linux-1", "linux", linux), node("linux-2", "linux", hybrid), node("win-1", "windows", windows)},
			desired.NodeNetworks{HybridOverlay: true, Found: found(desired.OVNKubernetes, "linux-1", "k8s.ovn.org/node-subnets"),
				Subnets: map[string]netip.Prefix{"win-1": netip.MustParsePrefix("10.132.0.0/24")}}},
		"annotations of Windows nodes": {false, ovn, []client.Object{node("win-1", "windows", hybrid), node("win-2", "windows", map[string]string{
			"projectcalico.org/IPv4Address": "x", "k8s.ovn.org/hybrid-overlay-node-subnet": "10.132.9.5/24"})}, desired.NodeNetworks{}},
		"others": {false, "", []client.Object{
			node("a", "linux", map[string]string{"projectcalico.org/IPv4Address": "10.0.0.1/24", "projectcalico.org/IPv4IPIPTunnelAddr": "x", "k8s.ovn.org/zone-name": "x"}),
			node("b", "linux", map[string]string{"network.cilium.io/ipv4-pod-cidr": "x", "io.cilium.network.ipv4-pod-cidr": "x"}),
			node("c", "linux", map[string]string{"node.antrea.io/mac-address": "x", "flannel.alpha.coreos.com/backend-type": "vxlan"}),
		}, desired.NodeNetworks{Found: found(desired.Antrea, "c", "node.antrea.io/mac-address", desired.Calico, "a", "projectcalico.org/IPv4Address",
			desired.Cilium, "b", "io.cilium.network.ipv4-pod-cidr", desired.FlannelName, "c", "flannel.alpha.coreos.com/backend-type")}},
		"subnets of Flannel": {false, flannel, []client.Object{node("win-1", "windows", windows)},
			desired.NodeNetworks{Subnets: map[string]netip.Prefix{"win-1": netip.MustParsePrefix("10.244.3.0/24")}}},
		"OpenShift": {true, ovn, []client.Object{node("linux-1", "linux", linux), node("win-1", "windows", windows)},
			desired.NodeNetworks{Subnets: map[string]netip.Prefix{"win-1": netip.MustParsePrefix("10.132.0.0/24")}}},
		"custom network": {false, v1alpha1.NetworkCustom, []client.Object{node("linux-1", "linux", linux)}, desired.NodeNetworks{}},
	} {
		got, err := ReadNodeNetworks(t.Context(), reader(test.nodes...), test.openshift, test.provider)
		if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}
