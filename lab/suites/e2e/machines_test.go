//go:build linux

package e2e

import (
	"bytes"
	"context"
	"net"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
	"github.com/windows-machine-config/wmco/lab/cluster/openshift"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

const (
	machineAPINamespace = "openshift-machine-api"
	clusterAPINamespace = "openshift-cluster-api"
)

// TestMachines runs an operator with its own permissions on a cluster that is later turned into an OpenShift cluster.
func TestMachines(t *testing.T) {
	p := newHarness(t, testenv.Options{})
	_, plain := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "plain"}})
	before := p.announce(plain, nil)
	p.expectReady(before) // the operator runs without Machines
	p.expectCloudProvider(v1alpha1.CloudProviderNone)
	p.makeOpenShift(platform.AWS)
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Rollout.MaxConcurrentJoins = 3 }) // triggers a reconcile that reads the cluster
	p.expectCloudProvider(v1alpha1.CloudProviderExternal)
	cloud := p.startCloud()
	inMachineAPI := p.machine(openshift.MachineAPI, machineAPINamespace, "win-mapi")
	inClusterAPI := p.machine(openshift.ClusterAPI, clusterAPINamespace, "win-capi")
	for machine, source := range map[*unstructured.Unstructured]string{
		inMachineAPI: api.SourceMachine, inClusterAPI: api.SourceClusterAPI,
	} {
		p.expectNodeOfMachine(cloud, machine)
		i := p.expectInstance(machine)
		if want := machine.GetName() + awsDomain; i.Status.NodeRef == nil || i.Status.NodeRef.Name != want {
			t.Errorf("node of instance %s: got %+v, want AWS' name of the machine, %s", i.Name, i.Status.NodeRef, want)
		}
		if i.Labels[api.LabelSource] != source || i.Annotations[api.AnnotationMachine] != machine.GetNamespace()+"/"+machine.GetName() {
			t.Errorf("instance %s: got labels %v and annotations %v", i.Name, i.Labels, i.Annotations)
		}
	}
	p.expectEvent(inMachineAPI.GetName(), api.EventInstanceSetup, "created WindowsInstance win-mapi")
	p.initializeLater(cloud, before, plain)
	p.checkUserDataIsRestored()
	for _, machine := range []*unstructured.Unstructured{inMachineAPI, inClusterAPI} {
		var now unstructured.Unstructured
		now.SetGroupVersionKind(machine.GroupVersionKind())
		err := p.Client.Get(t.Context(), types.NamespacedName{Namespace: machine.GetNamespace(), Name: machine.GetName()}, &now)
		if err != nil || now.GetUID() != machine.GetUID() || now.GetDeletionTimestamp() != nil {
			t.Errorf("Machine %s was changed or deleted after an edit of the user data (%v)", machine.GetName(), err)
		}
		p.remove(machine)
		p.expectGone(operatorObject(machine.GetName()), &v1alpha1.WindowsInstance{})
	}
}

// expectInstance waits until a Machine has an instance with a Ready node.
func (p harness) expectInstance(machine *unstructured.Unstructured) *v1alpha1.WindowsInstance {
	p.t.Helper()
	name := operatorObject(machine.GetName())
	eventuallyOf(p, "Machine "+name.Name+" has an instance", name, func(*v1alpha1.WindowsInstance) string { return "" })
	p.expectReady(name)
	return p.instance(name)
}

// makeOpenShift turns the cluster into an OpenShift cluster on a platform.
func (p harness) makeOpenShift(where string) {
	p.t.Helper()
	must(p.t, p.MakeOpenShift(p.t.Context(), where))
}

// awsDomain is the suffix of AWS' names of machines.
const awsDomain = ".us-east-2.compute.internal"

// machine starts a host on AWS whose host name differs from its Machine, and creates the Machine.
func (p harness) machine(apiVersion, namespace, name string) *unstructured.Unstructured {
	p.t.Helper()
	cloud := servers.NewMetadata(servers.MetadataOptions{
		Platform: platform.AWS, Name: name + awsDomain, NoVersion1: true, Else: (&net.Dialer{}).DialContext,
	})
	p.t.Cleanup(cloud.Close)
	_, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "EC2AMAZ-" + name[len(name)-4:], Dial: cloud.Dial}})
	return p.machineAt(apiVersion, namespace, name, h.Address)
}

