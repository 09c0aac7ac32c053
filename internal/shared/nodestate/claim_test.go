package nodestate_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

func TestNodeOwnershipRequiresProof(t *testing.T) {
	instance := func(change func(*v1alpha1.WindowsInstanceStatus)) *v1alpha1.WindowsInstance {
		i := &v1alpha1.WindowsInstance{}
		i.Status.Hostname, i.Status.NodeIP, i.Status.HostKey = "win-1", "10.0.0.1", "ssh-ed25519 AAAA"
		if change != nil {
			change(&i.Status)
		}
		return i
	}
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", UID: "u1", Labels: map[string]string{corev1.LabelOSStable: "windows"}}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.99.99.99"}}
		if change != nil {
			change(n)
		}
		return n
	}
	address := func(address string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Addresses[0].Address = address }
	}
	key := func(n *corev1.Node) { n.Annotations = map[string]string{api.AnnotationSSHHostKey: "AAAA"} }
	ref := &v1alpha1.NodeReference{Name: "win-1", UID: "u1"}
	for what, test := range map[string]struct {
		instance *v1alpha1.WindowsInstance
		node     *corev1.Node
		want     nodestate.Claim
	}{
		"the name alone":                   {instance(nil), node(nil), nodestate.Foreign},
		"the proven address":               {instance(nil), node(address("10.0.0.1")), nodestate.Own},
		"the host's key":                   {instance(nil), node(key), nodestate.Own},
		"the remembered UID":               {instance(func(st *v1alpha1.WindowsInstanceStatus) { st.NodeRef = ref }), node(nil), nodestate.Own},
		"an earlier version's reference":   {instance(func(st *v1alpha1.WindowsInstanceStatus) { st.NodeRef = &v1alpha1.NodeReference{Name: "win-1"} }), node(nil), nodestate.Foreign},
		"no address reported yet":          {instance(nil), node(func(n *corev1.Node) { n.Status.Addresses = nil }), nodestate.Unproven},
		"no address is known of the host":  {instance(func(st *v1alpha1.WindowsInstanceStatus) { st.NodeIP = "" }), node(func(n *corev1.Node) { n.Status.Addresses = nil }), nodestate.Unproven},
		"the address of a Linux node":      {instance(nil), node(func(n *corev1.Node) { address("10.0.0.1")(n); n.Labels = nil }), nodestate.Foreign},
		"another name":                     {instance(nil), node(func(n *corev1.Node) { address("10.0.0.1")(n); n.Name = "win-2" }), nodestate.Foreign},
		"no name":                          {instance(func(st *v1alpha1.WindowsInstanceStatus) { st.Hostname = "" }), node(func(n *corev1.Node) { address("10.0.0.1")(n); n.Name = "" }), nodestate.Foreign},
		"the address, written by the host": {instance(func(st *v1alpha1.WindowsInstanceStatus) { st.NodeConflict = ref }), node(address("10.0.0.1")), nodestate.Foreign},
		"the key, written by the host":     {instance(func(st *v1alpha1.WindowsInstanceStatus) { st.NodeConflict = ref }), node(key), nodestate.Foreign},
		"the Node after the one in conflict": {instance(func(st *v1alpha1.WindowsInstanceStatus) {
			st.NodeConflict = &v1alpha1.NodeReference{Name: "win-1", UID: "u0"}
		}), node(address("10.0.0.1")), nodestate.Own},
		"a host of which no key is known": {instance(func(st *v1alpha1.WindowsInstanceStatus) { st.HostKey = "" }), node(nil), nodestate.Foreign},
		"a Windows node without a label": {instance(nil), node(func(n *corev1.Node) {
			address("10.0.0.1")(n)
			n.Labels = nil
			n.Status.NodeInfo.OperatingSystem = "windows"
		}), nodestate.Own},
		"the remembered UID, relabeled":        {instance(func(st *v1alpha1.WindowsInstanceStatus) { st.NodeRef = ref }), node(func(n *corev1.Node) { n.Labels = nil }), nodestate.Own},
		"no UIDs at all, which proves nothing": {instance(func(st *v1alpha1.WindowsInstanceStatus) { st.NodeRef = &v1alpha1.NodeReference{Name: "win-1"} }), node(func(n *corev1.Node) { n.UID = "" }), nodestate.Foreign},
	} {
		if got := nodestate.ClaimOf(test.instance, test.node); got != test.want {
			t.Errorf("%s: got claim %d, want %d", what, got, test.want)
		}
	}
}
