//go:build linux

package deploytest

import (
	"context"
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/windows-machine-config/wmco/api"
)

const (
	nodeManagerPolicy = "ValidatingAdmissionPolicy 'windows-cloud-node-manager'"
	notItsNode        = "is not the node of user system:windows-cloud-node-manager:win-1"
)

func (c *cluster) asNodeManager(t *testing.T, node string) clients {
	t.Helper()
	return c.as(t, api.NodeManagerUserPrefix+node, api.NodeManagerGroup)
}

// setNode recreates a Node with a provider ID and taints.
func (c *cluster) setNode(t *testing.T, name string, providerID string, taints []string) {
	t.Helper()
	_ = c.admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{})
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/os": "windows", "topology.kubernetes.io/zone": "z"},
			Annotations: map[string]string{"example.com/other": "x"}},
		Spec: corev1.NodeSpec{ProviderID: providerID},
	}
	for _, key := range taints {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Value: "true", Effect: corev1.TaintEffectNoSchedule})
	}
	must(t, errOf(c.admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})))
}

// updateNode returns a function that reads a Node and updates it like the cloud-node-manager, as a dry run.
func updateNode(as clients, name string, change func(*corev1.Node)) func(context.Context) error {
	return func(ctx context.Context) error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error { // controllers of the cluster write new Nodes as well
			node, err := as.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			change(node)
			return errOf(as.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}))
		})
	}
}

// without returns a function that removes taints by their keys.
func without(keys ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return slices.Contains(keys, t.Key) })
	}
}

// initialize changes a Node like the cloud-node-manager (pkg/nodemanager of cloud-provider-azure).
func initialize(n *corev1.Node) {
	n.Spec.ProviderID = "azure:///subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/virtualMachines/v"
	for label, value := range map[string]string{
		"node.kubernetes.io/instance-type": "Standard_D4s_v5", "topology.kubernetes.io/zone": "eastus-1", "topology.kubernetes.io/region": "eastus",
		"topology.kubernetes.azure.com/sub-fault-domain": "1", "topology.kubernetes.azure.com/interconnect-group": "g",
	} {
		n.Labels[label] = value
	}
	without(api.TaintUninitialized)(n)
}

