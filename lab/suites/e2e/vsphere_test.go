//go:build linux

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/openshift"
	"github.com/windows-machine-config/wmco/lab/cluster/vsphere"
	"github.com/windows-machine-config/wmco/lab/cluster/vsphere/vcenter"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// Names of MachineSets are short, because the names of the Machines are also host names.
const (
	machineSetName = "win"
	nextMachineSet = "next"
)

// vSphereTest is a harness in a vCenter.
type vSphereTest struct {
	harness
	vcenter *vcenter.Server
}

// TestVSphere turns virtual machines of a simulated vCenter into nodes, with OpenShift's own controllers for vSphere and vSphere's own
// cloud-controller-manager: machines of a MachineSet that kubectl windows prints, which a MachineHealthCheck and kubectl windows replace, and one that an
// administrator creates.
func TestVSphere(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newHarness(t, testenv.Options{WineHosts: 1, Network: testenv.NetworkLab, OpenShift: platform.VSphere})
	v := p.startVSphere()
	p.expectCloudProvider(v1alpha1.CloudProviderExternal)

	own := p.Hosts()[0]
	p.joinAll()
	v.expectInitialized(own.Name)

	_ = t.Run("a Machine becomes a node", func(t *testing.T) {
		v := v.withT(t)
		v.createMachineSet(machineSetName)
		v.expectMachines(1)
	}) && t.Run("a failed virtual machine is replaced", func(t *testing.T) { v.withT(t).replaceLost() }) && t.Run("scaling up adds a node", func(t *testing.T) {
		v := v.withT(t)
		v.scale(machineSetName, 2)
		v.expectMachines(2)
	}) && t.Run("Machines of another MachineSet take their place", func(t *testing.T) { v.withT(t).replaceMachines() }) && t.Run("scaling to zero removes all nodes", func(t *testing.T) {
		v := v.withT(t)
		v.scale(nextMachineSet, 0)
		v.expectMachines(0)
		v.expectAllReady()
	}) && t.Run("the cluster autoscaler scales the MachineSet from zero", func(t *testing.T) { v.withT(t).scaleByLoad() })
	t.Run("a virtual machine with a name in upper case becomes a node", func(t *testing.T) { v.withT(t).ownMachine() })
}

func (v vSphereTest) withT(t *testing.T) vSphereTest {
	return vSphereTest{v.harness.withT(t), v.vcenter}
}

// startVSphere creates a vCenter that has the existing host as a virtual machine, and starts the controllers.
func (p harness) startVSphere() vSphereTest {
	p.t.Helper()
	ctx := p.t.Context()
	root, err := testenv.Repository(ctx)
	must(p.t, err)
	cloud, err := vcenter.Start(ctx, openshift.InfrastructureName)
	must(p.t, err)
	p.t.Cleanup(cloud.Close)
	must(p.t, vsphere.Install(ctx, p.Client, cloud.Address()))
	for _, h := range p.Hosts() {
		must(p.t, cloud.Clone(ctx, h.Name))
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		vcenter.NewGuests(cloud, p.Lab, func(err error) { p.t.Log(err) }).Run(working)
	}()
	p.t.Cleanup(func() { stop(); <-done })
	programs := vsphere.Programs{Root: root, Dir: p.t.TempDir(), Progress: p.t.Output()}
	started, err := programs.Start(ctx, p.Lab.ControlPlane, p.Kubeconfig, cloud.Address())
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Log("the ends of the logs of the controllers:\n" + started.Log())
		}
		started.Stop()
	})
	must(p.t, err)
	return vSphereTest{p, cloud}
}

// expectInitialized waits until the cloud-controller-manager has initialized the node of a virtual machine.
func (v vSphereTest) expectInitialized(node string) {
	v.t.Helper()
	eventuallyOf(v.harness, "node "+node+" is initialized", types.NamespacedName{Name: node}, func(n *corev1.Node) string {
		return v.uninitialized(n)
	})
}

// uninitialized describes the first value of the cloud that a node lacks, or "" if it has all.
func (v vSphereTest) uninitialized(n *corev1.Node) (missing string) {
	waits := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == api.TaintUninitialized })
	got := fmt.Sprintf("got taints %v, provider ID %s, labels %v, addresses %v", n.Spec.Taints, n.Spec.ProviderID, n.Labels, n.Status.Addresses)
	switch {
	case waits, !strings.HasPrefix(n.Spec.ProviderID, "vsphere://"):
		return "not initialized: " + got
	case n.Labels[corev1.LabelTopologyZone] != vsphere.Zone, n.Labels[corev1.LabelTopologyRegion] != vsphere.Region:
		return "wrong zone or region: " + got
	case !strings.HasPrefix(n.Labels[corev1.LabelInstanceTypeStable], "vsphere-vm.cpu-"):
		return "no instance type: " + got
	}
	return ""
}

