package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

func networkOperator(hybridOverlay string) *unstructured.Unstructured {
	return openshift(openshiftOperator, "Network", "cluster",
		"spec: {defaultNetwork: {type: OVNKubernetes, ovnKubernetesConfig: {mtu: 1400, hybridOverlayConfig: "+hybridOverlay+"}}}")
}

func onPlatform(name string) *unstructured.Unstructured {
	return openshift(openshiftConfig, "Infrastructure", "cluster", "status: {platformStatus: {type: "+name+"}}")
}

func flannelConfig(namespace, name, netConf string) *corev1.ConfigMap {
	return configMap(namespace, name, desired.FlannelConfigKey, netConf)
}

// netConf is a Flannel configuration that Windows supports.
const netConf = `{"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan", "VNI": 4096, "Port": 4789}}`

// readNetwork reads the platform, then the network.
func readNetwork(ctx context.Context, r client.Reader, config v1alpha1.NetworkSpec) (desired.ClusterNetwork, error) {
	platform, err := ReadPlatform(ctx, r)
	if err != nil {
		return desired.ClusterNetwork{}, err
	}
	return ReadNetwork(ctx, r, platform, config)
}

func TestNetworkIsReadFromOpenShiftOrWindowsConfig(t *testing.T) {
	ovn := v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkOVNHybridOverlay}
	flannel := v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkFlannel}
	flannelIs := &desired.Flannel{Network: "10.244.0.0/16", VNI: 4096, Port: 4789, NetConf: netConf}
	onOpenShift := []client.Object{
		onPlatform("AWS"), network(
			"{spec: {networkType: Other}, status: {networkType: OVNKubernetes, clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}], serviceNetwork: [172.30.0.0/16]}}"),
	}
	hybrid := func(config string) []client.Object {
		return append([]client.Object{networkOperator(config)}, onOpenShift...)
	}
	internal := func(join, transit, masquerade string) []desired.InternalRange {
		return []desired.InternalRange{
			{Name: "join subnet", Field: "ipv4.internalJoinSubnet", CIDR: join},
			{Name: "transit switch subnet", Field: "ipv4.internalTransitSwitchSubnet", CIDR: transit},
			{Name: "masquerade subnet", Field: "gatewayConfig.ipv4.internalMasqueradeSubnet", CIDR: masquerade},
		}
	}
	openshiftIs := desired.ClusterNetwork{OpenShift: true, Platform: "AWS", Type: "OVNKubernetes", PodCIDRs: []string{"10.128.0.0/14"},
		ServiceCIDRs: []string{"172.30.0.0/16"}, HostPrefixes: map[string]int{"10.128.0.0/14": 23}, Internal: internal("100.64.0.0/16", "100.88.0.0/16", "169.254.0.0/16")}
	with := func(n desired.ClusterNetwork, change func(*desired.ClusterNetwork)) desired.ClusterNetwork {
		change(&n)
		return n
	}
	tests := map[string]struct {
		config  v1alpha1.NetworkSpec
		objects []client.Object
		want    desired.ClusterNetwork
	}{
		"nothing":                             {},
		"OpenShift without hybrid overlay":    {v1alpha1.NetworkSpec{}, hybrid("null"), openshiftIs},
		"OpenShift without Network.operator":  {v1alpha1.NetworkSpec{}, onOpenShift, with(openshiftIs, func(n *desired.ClusterNetwork) { n.Internal = nil })},
		"OpenShift before its network starts": {ovn, []client.Object{onPlatform("AWS")}, desired.ClusterNetwork{OpenShift: true, Platform: "AWS"}},
		"OpenShift with hybrid overlay": {ovn, hybrid("{hybridClusterNetwork: [{cidr: 10.132.0.0/14, hostPrefix: 23}, {cidr: 10.160.0.0/16, hostPrefix: 24}]}"),
			with(openshiftIs, func(n *desired.ClusterNetwork) {
				n.HybridCIDRs, n.HybridUnused = []string{"10.132.0.0/14"}, []string{"10.160.0.0/16"}
				n.HostPrefixes = map[string]int{"10.128.0.0/14": 23, "10.132.0.0/14": 24}
				n.HybridOverlay = `{"hybridClusterNetwork":[{"cidr":"10.132.0.0/14","hostPrefix":23},{"cidr":"10.160.0.0/16","hostPrefix":24}]}`
			})},
		"OpenShift with a port and an unknown field": {ovn, hybrid("{hybridOverlayVXLANPort: 9898, new: [1]}"),
			with(openshiftIs, func(n *desired.ClusterNetwork) {
				n.VXLANPort, n.HybridOverlay = 9898, `{"hybridOverlayVXLANPort":9898,"new":[1]}`
			})},
		"OpenShift with a port out of range": {ovn, hybrid("{hybridClusterNetwork: [{cidr: 10.132.0.0/14}], hybridOverlayVXLANPort: 4294967295}"),
			with(openshiftIs, func(n *desired.ClusterNetwork) {
				n.HybridCIDRs, n.HostPrefixes = []string{"10.132.0.0/14"}, map[string]int{"10.128.0.0/14": 23, "10.132.0.0/14": 24}
				n.HybridFault = hybridOverlayField + ".hybridOverlayVXLANPort is 4294967295; it must be from 1 to 65535"
				n.HybridOverlay = `{"hybridClusterNetwork":[{"cidr":"10.132.0.0/14"}],"hybridOverlayVXLANPort":4294967295}`
			})},
		"OpenShift with an invalid range": {ovn, hybrid("{hybridClusterNetwork: [{cidr: 010.132.0.0/14}]}"),
			with(openshiftIs, func(n *desired.ClusterNetwork) {
				n.HybridFault = hybridOverlayField + `.hybridClusterNetwork[0].cidr: "010.132.0.0/14" is not a range such as 10.132.0.0/14/23`
				n.HybridOverlay = `{"hybridClusterNetwork":[{"cidr":"010.132.0.0/14"}]}`
			})},
		"OpenShift with both": {ovn, hybrid("{hybridClusterNetwork: [{cidr: 010.132.0.0/14}], hybridOverlayVXLANPort: 4294967295}"),
			with(openshiftIs, func(n *desired.ClusterNetwork) {
				n.HybridFault = hybridOverlayField + `.hybridClusterNetwork[0].cidr: "010.132.0.0/14" is not a range such as 10.132.0.0/14/23; ` +
					hybridOverlayField + ".hybridOverlayVXLANPort is 4294967295; it must be from 1 to 65535"
				n.HybridOverlay = `{"hybridClusterNetwork":[{"cidr":"010.132.0.0/14"}],"hybridOverlayVXLANPort":4294967295}`
			})},
		"OpenShift with custom internal ranges": {ovn, append([]client.Object{openshift(openshiftOperator, "Network", "cluster",
			"spec: {defaultNetwork: {ovnKubernetesConfig: {v4InternalSubnet: 10.1.0.0/16, ipv4: {internalTransitSwitchSubnet: 10.2.0.0/16}, "+
				"gatewayConfig: {ipv4: {internalMasqueradeSubnet: 10.3.0.0/17}}}}}")}, onOpenShift...),
			with(openshiftIs, func(n *desired.ClusterNetwork) { n.Internal = internal("10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/17") })},
		"OpenShift with both names of the join subnet": {ovn, append([]client.Object{openshift(openshiftOperator, "Network", "cluster",
			"spec: {defaultNetwork: {ovnKubernetesConfig: {v4InternalSubnet: 10.1.0.0/16, ipv4: {internalJoinSubnet: 10.4.0.0/16}}}}")}, onOpenShift...),
			with(openshiftIs, func(n *desired.ClusterNetwork) {
				n.Internal = internal("10.4.0.0/16", "100.88.0.0/16", "169.254.0.0/16")
			})},
		"OpenShift with a custom network": {v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkCustom}, hybrid("{hybridOverlayVXLANPort: 9898}"),
			desired.ClusterNetwork{OpenShift: true, Platform: "AWS"}},
		"Kubernetes with OVN-Kubernetes": {v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkOVNHybridOverlay, OVN: &v1alpha1.OVNNetwork{VXLANPort: 9898}},
			[]client.Object{kubeadm("networking: {podSubnet: '10.244.0.0/16,fd02::/48'}")},
			desired.ClusterNetwork{PodCIDRs: []string{"10.244.0.0/16", "fd02::/48"}, VXLANPort: 9898}},
		"Kubernetes with ranges for OVN-Kubernetes": {v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkOVNHybridOverlay, OVN: &v1alpha1.OVNNetwork{
			ClusterSubnets: "10.128.0.0/14/23,fd02::/48", HybridClusterSubnets: "10.132.0.0/16"}}, []client.Object{kubeadm("networking: {podSubnet: 10.244.0.0/16}")},
			desired.ClusterNetwork{PodCIDRs: []string{"10.128.0.0/14", "fd02::/48"}, HybridCIDRs: []string{"10.132.0.0/16"},
				HostPrefixes: map[string]int{"10.128.0.0/14": 23, "fd02::/48": 64, "10.132.0.0/16": 24}}},
		"Kubernetes with OVN-Kubernetes without kubeadm": {ovn, nil, desired.ClusterNetwork{}},
		"Flannel": {flannel, []client.Object{flannelConfig("kube-flannel", "kube-flannel-cfg", netConf)}, desired.ClusterNetwork{Flannel: flannelIs}},
		"Flannel in another namespace": {v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkFlannel, Flannel: &v1alpha1.FlannelNetwork{Namespace: "net", ConfigMap: "cfg"}},
			[]client.Object{flannelConfig("net", "cfg", netConf), flannelConfig("kube-flannel", "kube-flannel-cfg", "{}")}, desired.ClusterNetwork{Flannel: flannelIs}},
		"missing Flannel": {flannel, []client.Object{flannelConfig("elsewhere", "kube-flannel-cfg", netConf)}, desired.ClusterNetwork{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := readNetwork(t.Context(), reader(test.objects...), test.config)
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestInvalidNetworksAreReported(t *testing.T) {
	subnets := func(text string) v1alpha1.NetworkSpec {
		return v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkOVNHybridOverlay, OVN: &v1alpha1.OVNNetwork{HybridClusterSubnets: text}}
	}
	flannel := v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkFlannel}
	for name, test := range map[string]struct {
		config  v1alpha1.NetworkSpec
		objects []client.Object
		wantErr []string
	}{
		"ranges that are strings": {v1alpha1.NetworkSpec{}, []client.Object{onPlatform("AWS"), networkOperator("{hybridClusterNetwork: [10.132.0.0/14]}")},
			[]string{"Network cluster", "hybridClusterNetwork", "string"}},
		"type that is a list": {v1alpha1.NetworkSpec{}, []client.Object{onPlatform("AWS"), network("status: {networkType: []}")},
			[]string{"Network cluster", "status.networkType", "array"}},
		"Flannel configuration that is not JSON": {flannel, []client.Object{flannelConfig("kube-flannel", "kube-flannel-cfg", "{")},
			[]string{"ConfigMap kube-flannel/kube-flannel-cfg", "net-conf.json"}},
		"Flannel configuration without its key": {flannel, []client.Object{configMap("kube-flannel", "kube-flannel-cfg", "other", "{}")},
			[]string{"ConfigMap kube-flannel/kube-flannel-cfg", "net-conf.json"}},
		"invalid subnet":                     {subnets("10.132.0.0"), nil, []string{"spec.network.ovn.hybridClusterSubnets", `"10.132.0.0"`}},
		"host prefix as long as the range's": {subnets("10.132.0.0/14/14"), nil, []string{"spec.network.ovn.hybridClusterSubnets", "/14"}},
		"range smaller than a /24":           {subnets("10.132.0.0/28"), nil, []string{"spec.network.ovn.hybridClusterSubnets", "/24"}},
		"a leading zero":                     {subnets("10.132.0.0/14/23,010.160.0.0/16/23"), nil, []string{"spec.network.ovn.hybridClusterSubnets", `"010.160.0.0/16/23"`}},
		"nodes of two sizes":                 {subnets("10.132.0.0/14/23,10.160.0.0/16"), nil, []string{"spec.network.ovn.hybridClusterSubnets", "/23 and /24"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readNetwork(t.Context(), reader(test.objects...), test.config)
			if err == nil {
				t.Fatalf("read as %+v", got)
			}
			for _, part := range test.wantErr {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not contain %q", err, part)
				}
			}
			if isFlannel := test.config.Provider == v1alpha1.NetworkFlannel; errors.Is(err, desired.ErrNetwork) != (isFlannel || test.config.OVN != nil) {
				t.Errorf("%v is, or is not, an error of the network's configuration", err)
			}
		})
	}
}

