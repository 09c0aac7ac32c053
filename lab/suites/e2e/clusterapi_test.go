//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/clusterapi"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// The namespace of Machines, the Cluster that represents the lab's, and its MachineDeployment.
const (
	selfNamespace = "self"
	selfCluster   = "mgmt"
	deployment    = "windows"
)

// machinesOf is a place whose machines are managed by Cluster API.
type machinesOf struct {
	place
	cloud *testenv.Machines
}

// TestClusterAPI has Cluster API's own controllers make hosts: a MachineDeployment becomes nodes as docs/machines.md describes, grows, is repaired by
// a MachineHealthCheck, and shrinks with a drain that respects a disruption budget.
func TestClusterAPI(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newPlace(t, testenv.Options{WineHosts: 1, Network: testenv.NetworkLab})
	cloud, err := p.StartClusterAPI(t.Context())
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("the end of the log of Cluster API's controllers:\n" + cloud.Log())
		}
	})
	m := machinesOf{p, cloud}
	m.prepare()
	p.joinAll() // a host that Cluster API does not manage

	passed := t.Run("a MachineDeployment becomes a node", func(t *testing.T) {
		m := m.in(t)
		m.create(clusterapi.MachineDeployment(selfNamespace, selfCluster, deployment, 1, api.UserDataSecret, map[string]string{api.LabelMachineOS: "Windows"}))
		m.expectNodes(1)
	}) &&
		t.Run("Machines of others do not", func(t *testing.T) { m.in(t).ofOthers() }) &&
		t.Run("it grows", func(t *testing.T) {
			m := m.in(t)
			m.scale(2)
			m.expectNodes(2)
		}) &&
		t.Run("it shrinks, and pods move first", func(t *testing.T) { m.in(t).shrinks() }) &&
		t.Run("a host that is lost is replaced", func(t *testing.T) { m.in(t).isReplaced() })
	if !passed {
		return
	}
	t.Run("all of them leave", func(t *testing.T) {
		m := m.in(t)
		m.scale(0)
		m.expectNodes(0)
		m.expectAllReady()
	})
}

func (m machinesOf) in(t *testing.T) machinesOf { return machinesOf{m.place.in(t), m.cloud} }

// prepare follows docs/machines.md.
func (m machinesOf) prepare() {
	m.t.Helper()
	ctx, config := m.t.Context(), m.Lab.ControlPlane.RESTConfig()
	m.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: selfNamespace}})
	m.configure(func(s *v1alpha1.WindowsConfigSpec) { s.CloudProvider = v1alpha1.CloudProviderExternal })
	endpoint := strings.TrimPrefix(config.Host, "https://")
	must(m.t, clusterapi.NewCluster(ctx, m.Client, selfNamespace, selfCluster, endpoint, m.Kubeconfig))
	root, err := testenv.Repository(ctx)
	must(m.t, err)
	objects, err := manifest.Render(filepath.Join(root, "deploy", "cluster-api"))
	must(m.t, err)
	for _, o := range objects {
		o.SetNamespace(selfNamespace)
	}
	must(m.t, manifest.ApplyObjects(ctx, config, objects))
	m.configure(func(s *v1alpha1.WindowsConfigSpec) {
		s.ClusterAPI = &v1alpha1.ClusterAPISpec{Namespace: selfNamespace, ClusterName: selfCluster}
	})
	m.createUserData()
}

// createUserData creates the Secret that kubectl windows userdata prints.
func (m machinesOf) createUserData() {
	m.t.Helper()
	signer, err := ssh.ParsePrivateKey(m.Key)
	must(m.t, err)
	file := filepath.Join(m.t.TempDir(), "windows-key.pub")
	must(m.t, os.WriteFile(file, ssh.MarshalAuthorizedKey(signer.PublicKey()), 0o600))
	plugin, err := m.Plugin(m.t.Context())
	must(m.t, err)
	result, err := plugin.Run(m.t.Context(), "userdata", "--public-key", file, "--platform", "none")
	if err != nil || result.Code != 0 {
		m.t.Fatalf("kubectl windows userdata: exit code %d, %v:\n%s", result.Code, err, result.All())
	}
	var secret corev1.Secret
	must(m.t, yaml.UnmarshalStrict([]byte(result.Out), &secret))
	secret.Namespace = selfNamespace
	m.create(&secret)
}