// createMachineSet creates the MachineSet that kubectl windows machineset prints.
func (v vSphereTest) createMachineSet(name string, flags ...string) {
	v.t.Helper()
	created := &unstructured.Unstructured{}
	out := v.plugin(append([]string{"machineset", "--image", vsphere.Template, "--name", name}, flags...)...)
	must(v.t, yaml.UnmarshalStrict([]byte(out), &created.Object))
	v.create(created)
}

// plugin runs kubectl windows and returns its standard output.
func (v vSphereTest) plugin(args ...string) string {
	v.t.Helper()
	plugin, err := v.Plugin(v.t.Context())
	must(v.t, err)
	result, err := plugin.Run(v.t.Context(), args...)
	if err != nil || result.Code != 0 {
		v.t.Fatalf("kubectl windows %v: exit code %d, %v:\n%s", args, result.Code, err, result.All())
	}
	return result.Out
}

// replaceMachines replaces the two Machines of the MachineSet by those of another one, in two runs. A pod moves with them.
func (v vSphereTest) replaceMachines() {
	d := v.webserver(appWeb, 1, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: byHostname(corev1.NodeSelectorOpNotIn, v.Hosts()[0].Name)}
	})
	v.expectRunning(appWeb)
	v.createMachineSet(nextMachineSet, "--replicas", "0")
	for range 2 {
		v.t.Log(v.plugin("replace", machineSetName, "--with", nextMachineSet, "--machines", "1", "--soak", "20s", "--timeout", "4m", "--yes"))
		v.expectMachines(2)
	}
	var nodes corev1.NodeList
	must(v.t, v.Client.List(v.t.Context(), &nodes, client.MatchingLabels{corev1.LabelOSStable: "windows"}))
	for _, n := range nodes.Items {
		if strings.HasPrefix(n.Name, machineSetName+"-") && n.Name != v.Hosts()[0].Name {
			v.t.Errorf("node %s is one of the replaced MachineSet", n.Name)
		}
	}
	v.expectRunning(appWeb)
	v.remove(d)
}

// expectRunning waits until the only pod of a Deployment is Running.
func (v vSphereTest) expectRunning(app string) {
	v.t.Helper()
	v.eventually("the pod is Running", func(ctx context.Context) string {
		pods, err := v.Pods(ctx, app)
		if err != nil || len(pods) != 1 || pods[0].Status.Phase != corev1.PodRunning {
			return fmt.Sprintf("got pods %+v (%v)", pods, err)
		}
		return ""
	})
}

// machineSet returns a MachineSet without its spec.
func (v vSphereTest) machineSet(name string) *unstructured.Unstructured {
	set := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": vsphere.Namespace, "name": name}}}
	set.SetAPIVersion(openshift.MachineAPI)
	set.SetKind("MachineSet")
	return set
}

func (v vSphereTest) scale(name string, replicas int64) {
	v.t.Helper()
	set := v.machineSet(name)
	now := set.DeepCopy()
	now.Object["spec"] = map[string]any{"replicas": replicas}
	must(v.t, v.Client.Patch(v.t.Context(), now, client.MergeFrom(set)))
}

// expectMachines waits until exactly want Machines exist, each Running with its own virtual machine, instance and Ready node, and removed ones have no
// leftovers.
func (v vSphereTest) expectMachines(want int) {
	v.t.Helper()
	v.eventually(fmt.Sprintf("there are %d Machines with Ready nodes", want), func(ctx context.Context) string {
		var machines unstructured.UnstructuredList
		machines.SetAPIVersion(openshift.MachineAPI)
		machines.SetKind("MachineList")
		if err := v.Client.List(ctx, &machines, client.InNamespace(vsphere.Namespace)); err != nil {
			return err.Error()
		}
		names := []string{v.Hosts()[0].Name}
		for i := range machines.Items {
			m := &machines.Items[i]
			if missing := v.notRunning(ctx, m); missing != "" {
				return fmt.Sprintf("Machine %s: %s; its status is %v", m.GetName(), missing, m.Object["status"])
			}
			names = append(names, m.GetName())
		}
		if len(machines.Items) != want {
			return fmt.Sprintf("got %d", len(machines.Items))
		}
		return v.differs(ctx, names)
	})
}