// testNodeManagerNodePermissions tries changes before and after the Node is initialized.
func (c *cluster) testNodeManagerNodePermissions(t *testing.T) {
	const name = "win-azure"
	manager := c.asNodeManager(t, name)
	update := func(change func(*corev1.Node)) func(context.Context) error { return updateNode(manager, name, change) }
	initializeAnd := func(change func(*corev1.Node)) func(context.Context) error {
		return update(func(n *corev1.Node) { initialize(n); change(n) })
	}
	c.setNode(t, name, "", []string{api.TaintUninitialized, "os"})
	eventually(t, "denied request", update(func(n *corev1.Node) { n.Annotations["a"] = "b" }))
	try(t, []attempt{
		{"initialize its Node", "", update(initialize)},
		{"remove only the taint", "", update(without(api.TaintUninitialized))},
		{"label a Node without removing the taint", "", update(func(n *corev1.Node) { n.Labels["topology.kubernetes.io/region"] = "eastus" })},
		{"change nothing", "", update(func(*corev1.Node) {})},
		{"remove the taint of Windows nodes", nodeManagerPolicy, update(without(api.TaintUninitialized, "os"))},
		{"remove another taint instead", nodeManagerPolicy, update(without("os"))},
		{"add a taint", nodeManagerPolicy, initializeAnd(func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoSchedule})
		})},
		{"set the provider ID of another cloud", nodeManagerPolicy, initializeAnd(func(n *corev1.Node) { n.Spec.ProviderID = "aws:///a/i-1" })},
		{"cordon its Node", nodeManagerPolicy, initializeAnd(func(n *corev1.Node) { n.Spec.Unschedulable = true })},
		{"add another label", nodeManagerPolicy, initializeAnd(func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/control-plane"] = "" })},
		{"change the operating system label", nodeManagerPolicy, initializeAnd(func(n *corev1.Node) { n.Labels["kubernetes.io/os"] = "linux" })},
		{"remove a label", nodeManagerPolicy, initializeAnd(func(n *corev1.Node) { delete(n.Labels, "kubernetes.io/os") })},
		{"add an annotation", nodeManagerPolicy, initializeAnd(func(n *corev1.Node) { n.Annotations[group+"/version"] = "1" })},
		{"remove an annotation", nodeManagerPolicy, initializeAnd(func(n *corev1.Node) { n.Annotations = nil })},
		{"add a finalizer", nodeManagerPolicy, initializeAnd(func(n *corev1.Node) { n.Finalizers = []string{"example.com/stay"} })},
		{"add an owner", nodeManagerPolicy, initializeAnd(func(n *corev1.Node) {
			n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "x", UID: "y"}}
		})},
		{"patch its Node", forbidden, func(ctx context.Context) error { return patchNode(ctx, manager, name, annotate("a", "b")) }},
	})
	c.setNode(t, name, "azure:///one", []string{api.TaintUninitialized, "os"})
	try(t, []attempt{
		{"initialize a Node that has a provider ID", "", initializeAnd(func(n *corev1.Node) { n.Spec.ProviderID = "azure:///one" })},
		{"change the provider ID", "providerID", initializeAnd(func(n *corev1.Node) { n.Spec.ProviderID = "azure:///two" })}, // Kubernetes itself also rejects it
	})
	c.setNode(t, name, "", []string{"os"})
	try(t, []attempt{
		{"change nothing on an initialized Node", "", update(func(*corev1.Node) {})},
		{"set the provider ID of an initialized Node", nodeManagerPolicy, update(func(n *corev1.Node) { n.Spec.ProviderID = "azure:///one" })},
		{"change the zone of an initialized Node", nodeManagerPolicy, update(func(n *corev1.Node) { n.Labels["topology.kubernetes.io/zone"] = "eastus-2" })},
		{"set the instance type of an initialized Node", nodeManagerPolicy, update(func(n *corev1.Node) { n.Labels["node.kubernetes.io/instance-type"] = "x" })},
		{"remove the taint of an initialized Node", nodeManagerPolicy, update(without("os"))},
	})
	c.setNode(t, name, "", nil)
	try(t, []attempt{{"change nothing on a Node without taints", "", update(func(*corev1.Node) {})}})
	must(t, c.admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// testNodeManagerStatusPermissions tries to patch the status.
func (c *cluster) testNodeManagerStatusPermissions(t *testing.T) {
	manager := c.asNodeManager(t, "win-1")
	patch := func(value map[string]any) func(context.Context) error {
		return func(ctx context.Context) error { return patchNode(ctx, manager, "win-1", value, "status") }
	}
	status := func(field string, value any) map[string]any {
		return map[string]any{"status": map[string]any{field: value}}
	}
	addresses := []map[string]any{{"type": "InternalIP", "address": "10.0.0.4"}, {"type": "Hostname", "address": "win-1"}}
	const policy = "ValidatingAdmissionPolicy 'windows-cloud-node-manager-status'"
	eventually(t, "denied request", patch(status("phase", "Running")))
	try(t, []attempt{
		{"set addresses", "", patch(status("addresses", addresses))},
		{"change addresses", "", patch(status("addresses", addresses[:1]))},
		{"set a condition", policy, patch(status("conditions", []map[string]any{{"type": "Ready", "status": "True"}}))},
		{"set the capacity", policy, patch(status("capacity", map[string]any{"pods": "1000"}))},
		{"set the operating system", policy, patch(status("nodeInfo", map[string]any{"operatingSystem": "linux"}))},
		{"set the port of the kubelet", policy, patch(status("daemonEndpoints", map[string]any{"kubeletEndpoint": map[string]any{"Port": 22}}))},
		{"add a label through the status", policy, patch(metadata("labels", map[string]any{"a": "b"}))},
		{"add an annotation through the status", policy, patch(annotate("a", "b"))},
	})
}

// testNodeManagerLimits tries requests for other Nodes and other objects.
func (c *cluster) testNodeManagerLimits(t *testing.T) {
	manager, longer := c.asNodeManager(t, "win-1"), c.asNodeManager(t, "win")
	member := c.as(t, "alice", api.NodeManagerGroup)
	addresses := map[string]any{"status": map[string]any{"addresses": []map[string]any{{"type": "InternalIP", "address": "10.0.0.4"}}}}
	status := func(as clients, name string) func(context.Context) error {
		return func(ctx context.Context) error { return patchNode(ctx, as, name, addresses, "status") }
	}
	nothing := func(*corev1.Node) {}
	core := manager.CoreV1()
	_, request := newRequest(t, api.NodeManagerUserPrefix+"win-1", api.NodeManagerGroup)
	try(t, []attempt{
		{"update another Windows node", notItsNode, updateNode(manager, "win-2", nothing)},
		{"update a Linux node", notItsNode, updateNode(manager, "linux-1", nothing)},
		{"set the addresses of another Node", notItsNode, status(manager, "win-2")},
		{"update a Node whose name starts with its own", "is not the node of user", updateNode(longer, "win-1", nothing)},
		{"update a Node as another member of the group", "is not the node of user alice", updateNode(member, "win-1", nothing)},
		{"set addresses as another member of the group", "is not the node of user alice", status(member, "win-1")},
		{"watch its Node", "", func(ctx context.Context) error { return watchErr(core.Nodes().Watch(ctx, byName("win-1"))) }},
		{"delete its Node", forbidden, func(ctx context.Context) error { return core.Nodes().Delete(ctx, "win-1", metav1.DeleteOptions{}) }},
		{"create a Node", forbidden, func(ctx context.Context) error {
			return errOf(core.Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-3"}}, metav1.CreateOptions{}))
		}},
		{"create an event", forbidden, func(ctx context.Context) error { return createEvent(ctx, manager, eventOf("win-1")) }},
		{"request a certificate", forbidden, func(ctx context.Context) error {
			return errOf(createRequest(ctx, manager, certificatesv1.KubeAPIServerClientSignerName, request, "digital signature", "client auth"))
		}},
		{"read secrets of nodes", forbidden, func(ctx context.Context) error {
			return errOf(core.Secrets(namespace).Get(ctx, "windows-node-secrets", metav1.GetOptions{}))
		}},
		{"list Pods", forbidden, func(ctx context.Context) error { return errOf(core.Pods("").List(ctx, metav1.ListOptions{})) }},
	})
}

// testNodeManagerCertificate has WICD request the certificate, because the operator's decision depends on the fields that the
// API server sets.
func (c *cluster) testNodeManagerCertificate(t *testing.T) {
	h := c.newHost(t)
	wicd := c.obtain(t, h.clients, h.known(), certificatesv1.KubeAPIServerClientSignerName, "system:wicd-node:win-1", "system:wicd-nodes")
	known := h.known()
	known.NodeManager = true
	manager := c.obtain(t, wicd, known, certificatesv1.KubeAPIServerClientSignerName, api.NodeManagerUserPrefix+"win-1", api.NodeManagerGroup)
	try(t, []attempt{
		{"update its own Node", "", updateNode(manager, "win-1", func(*corev1.Node) {})},
		{"update another Node", notItsNode, updateNode(manager, "win-2", func(*corev1.Node) {})},
	})
}