func (m machinesOf) scale(replicas int64) {
	m.t.Helper()
	d := clusterapi.MachineDeployment(selfNamespace, selfCluster, deployment, replicas, api.UserDataSecret, nil).(*unstructured.Unstructured)
	before := d.DeepCopy()
	unstructured.RemoveNestedField(before.Object, "spec", "replicas")
	must(m.t, m.Client.Patch(m.t.Context(), d, client.MergeFrom(before)))
}

// machines are the Machines of the MachineDeployment.
func (m machinesOf) machines(ctx context.Context) ([]unstructured.Unstructured, error) {
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(clusterapi.Kind("Machine"))
	err := m.Client.List(ctx, &list, client.InNamespace(selfNamespace), client.MatchingLabels{"cluster.x-k8s.io/deployment-name": deployment})
	return list.Items, err
}

// expectNodes waits until there are as many Machines as wanted, each Running with its own Ready node, and nothing is left of removed ones.
func (m machinesOf) expectNodes(want int) (nodes []string) {
	m.t.Helper()
	m.eventually(fmt.Sprintf("there are %d Machines with Ready nodes", want), func(ctx context.Context) (missing string) {
		nodes, missing = m.nodesOfMachines(ctx)
		if missing == "" && len(nodes) != want {
			missing = fmt.Sprintf("there are %d", len(nodes))
		}
		return missing
	})
	return nodes
}

func (m machinesOf) nodesOfMachines(ctx context.Context) (nodes []string, missing string) {
	machines, err := m.machines(ctx)
	if err != nil {
		return nil, err.Error()
	}
	wanted := []string{m.Hosts()[0].Name} // nodes of instances
	for _, machine := range machines {
		phase, _, _ := unstructured.NestedString(machine.Object, "status", "phase")
		node, _, _ := unstructured.NestedString(machine.Object, "status", "nodeRef", "name")
		if phase != "Running" || node == "" || !isTrue(&machine, "NodeReady") {
			return nil, fmt.Sprintf("Machine %s is %s, its node is %q: %v", machine.GetName(), phase, node, machine.Object["status"])
		}
		if got, found := m.cloud.Get(machine.GetName()); !found || got.Node != node {
			return nil, fmt.Sprintf("Machine %s has node %s, and host %q", machine.GetName(), node, got.Node)
		}
		nodes, wanted = append(nodes, node), append(wanted, node)
	}
	var instances v1alpha1.WindowsInstanceList
	var all corev1.NodeList
	if err := m.Client.List(ctx, &instances); err != nil {
		return nil, err.Error()
	}
	if err := m.Client.List(ctx, &all, client.MatchingLabels{corev1.LabelOSStable: "windows"}); err != nil {
		return nil, err.Error()
	}
	for _, i := range instances.Items {
		if i.Status.NodeRef == nil || !slices.Contains(wanted, i.Status.NodeRef.Name) {
			return nil, fmt.Sprintf("WindowsInstance %s is there, with node %+v", i.Name, i.Status.NodeRef)
		}
	}
	if len(instances.Items) != len(wanted) || len(all.Items) != len(wanted) {
		return nil, fmt.Sprintf("there are %d instances and %d nodes, want %d", len(instances.Items), len(all.Items), len(wanted))
	}
	return nodes, ""
}

func isTrue(o *unstructured.Unstructured, condition string) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		got, _ := c.(map[string]any)
		return got["type"] == condition && got["status"] == "True"
	})
}