// machineAt creates a Machine with an address.
func (p harness) machineAt(apiVersion, namespace, name, address string) *unstructured.Unstructured {
	p.t.Helper()
	m := openshift.NewMachine(apiVersion, namespace, name, map[string]string{api.LabelMachineOS: "Windows"})
	must(p.t, unstructured.SetNestedField(m.Object, providerID(name), "spec", "providerID"))
	p.create(m)
	m.Object["status"] = map[string]any{"phase": "Provisioned", "addresses": []any{
		map[string]any{"type": "InternalDNS", "address": name + ".example"}, map[string]any{"type": "InternalIP", "address": address},
	}}
	must(p.t, p.Client.Status().Update(p.t.Context(), m))
	return m
}

// providerID returns the cloud's ID of a Machine's virtual machine.
func providerID(machine string) string { return "aws:///us-east-2a/i-" + machine }

// expectNodeOfMachine makes the cloud initialize the node of a Machine, and checks the Node's provider ID. By it, the controllers of both APIs, which
// do not run here, find the Node of a Machine.
func (p harness) expectNodeOfMachine(cloud *testenv.Cloud, machine *unstructured.Unstructured) {
	p.t.Helper()
	name, node, id := operatorObject(machine.GetName()), machine.GetName()+awsDomain, providerID(machine.GetName())
	p.expect(name, api.ConditionReady, api.ReasonWaitingForCloud, node)
	instance := p.instance(name)
	cloud.Set(node, testenv.CloudMachine(id, instance.Spec.Address, corev1.NodeAddress{Type: corev1.NodeHostName, Address: node}))
	p.expectInitialized(node, id)
	var nodes corev1.NodeList
	must(p.t, p.Client.List(p.t.Context(), &nodes))
	var found []string
	for _, n := range nodes.Items {
		if n.Spec.ProviderID == id {
			found = append(found, n.Name)
		}
	}
	if len(found) != 1 || found[0] != node {
		p.t.Errorf("nodes with the provider ID of Machine %s: got %v, want %s", machine.GetName(), found, node)
	}
}

// initializeLater checks a node that existed before its kubelet ran with an external cloud provider: it stays in service, and is initialized after an
// administrator adds the taint.
func (p harness) initializeLater(cloud *testenv.Cloud, name types.NamespacedName, h testenv.Host) {
	p.t.Helper()
	p.expectReady(name)
	node := p.node(h.Name)
	if nodestate.WaitsForCloud(node) || node.Spec.ProviderID != "" {
		p.t.Errorf("node %s: got taints %v and provider ID %q", h.Name, node.Spec.Taints, node.Spec.ProviderID)
	}
	cloud.Set(h.Name, testenv.CloudMachine(providerID(h.Name), h.Address))
	before := node.DeepCopy()
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: api.TaintUninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule})
	must(p.t, p.Client.Patch(p.t.Context(), node, client.MergeFrom(before)))
	p.expectInitialized(h.Name, providerID(h.Name))
	p.expectReady(name)
}

// checkUserDataIsRestored edits and deletes the user data, and waits until they are restored.
func (p harness) checkUserDataIsRestored() {
	p.t.Helper()
	key, err := ssh.ParsePrivateKey(p.Key)
	must(p.t, err)
	public := bytes.TrimSpace(ssh.MarshalAuthorizedKey(key.PublicKey()))
	for _, namespace := range []string{machineAPINamespace, clusterAPINamespace} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: api.UserDataSecret}}
		check := func(ctx context.Context) string {
			if err := p.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: api.UserDataSecret}, secret); err != nil {
				return err.Error()
			}
			if !bytes.Contains(secret.Data["userData"], public) || !bytes.Contains(secret.Data["userData"], []byte("EC2Launch")) {
				return "the user data lack the key, or are not for AWS"
			}
			return ""
		}
		p.eventually("user data exist in "+namespace, check)
		secret.Data = map[string][]byte{"userData": []byte("whoami")}
		must(p.t, p.Client.Update(p.t.Context(), secret))
		p.eventually("edited user data are restored in "+namespace, check)
		p.remove(secret)
		p.eventually("deleted user data are restored in "+namespace, check)
	}
}
