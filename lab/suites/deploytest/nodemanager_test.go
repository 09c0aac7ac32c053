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

// setNode gives a Node of the administrator's what a case begins with: taints, provider ID and labels.
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
	must(t, drop(c.admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})))
}

// updateNode reads a Node, changes it and replaces it, as the cloud-node-manager does. It changes nothing: the server only tries.
func updateNode(as clients, name string, change func(*corev1.Node)) func(context.Context) error {
	return func(ctx context.Context) error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error { // controllers of the cluster write new Nodes, too
			node, err := as.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			change(node)
			return drop(as.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}))
		})
	}
}

// without removes taints by their keys.
func without(keys ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return slices.Contains(keys, t.Key) })
	}
}

// initialized is what the cloud-node-manager makes of a Node (pkg/nodemanager of cloud-provider-azure).
func initialized(n *corev1.Node) {
	n.Spec.ProviderID = "azure:///subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/virtualMachines/v"
	for label, value := range map[string]string{
		"node.kubernetes.io/instance-type": "Standard_D4s_v5", "topology.kubernetes.io/zone": "eastus-1", "topology.kubernetes.io/region": "eastus",
		"topology.kubernetes.azure.com/sub-fault-domain": "1", "topology.kubernetes.azure.com/interconnect-group": "g",
	} {
		n.Labels[label] = value
	}
	without(api.TaintUninitialized)(n)
}

// testNodeManagerOnItsNode tries what may be changed while the Node waits for its cloud, and after that.
func (c *cluster) testNodeManagerOnItsNode(t *testing.T) {
	const name = "win-azure"
	manager := c.asNodeManager(t, name)
	update := func(change func(*corev1.Node)) func(context.Context) error { return updateNode(manager, name, change) }
	and := func(change func(*corev1.Node)) func(context.Context) error {
		return update(func(n *corev1.Node) { initialized(n); change(n) })
	}
	c.setNode(t, name, "", []string{api.TaintUninitialized, "os"})
	eventually(t, "denied request", update(func(n *corev1.Node) { n.Annotations["a"] = "b" }))
	try(t, []attempt{
		{"initializes its Node", "", update(initialized)},
		{"removes only the taint", "", update(without(api.TaintUninitialized))},
		{"labels a Node that keeps its taint", "", update(func(n *corev1.Node) { n.Labels["topology.kubernetes.io/region"] = "eastus" })},
		{"changes nothing", "", update(func(*corev1.Node) {})},
		{"removes the taint of Windows nodes", nodeManagerPolicy, update(without(api.TaintUninitialized, "os"))},
		{"removes another taint instead", nodeManagerPolicy, update(without("os"))},
		{"adds a taint", nodeManagerPolicy, and(func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoSchedule})
		})},
		{"sets the provider ID of another cloud", nodeManagerPolicy, and(func(n *corev1.Node) { n.Spec.ProviderID = "aws:///a/i-1" })},
		{"makes its Node unschedulable", nodeManagerPolicy, and(func(n *corev1.Node) { n.Spec.Unschedulable = true })},
		{"adds another label", nodeManagerPolicy, and(func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/control-plane"] = "" })},
		{"says that its Node runs another system", nodeManagerPolicy, and(func(n *corev1.Node) { n.Labels["kubernetes.io/os"] = "linux" })},
		{"removes a label", nodeManagerPolicy, and(func(n *corev1.Node) { delete(n.Labels, "kubernetes.io/os") })},
		{"adds an annotation", nodeManagerPolicy, and(func(n *corev1.Node) { n.Annotations[group+"/version"] = "1" })},
		{"removes an annotation", nodeManagerPolicy, and(func(n *corev1.Node) { n.Annotations = nil })},
		{"adds a finalizer", nodeManagerPolicy, and(func(n *corev1.Node) { n.Finalizers = []string{"example.com/stay"} })},
		{"adds an owner", nodeManagerPolicy, and(func(n *corev1.Node) {
			n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "x", UID: "y"}}
		})},
		{"patches its Node", forbidden, func(ctx context.Context) error { return patchNode(ctx, manager, name, annotate("a", "b")) }},
	})
	c.setNode(t, name, "azure:///one", []string{api.TaintUninitialized, "os"})
	try(t, []attempt{
		{"initializes a Node that has a provider ID", "", and(func(n *corev1.Node) { n.Spec.ProviderID = "azure:///one" })},
		{"changes a provider ID", "providerID", and(func(n *corev1.Node) { n.Spec.ProviderID = "azure:///two" })}, // Kubernetes itself also forbids it
	})
	c.setNode(t, name, "", []string{"os"})
	try(t, []attempt{
		{"changes nothing of an initialized Node", "", update(func(*corev1.Node) {})},
		{"gives an initialized Node a provider ID", nodeManagerPolicy, update(func(n *corev1.Node) { n.Spec.ProviderID = "azure:///one" })},
		{"moves an initialized Node to another zone", nodeManagerPolicy, update(func(n *corev1.Node) { n.Labels["topology.kubernetes.io/zone"] = "eastus-2" })},
		{"gives an initialized Node an instance type", nodeManagerPolicy, update(func(n *corev1.Node) { n.Labels["node.kubernetes.io/instance-type"] = "x" })},
		{"removes the taint of an initialized Node", nodeManagerPolicy, update(without("os"))},
	})
	c.setNode(t, name, "", nil)
	try(t, []attempt{{"changes nothing of a Node without taints", "", update(func(*corev1.Node) {})}})
	must(t, c.admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// testNodeManagerOnItsStatus tries patches of the status.
func (c *cluster) testNodeManagerOnItsStatus(t *testing.T) {
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
		{"sets addresses", "", patch(status("addresses", addresses))},
		{"changes addresses", "", patch(status("addresses", addresses[:1]))},
		{"sets a condition", policy, patch(status("conditions", []map[string]any{{"type": "Ready", "status": "True"}}))},
		{"sets what its Node has", policy, patch(status("capacity", map[string]any{"pods": "1000"}))},
		{"sets the system", policy, patch(status("nodeInfo", map[string]any{"operatingSystem": "linux"}))},
		{"sets the port of the kubelet", policy, patch(status("daemonEndpoints", map[string]any{"kubeletEndpoint": map[string]any{"Port": 22}}))},
		{"labels its Node in its status", policy, patch(metadata("labels", map[string]any{"a": "b"}))},
		{"annotates its Node in its status", policy, patch(annotate("a", "b"))},
	})
}