// ofOthers creates Machines of other clusters: one of another Cluster in the same namespace, which is reported, and one of another namespace.
func (m machinesOf) ofOthers() {
	const tenant = "tenant"
	m.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}})
	endpoint := strings.TrimPrefix(m.Lab.ControlPlane.RESTConfig().Host, "https://")
	labels := map[string]string{api.LabelMachineOS: "Windows"}
	var secret corev1.Secret
	m.get(types.NamespacedName{Namespace: selfNamespace, Name: api.UserDataSecret}, &secret)
	m.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: secret.Name}, Type: secret.Type, Data: secret.Data})
	for _, namespace := range []string{selfNamespace, tenant} {
		must(m.t, clusterapi.NewCluster(m.t.Context(), m.Client, namespace, tenant, endpoint, m.Kubeconfig))
		m.create(clusterapi.MachineDeployment(namespace, tenant, tenant, 1, api.UserDataSecret, labels))
	}
	for _, namespace := range []string{selfNamespace, tenant} {
		var name string
		m.eventually("the Machine in namespace "+namespace+" is provisioned", func(ctx context.Context) string {
			var list unstructured.UnstructuredList
			list.SetGroupVersionKind(clusterapi.Kind("Machine"))
			err := m.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{"cluster.x-k8s.io/deployment-name": tenant})
			if err != nil || len(list.Items) != 1 {
				return fmt.Sprintf("there are %d: %v", len(list.Items), err)
			}
			name = list.Items[0].GetName()
			if phase, _, _ := unstructured.NestedString(list.Items[0].Object, "status", "phase"); phase != "Provisioned" {
				return "it is " + phase
			}
			return ""
		})
		if namespace == selfNamespace {
			m.expectEvent(name, api.EventInstanceInvalid, "spec.clusterName", tenant, selfCluster)
		}
	}
	m.expectNodes(1)
	for _, namespace := range []string{selfNamespace, tenant} {
		d := clusterapi.MachineDeployment(namespace, tenant, tenant, 1, "", nil)
		m.remove(d)
		m.expectGone(client.ObjectKeyFromObject(d), d)
	}
}

// shrinks scales the MachineDeployment down to one while its Machines run pods, of which only one at a time may be missing.
func (m machinesOf) shrinks() {
	nodes := m.expectNodes(2)
	if !m.RunsPods() {
		m.scale(1)
		m.expectNodes(1)
		return
	}
	one := intstr.FromInt32(1)
	m.webserver(appWeb, 2, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Affinity = &corev1.Affinity{
			NodeAffinity: byHostname(corev1.NodeSelectorOpIn, nodes...),
			PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: labelsOf(appWeb)},
			}}},
		}
	})
	m.create(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: appWeb},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: labelsOf(appWeb)},
	})
	m.ExpectServing(m.t, patience, appWeb, 2)
	traffic := m.StartTraffic(m.t.Context(), appWeb, 50*time.Millisecond)
	m.scale(1)
	left := m.expectNodes(1)
	m.ExpectServing(m.t, patience, appWeb, 2)
	answered, failures := traffic.Stop()
	if answered == 0 || len(failures) > 0 {
		m.t.Errorf("%d requests were answered while %v became %v; failed: %q", answered, nodes, left, failures)
	}
}

// isReplaced cuts the power of a host: a MachineHealthCheck makes Cluster API delete its Machine, and the MachineDeployment creates another one.
func (m machinesOf) isReplaced() {
	before := m.expectNodes(1)
	check := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": selfNamespace, "name": deployment},
		"spec": map[string]any{
			"clusterName": selfCluster, "selector": map[string]any{"matchLabels": map[string]any{"cluster.x-k8s.io/deployment-name": deployment}},
			"checks": map[string]any{"unhealthyNodeConditions": []any{
				map[string]any{"type": "Ready", "status": "Unknown", "timeoutSeconds": int64(10)},
			}},
		},
	}}
	check.SetGroupVersionKind(clusterapi.Kind("MachineHealthCheck"))
	m.create(check)
	m.eventually("the MachineHealthCheck sees the Machine", func(ctx context.Context) string {
		if err := m.Client.Get(ctx, client.ObjectKeyFromObject(check), check); err != nil {
			return err.Error()
		}
		if n, _, _ := unstructured.NestedInt64(check.Object, "status", "currentHealthy"); n != 1 {
			return fmt.Sprintf("its status is %v", check.Object["status"])
		}
		return ""
	})
	machines, err := m.machines(m.t.Context())
	if err != nil || len(machines) != 1 {
		m.t.Fatalf("there are %d Machines: %v", len(machines), err)
	}
	lost, _ := m.cloud.Get(machines[0].GetName())
	lost.PowerOff()
	m.eventually("another host has taken its place", func(ctx context.Context) string {
		nodes, missing := m.nodesOfMachines(ctx)
		if missing == "" && (len(nodes) != 1 || nodes[0] == before[0]) {
			missing = fmt.Sprintf("there is %v", nodes)
		}
		return missing
	})
}
