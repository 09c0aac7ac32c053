package policysets

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
)

func node(system string, change func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelOSStable: system}, Annotations: map[string]string{}}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.7"}, {Type: corev1.NodeExternalIP, Address: "198.51.100.7"}}
	change(n)
	return n
}

// TestAddressesOfNodes has the annotations that OVN-Kubernetes writes, as they were recorded for lab/cluster/ovn.
func TestAddressesOfNodes(t *testing.T) {
	const overlay, flannel = v1alpha1.NetworkOVNHybridOverlay, v1alpha1.NetworkFlannel
	for name, c := range map[string]struct {
		system   string
		provider v1alpha1.NetworkProvider
		change   func(*corev1.Node)
		want     string
	}{
		"Windows in the overlay": {"windows", overlay, func(n *corev1.Node) { n.Annotations[cluster.HybridSubnetAnnotation] = "10.132.1.0/24" },
			"[10.132.1.1 10.132.1.254 192.0.2.7]"},
		"Windows with a larger subnet": {"windows", overlay, func(n *corev1.Node) { n.Annotations[cluster.HybridSubnetAnnotation] = "10.132.2.0/23" },
			"[10.132.2.1 10.132.3.254 192.0.2.7]"},
		"Windows without a subnet":         {"windows", overlay, func(*corev1.Node) {}, "[192.0.2.7]"},
		"Windows with a subnet of one pod": {"windows", flannel, func(n *corev1.Node) { n.Spec.PodCIDR = "10.244.1.0/31" }, "[192.0.2.7]"},
		"Linux in OVN-Kubernetes": {"linux", overlay, func(n *corev1.Node) {
			n.Annotations[cluster.LinuxSubnetsAnnotation] = `{"default":["fd01::/64","10.128.2.0/23"]}`
			n.Annotations[routerAddressAnnotation] = "10.128.2.3"
		}, "[10.128.2.1 10.128.2.2 10.128.2.3 192.0.2.7]"},
		"Linux in an older OVN-Kubernetes": {"linux", overlay, func(n *corev1.Node) { n.Annotations[cluster.LinuxSubnetsAnnotation] = `{"default":"10.128.2.0/23"}` },
			"[10.128.2.1 10.128.2.2 192.0.2.7]"},
		"Linux with an unreadable subnet": {"linux", overlay, func(n *corev1.Node) { n.Annotations[cluster.LinuxSubnetsAnnotation] = `{"default":[1]}` }, "[192.0.2.7]"},
		"Windows in Flannel":              {"windows", flannel, func(n *corev1.Node) { n.Spec.PodCIDR = "10.244.1.0/24" }, "[10.244.1.1 10.244.1.254 192.0.2.7]"},
		"Linux in Flannel":                {"linux", flannel, func(n *corev1.Node) { n.Spec.PodCIDR = "10.244.0.0/24" }, "[10.244.0.0 10.244.0.1 192.0.2.7]"},
		"IPv6 only": {"linux", flannel, func(n *corev1.Node) {
			n.Spec.PodCIDR, n.Status.Addresses = "fd00::/64", []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "fd00::7"}}
		}, "[]"},
		"too many addresses": {"linux", flannel, func(n *corev1.Node) {
			n.Status.Addresses = nil
			for i := range 200 {
				n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: fmt.Sprint("192.0.2.", i)})
			}
		}, fmt.Sprint(func() (first []string) {
			for i := range maxAddresses {
				first = append(first, fmt.Sprint("192.0.2.", i))
			}
			return first
		}())},
	} {
		if got := fmt.Sprint(nodeOf(node(c.system, c.change), c.provider).Addresses); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// TestSubnetsOfNodes: a kubelet must not make half of the Internet a peer of all pods that admit the cluster's pods.
func TestSubnetsOfNodes(t *testing.T) {
	for cidr, want := range map[string]string{
		"10.244.1.0/24": "10.244.1.0/24", "10.244.16.0/20": "10.244.16.0/20", "10.244.0.0/19": "invalid Prefix", "0.0.0.0/0": "invalid Prefix",
		"10.244.1.0/31": "invalid Prefix", "fd00::/64": "invalid Prefix", "": "invalid Prefix",
	} {
		if got := fmt.Sprint(nodeOf(node("linux", func(n *corev1.Node) { n.Spec.PodCIDR = cidr }), v1alpha1.NetworkFlannel).Pods); got != want {
			t.Errorf("%q: got %s, want %s", cidr, got, want)
		}
	}
}

func TestOnlyChangesOfAddressesAndSystemConcernPolicies(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"heartbeat": {func(n *corev1.Node) { n.ResourceVersion, n.Status.Conditions = "2", make([]corev1.NodeCondition, 1) }, false},
		"address":   {func(n *corev1.Node) { n.Status.Addresses[0].Address = "192.0.2.8" }, true},
		"pod CIDR":  {func(n *corev1.Node) { n.Spec.PodCIDR = "10.244.1.0/24" }, true},
		"subnet":    {func(n *corev1.Node) { n.Annotations[cluster.HybridSubnetAnnotation] = "10.132.1.0/24" }, true},
		"router":    {func(n *corev1.Node) { n.Annotations[routerAddressAnnotation] = "10.128.2.3" }, true},
		"system":    {func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "windows" }, true},
		"other":     {func(n *corev1.Node) { n.Annotations["other"] = "x" }, false},
	} {
		e := event.UpdateEvent{ObjectOld: node("linux", func(*corev1.Node) {}), ObjectNew: node("linux", c.change)}
		if got := nodeChanged().Update(e); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
