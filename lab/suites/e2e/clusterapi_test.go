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

// clusterAPITest is a harness whose machines are managed by Cluster API.
type clusterAPITest struct {
	harness
	cloud *testenv.Machines
}

// TestClusterAPI runs Cluster API's own controllers: the machines of a MachineDeployment become nodes as docs/machines.md describes. It is scaled up,
// repaired by a MachineHealthCheck, and scaled down with a drain that respects a PodDisruptionBudget.
func TestClusterAPI(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newHarness(t, testenv.Options{WineHosts: 1, Network: testenv.NetworkLab})
	cloud, err := p.StartClusterAPI(t.Context())
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("the end of the log of Cluster API's controllers:\n" + cloud.Log())
		}
	})
	m := clusterAPITest{p, cloud}
	m.prepare()
	p.joinAll() // a host that Cluster API does not manage

	passed := t.Run("a Machine becomes a node", func(t *testing.T) {
		m := m.withT(t)
		m.create(clusterapi.MachineDeployment(selfNamespace, selfCluster, deployment, 1, api.UserDataSecret, map[string]string{api.LabelMachineOS: "Windows"}))
		m.expectNodes(1)
	}) &&
		t.Run("Machines of other clusters are ignored", func(t *testing.T) { m.withT(t).createForeignMachines() }) &&
		t.Run("scaling up adds a node", func(t *testing.T) {
			m := m.withT(t)
			m.scale(2)
			m.expectNodes(2)
		}) &&
		t.Run("scaling down drains the node first", func(t *testing.T) { m.withT(t).scaleDown() }) &&
		t.Run("a failed host is replaced", func(t *testing.T) { m.withT(t).replaceLost() })
	if !passed {
		return
	}
	t.Run("scaling to zero removes all nodes", func(t *testing.T) {
		m := m.withT(t)
		m.scale(0)
		m.expectNodes(0)
		m.expectAllReady()
	})
}

func (m clusterAPITest) withT(t *testing.T) clusterAPITest {
	return clusterAPITest{m.harness.withT(t), m.cloud}
}

// prepare follows docs/machines.md.
func (m clusterAPITest) prepare() {
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
func (m clusterAPITest) createUserData() {
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

func (m clusterAPITest) scale(replicas int64) {
	m.t.Helper()
	d := clusterapi.MachineDeployment(selfNamespace, selfCluster, deployment, replicas, api.UserDataSecret, nil).(*unstructured.Unstructured)
	before := d.DeepCopy()
	unstructured.RemoveNestedField(before.Object, "spec", "replicas")
	must(m.t, m.Client.Patch(m.t.Context(), d, client.MergeFrom(before)))
}

// machines returns the Machines of the MachineDeployment.
func (m clusterAPITest) machines(ctx context.Context) ([]unstructured.Unstructured, error) {
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(clusterapi.Kind("Machine"))
	err := m.Client.List(ctx, &list, client.InNamespace(selfNamespace), client.MatchingLabels{"cluster.x-k8s.io/deployment-name": deployment})
	return list.Items, err
}

// expectNodes waits until there are as many Machines as wanted, each Running with its own Ready node, and nothing is left of removed ones.
func (m clusterAPITest) expectNodes(want int) (nodes []string) {
	m.t.Helper()
	m.eventually(fmt.Sprintf("there are %d Machines with Ready nodes", want), func(ctx context.Context) (missing string) {
		nodes, missing = m.nodesOfMachines(ctx)
		if missing == "" && len(nodes) != want {
			missing = fmt.Sprintf("got %d", len(nodes))
		}
		return missing
	})
	return nodes
}

func (m clusterAPITest) nodesOfMachines(ctx context.Context) (nodes []string, missing string) {
	machines, err := m.machines(ctx)
	if err != nil {
		return nil, err.Error()
	}
	want := []string{m.Hosts()[0].Name} // nodes of instances
	for _, machine := range machines {
		phase, _, _ := unstructured.NestedString(machine.Object, "status", "phase")
		node, _, _ := unstructured.NestedString(machine.Object, "status", "nodeRef", "name")
		if phase != "Running" || node == "" || !isTrue(&machine, "NodeReady") {
			return nil, fmt.Sprintf("Machine %s is %s with node %q: %v", machine.GetName(), phase, node, machine.Object["status"])
		}
		if got, found := m.cloud.Get(machine.GetName()); !found || got.Node != node {
			return nil, fmt.Sprintf("Machine %s has node %s, but its host is %q", machine.GetName(), node, got.Node)
		}
		nodes, want = append(nodes, node), append(want, node)
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
		if i.Status.NodeRef == nil || !slices.Contains(want, i.Status.NodeRef.Name) {
			return nil, fmt.Sprintf("WindowsInstance %s still exists, with node %+v", i.Name, i.Status.NodeRef)
		}
	}
	if len(instances.Items) != len(want) || len(all.Items) != len(want) {
		return nil, fmt.Sprintf("got %d instances and %d nodes, want %d", len(instances.Items), len(all.Items), len(want))
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

// createForeignMachines creates Machines of other clusters: one of another Cluster in the same namespace, which is reported, and one of another namespace.
func (m clusterAPITest) createForeignMachines() {
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
				return fmt.Sprintf("got %d Machines (%v)", len(list.Items), err)
			}
			name = list.Items[0].GetName()
			if phase, _, _ := unstructured.NestedString(list.Items[0].Object, "status", "phase"); phase != "Provisioned" {
				return "its phase is " + phase
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

// scaleDown scales the MachineDeployment down to one while its Machines run pods with a PodDisruptionBudget of one.
func (m clusterAPITest) scaleDown() {
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
	m.ExpectServing(m.t, waitTimeout, appWeb, 2)
	traffic := m.StartTraffic(m.t.Context(), appWeb, 50*time.Millisecond)
	m.scale(1)
	left := m.expectNodes(1)
	m.ExpectServing(m.t, waitTimeout, appWeb, 2)
	answered, failures := traffic.Stop()
	if answered == 0 || len(failures) > 0 {
		m.t.Errorf("requests while %v were scaled down to %v: %d answered, failures %q", nodes, left, answered, failures)
	}
}

// replaceLost cuts the power of a host. A MachineHealthCheck makes Cluster API delete its Machine, and the MachineDeployment creates another one.
func (m clusterAPITest) replaceLost() {
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
	m.eventually("the MachineHealthCheck counts the Machine as healthy", func(ctx context.Context) string {
		if err := m.Client.Get(ctx, client.ObjectKeyFromObject(check), check); err != nil {
			return err.Error()
		}
		if n, _, _ := unstructured.NestedInt64(check.Object, "status", "currentHealthy"); n != 1 {
			return fmt.Sprintf("got status %v", check.Object["status"])
		}
		return ""
	})
	machines, err := m.machines(m.t.Context())
	if err != nil || len(machines) != 1 {
		m.t.Fatalf("got %d Machines (%v), want 1", len(machines), err)
	}
	lost, _ := m.cloud.Get(machines[0].GetName())
	lost.PowerOff()
	m.eventually("another host has replaced it", func(ctx context.Context) string {
		nodes, missing := m.nodesOfMachines(ctx)
		if missing == "" && (len(nodes) != 1 || nodes[0] == before[0]) {
			missing = fmt.Sprintf("got nodes %v", nodes)
		}
		return missing
	})
}