// TestUnreadableNetworkIsNotTreatedAsAbsent fails each request in turn. If a failure looked like a missing configuration, users would be advised
// to change a correct one.
func TestUnreadableNetworkIsNotTreatedAsAbsent(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("x"), "x", errors.New("no such right"))
	for name, test := range map[string]struct {
		config   v1alpha1.NetworkSpec
		objects  []client.Object
		requests int
	}{
		"OpenShift":                      {v1alpha1.NetworkSpec{}, []client.Object{onPlatform("AWS")}, 3},
		"Kubernetes with OVN-Kubernetes": {v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkOVNHybridOverlay}, nil, 2},
		"Flannel":                        {v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkFlannel}, nil, 2},
	} {
		var all []request
		if _, err := readNetwork(t.Context(), watched(reader(test.objects...), func(a request) error { all = append(all, a); return nil }), test.config); err != nil {
			t.Fatal(err)
		}
		if len(all) != test.requests {
			t.Errorf("%s: the requests are %v, want %d", name, all, test.requests)
		}
		for _, failing := range all {
			t.Run(name+" "+failing.kind.Group+" "+failing.String(), func(t *testing.T) {
				got, err := readNetwork(t.Context(), watched(reader(test.objects...), func(a request) error {
					if a == failing {
						return forbidden
					}
					return nil
				}), test.config)
				if !errors.Is(err, forbidden) || !cmp.Equal(got, desired.ClusterNetwork{}) || !strings.Contains(err.Error(), failing.kind.Kind+" ") {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		}
	}
}