// testNodeManagerOnOtherObjects tries other Nodes and other objects.
func (c *cluster) testNodeManagerOnOtherObjects(t *testing.T) {
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
		{"updates another Windows node", notItsNode, updateNode(manager, "win-2", nothing)},
		{"updates a Linux node", notItsNode, updateNode(manager, "linux-1", nothing)},
		{"sets the addresses of another node", notItsNode, status(manager, "win-2")},
		{"updates a node whose name begins with its own", "is not the node of user", updateNode(longer, "win-1", nothing)},
		{"member of the group with another name updates a node", "is not the node of user alice", updateNode(member, "win-1", nothing)},
		{"member of the group with another name sets addresses", "is not the node of user alice", status(member, "win-1")},
		{"watches its node", "", func(ctx context.Context) error { return watched(core.Nodes().Watch(ctx, byName("win-1"))) }},
		{"deletes its node", forbidden, func(ctx context.Context) error { return core.Nodes().Delete(ctx, "win-1", metav1.DeleteOptions{}) }},
		{"creates a node", forbidden, func(ctx context.Context) error {
			return drop(core.Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-3"}}, metav1.CreateOptions{}))
		}},
		{"creates an event", forbidden, func(ctx context.Context) error { return createEvent(ctx, manager, eventOf("win-1")) }},
		{"requests a certificate", forbidden, func(ctx context.Context) error {
			return drop(createRequest(ctx, manager, certificatesv1.KubeAPIServerClientSignerName, request, "digital signature", "client auth"))
		}},
		{"reads the secrets of nodes", forbidden, func(ctx context.Context) error {
			return drop(core.Secrets(namespace).Get(ctx, "windows-node-secrets", metav1.GetOptions{}))
		}},
		{"lists Pods", forbidden, func(ctx context.Context) error { return drop(core.Pods("").List(ctx, metav1.ListOptions{})) }},
	})
}

// testNodeManagerGetsItsIdentity has WICD request it, with what the API server writes into requests.
func (c *cluster) testNodeManagerGetsItsIdentity(t *testing.T) {
	h := c.newHost(t)
	wicd := c.obtain(t, h.clients, h.known(), certificatesv1.KubeAPIServerClientSignerName, "system:wicd-node:win-1", "system:wicd-nodes")
	known := h.known()
	known.NodeManager = true
	manager := c.obtain(t, wicd, known, certificatesv1.KubeAPIServerClientSignerName, api.NodeManagerUserPrefix+"win-1", api.NodeManagerGroup)
	try(t, []attempt{
		{"its own node", "", updateNode(manager, "win-1", func(*corev1.Node) {})},
		{"another node", notItsNode, updateNode(manager, "win-2", func(*corev1.Node) {})},
	})
}