// replaceLost turns the virtual machine of the only Machine off. A MachineHealthCheck deletes the Machine, and the MachineSet creates another one.
func (v vSphereTest) replaceLost() {
	check := vsphere.MachineHealthCheck(machineSetName)
	v.create(check)
	v.eventually("the MachineHealthCheck counts the Machine as healthy", func(ctx context.Context) string {
		if err := v.Client.Get(ctx, client.ObjectKeyFromObject(check), check); err != nil {
			return err.Error()
		}
		if healthy, _, _ := unstructured.NestedInt64(check.Object, "status", "currentHealthy"); healthy != 1 {
			return fmt.Sprintf("got status %v", check.Object["status"])
		}
		return ""
	})
	names, err := v.vcenter.Names(v.t.Context())
	must(v.t, err)
	lost := slices.IndexFunc(names, func(name string) bool { return name != v.Hosts()[0].Name })
	must(v.t, v.vcenter.PowerOff(v.t.Context(), names[lost]))
	v.expectGone(types.NamespacedName{Name: names[lost]}, &corev1.Node{})
	v.expectMachines(1)
	v.remove(check) // so that it replaces no other Machine
}

// notRunning describes why a Machine does not count as running, or "" if it does.
func (v vSphereTest) notRunning(ctx context.Context, m *unstructured.Unstructured) (missing string) {
	phase, _, _ := unstructured.NestedString(m.Object, "status", "phase")
	node, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name")
	id, _, _ := unstructured.NestedString(m.Object, "spec", "providerID")
	var n corev1.Node
	switch {
	case phase != "Running":
		return "its phase is " + phase
	case node != m.GetName():
		return "its node is " + node
	}
	if err := v.Client.Get(ctx, types.NamespacedName{Name: node}, &n); err != nil {
		return err.Error()
	}
	if n.Spec.ProviderID != id {
		return fmt.Sprintf("its node has provider ID %s, want %s", n.Spec.ProviderID, id)
	}
	if missing := v.uninitialized(&n); missing != "" {
		return missing
	}
	var i v1alpha1.WindowsInstance
	if err := v.Client.Get(ctx, operatorObject(m.GetName()), &i); err != nil {
		return err.Error()
	}
	return ""
}

// differs describes how virtual machines, nodes of instances and Windows nodes differ from the names, or "" if they are equal.
func (v vSphereTest) differs(ctx context.Context, names []string) string {
	slices.Sort(names)
	virtual, err := v.vcenter.Names(ctx)
	if err != nil {
		return err.Error()
	}
	var instances v1alpha1.WindowsInstanceList
	var nodes corev1.NodeList
	if err := v.Client.List(ctx, &instances); err != nil {
		return err.Error()
	}
	if err := v.Client.List(ctx, &nodes, client.MatchingLabels{corev1.LabelOSStable: "windows"}); err != nil {
		return err.Error()
	}
	var inCluster, asNodes []string
	for _, i := range instances.Items {
		if i.Status.NodeRef == nil {
			return fmt.Sprintf("instance %s has no node", i.Name)
		}
		inCluster = append(inCluster, i.Status.NodeRef.Name)
	}
	for _, n := range nodes.Items {
		asNodes = append(asNodes, n.Name)
	}
	for what, found := range map[string][]string{"virtual machines": virtual, "nodes of instances": inCluster, "nodes": asNodes} {
		if slices.Sort(found); !slices.Equal(found, names) {
			return fmt.Sprintf("%s: got %v, want %v", what, found, names)
		}
	}
	return ""
}

// ownMachine creates a virtual machine as an administrator does. Windows Setup gives it a name in upper case, by which vSphere's controller does not
// find it, so the administrator sets spec.hostname as docs/cloud.md describes.
func (v vSphereTest) ownMachine() {
	const name = "byo"
	must(v.t, v.vcenter.Clone(v.t.Context(), name))
	var hostName, address string
	v.eventually("VMware Tools report host name and address of the virtual machine", func(ctx context.Context) (missing string) {
		var err error
		if hostName, address, err = v.vcenter.Guest(ctx, name); err != nil {
			return err.Error()
		}
		if hostName == "" || address == "" {
			return fmt.Sprintf("got name %q and address %q", hostName, address)
		}
		return ""
	})
	node := strings.ToLower(hostName)
	if hostName == node {
		v.t.Fatalf("host name: got %s, want one in upper case", hostName)
	}
	instance := v.announce(testenv.Host{Name: node, Address: address}, func(i *v1alpha1.WindowsInstance) { i.Spec.Hostname = node })
	v.expectInitialized(node)
	v.expectReady(instance)
}
