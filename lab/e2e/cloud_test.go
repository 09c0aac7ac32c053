//go:build linux

package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/nodestate"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestCloud has a real kubelet on Wine wait for its cloud: the controller for nodes of every cloud-controller-manager, with a fake cloud
// behind it, initializes the node. It stays initialized after a restart of the host, and the next Node of the host is initialized, too.
func TestCloud(t *testing.T) {
	needs(t, lab.CanRunWindows())
	p := newPlace(t, testenv.Options{WineHosts: 1})
	host := p.Lab.Hosts()[0]
	name := ours(host.Address())
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.CloudProvider = v1alpha1.CloudProviderExternal })
	p.expectCloudProvider(v1alpha1.CloudProviderExternal)
	if err := p.Announce(t.Context(), p.Hosts()...); err != nil {
		t.Fatal(err)
	}
	p.expectWaitsForCloud(name, "win-1")
	p.startPod("early")

	cloud := p.startCloud()
	cloud.Set("win-1", testenv.Machine("lab:///lab-a/i-1", host.Address()))
	p.expectInitialized("win-1", "lab:///lab-a/i-1")
	p.expectReady(name)
	p.expectScheduled("early")
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "early"}}
	if err := p.Client.Delete(t.Context(), gone, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}

	t.Run("ARebootedHostIsStillInitialized", func(t *testing.T) {
		p := p.in(t)
		p.checkReboot(host, name)
		p.expectInitialized("win-1", "lab:///lab-a/i-1")
	})
	t.Run("ANodeThatReturnsIsInitializedAgain", func(t *testing.T) {
		p := p.in(t)
		cloud.Set("win-1", testenv.Machine("lab:///lab-a/i-2", host.Address())) // another machine with this host's name and address
		p.checkRejoin(host, name)
		p.expectInitialized("win-1", "lab:///lab-a/i-2")
	})
}

// startCloud starts the cloud's controller, until the test ends.
func (p place) startCloud() *testenv.Cloud {
	p.t.Helper()
	cloud, err := testenv.StartCloud(p.Clients)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(cloud.Stop)
	return cloud
}

// expectCloudProvider waits until the operator has decided who initializes nodes.
func (p place) expectCloudProvider(want v1alpha1.CloudProvider) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("the cloud provider is %s", want), func(ctx context.Context) string {
		var config v1alpha1.WindowsConfig
		if err := p.Client.Get(ctx, types.NamespacedName{Name: api.WindowsConfigName}, &config); err != nil {
			return err.Error()
		}
		if is := config.Status.CloudProvider; is == nil || is.Mode != want {
			return fmt.Sprintf("it is %+v", is)
		}
		return ""
	})
}

// expectWaitsForCloud waits until the kubelet of a node works and the instance says that only its cloud is missing.
func (p place) expectWaitsForCloud(name types.NamespacedName, node string) {
	p.t.Helper()
	p.expect(name, api.ConditionReady, api.ReasonWaitingForCloud, api.TaintUninitialized)
	p.eventually("the kubelet of "+node+" is Ready, and WICD has reported", func(ctx context.Context) string {
		var n corev1.Node
		if err := p.Client.Get(ctx, types.NamespacedName{Name: node}, &n); err != nil {
			return err.Error()
		}
		if n.Annotations[api.AnnotationVersion] == "" {
			return "WICD has not reported"
		}
		return notReady(&n)
	})
	if n := p.node(node); !nodestate.WaitsForCloud(n) || n.Spec.ProviderID != "" {
		p.t.Errorf("node %s has provider ID %q and taints %v before its cloud has initialized it", node, n.Spec.ProviderID, n.Spec.Taints)
	}
	p.expect(name, api.ConditionReady, api.ReasonWaitingForCloud)
}

// expectInitialized waits until a node has what the machine of its cloud says, and no taint but that of Windows.
func (p place) expectInitialized(node, providerID string) {
	p.t.Helper()
	p.eventually("node "+node+" is initialized", func(ctx context.Context) string {
		var n corev1.Node
		if err := p.Client.Get(ctx, types.NamespacedName{Name: node}, &n); err != nil {
			return err.Error()
		}
		if nodestate.WaitsForCloud(&n) || n.Spec.ProviderID != providerID {
			return fmt.Sprintf("its provider ID is %q, its taints are %v", n.Spec.ProviderID, n.Spec.Taints)
		}
		for label, want := range map[string]string{
			corev1.LabelInstanceTypeStable: "lab.large", corev1.LabelTopologyZone: "lab-a", corev1.LabelTopologyRegion: "lab",
		} {
			if n.Labels[label] != want {
				return fmt.Sprintf("label %s is %q", label, n.Labels[label])
			}
		}
		if a := n.Status.Addresses; len(a) < 2 || a[0].Type != corev1.NodeInternalIP || a[len(a)-1].Address != node {
			return fmt.Sprintf("its addresses are %v", a)
		}
		return ""
	})
}

// startPod creates a pod that tolerates the taint of Windows nodes only.
func (p place) startPod(name string) {
	p.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{corev1.LabelOSStable: "windows"},
		Tolerations:  []corev1.Toleration{{Key: api.TaintKey, Operator: corev1.TolerationOpExists}},
		Containers:   []corev1.Container{{Name: name, Image: "example.invalid/none:1"}},
	}}
	p.create(pod)
	p.eventually("the scheduler finds no node for pod "+name, func(ctx context.Context) string {
		var is corev1.Pod
		if err := p.Client.Get(ctx, types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name}, &is); err != nil {
			return err.Error()
		}
		for _, c := range is.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return ""
			}
		}
		return fmt.Sprintf("it is on node %q", is.Spec.NodeName)
	})
}

// expectScheduled waits until a pod has a node.
func (p place) expectScheduled(name string) {
	p.t.Helper()
	p.eventually("pod "+name+" has a node", func(ctx context.Context) string {
		var is corev1.Pod
		if err := p.Client.Get(ctx, types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name}, &is); err != nil {
			return err.Error()
		}
		if is.Spec.NodeName == "" {
			return fmt.Sprintf("it has none: %v", is.Status.Conditions)
		}
		return ""
	})
}
