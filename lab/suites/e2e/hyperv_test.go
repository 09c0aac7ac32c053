//go:build linux

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// hyperVClass is the RuntimeClass for pods with Hyper-V isolation on the simulated hosts.
const hyperVClass = "windows2022-hyperv"

// TestHyperV enables Hyper-V isolation on simulated hosts, one of which does not support it, with a real API server and the operator's own
// permissions. It runs no pod in a virtual machine.
func TestHyperV(t *testing.T) {
	p := newHarness(t, testenv.Options{})
	join := func(name string, v wicdapi.Virtualization) *sim.Host {
		host, at := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: name, Virtualization: v}})
		p.expectReady(p.announce(at, nil))
		return host
	}
	supported := wicdapi.Virtualization{Processor: true}
	able, unable := join("able", supported), join("unable", wicdapi.Virtualization{Hypervisor: "KVMKVMKVM"})
	before := []string{able.Windows().BootID(), unable.Windows().BootID()}

	t.Run("existing nodes wait for a reboot", func(t *testing.T) {
		p := p.withT(t)
		p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.RuntimeClasses.HyperV = &v1alpha1.HyperVSpec{} })
		p.expectHyperV("able", corev1.ConditionFalse, api.ReasonHyperVRestartPending)
		p.expectHyperV("unable", corev1.ConditionFalse, api.ReasonVirtualizationUnavailable)
		p.eventually("the node reports the pending reboot", func(context.Context) string {
			if c := nodestate.Condition(p.node("able"), api.ConditionNodeRebootRequired); c == nil || c.Status != corev1.ConditionTrue {
				return fmt.Sprintf("got condition %+v", c)
			}
			return ""
		})
		time.Sleep(5 * time.Second) // time for an unwanted reboot
		if got := []string{able.Windows().BootID(), unable.Windows().BootID()}; !slices.Equal(got, before) {
			t.Errorf("boot IDs: got %v, want %v", got, before)
		}
		p.expectClass(false)
	})
	t.Run("the operator reboots nodes if reboots are allowed", func(t *testing.T) {
		p := p.withT(t)
		p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Rollout.Reboots = v1alpha1.RebootsAllowed })
		p.expectHyperV("able", corev1.ConditionTrue, api.ReasonHyperVRuns)
		p.expectClass(true)
		p.expectInService()
		if unable.Windows().BootID() != before[1] || p.node("unable").Labels[api.LabelHyperV] != "" {
			t.Error("the host without virtualization was rebooted or labeled")
		}
	})
	t.Run("a new host reboots during its join", func(t *testing.T) {
		p := p.withT(t)
		host := join("new", supported)
		p.expectHyperV("new", corev1.ConditionTrue, api.ReasonHyperVRuns)
		if id := host.Windows().BootID(); id != "2" {
			t.Errorf("boot ID: got %s, want 2", id)
		}
	})
	t.Run("the class is removed when no pod uses it", func(t *testing.T) { p.withT(t).endHyperV() })
}

// expectHyperV waits until a node has the condition, and the label only if it supports Hyper-V.
func (p harness) expectHyperV(name string, status corev1.ConditionStatus, reason string) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("node %s has %s", name, reason), func(context.Context) string {
		node := p.node(name)
		c := nodestate.Condition(node, api.ConditionHyperVCapable)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Sprintf("got condition %+v", c)
		}
		if labeled := node.Labels[api.LabelHyperV] == "true"; labeled != (status == corev1.ConditionTrue) {
			return fmt.Sprintf("got labels %v", node.Labels)
		}
		return ""
	})
}

// expectClass waits until the class exists, or until it does not.
func (p harness) expectClass(exists bool) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("RuntimeClass %s exists: %v", hyperVClass, exists), func(ctx context.Context) string {
		var class nodev1.RuntimeClass
		err := p.Client.Get(ctx, types.NamespacedName{Name: hyperVClass}, &class)
		if client.IgnoreNotFound(err) != nil || apierrors.IsNotFound(err) == exists {
			return fmt.Sprintf("got %+v (%v)", class, err)
		}
		return ""
	})
}

// endHyperV disables Hyper-V isolation while a pod uses it, and then deletes the pod.
func (p harness) endHyperV() {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "tenant"}, Spec: corev1.PodSpec{
		OS: &corev1.PodOS{Name: corev1.Windows}, RuntimeClassName: new(hyperVClass), TerminationGracePeriodSeconds: new(int64),
		Containers: []corev1.Container{{Name: "web", Image: "web"}},
	}}
	p.create(pod)
	p.eventually("the pod is scheduled to a node with Hyper-V", func(ctx context.Context) string {
		if err := p.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err.Error()
		}
		if on := pod.Spec.NodeName; on != "able" && on != "new" {
			return fmt.Sprintf("it is scheduled to node %q", on)
		}
		return ""
	})
	if memory := pod.Spec.Overhead[corev1.ResourceMemory]; memory.String() != "512Mi" {
		p.t.Errorf("overhead of the pod: got %v, want 512Mi of memory", pod.Spec.Overhead)
	}
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.RuntimeClasses.HyperV = nil })
	time.Sleep(5 * time.Second) // time for an unwanted removal
	p.expectClass(true)
	p.expectHyperV(pod.Spec.NodeName, corev1.ConditionTrue, api.ReasonHyperVRuns)
	must(p.t, p.Client.Delete(p.t.Context(), pod, client.GracePeriodSeconds(0)))
	p.expectClass(false)
	p.expectHyperV("able", corev1.ConditionUnknown, api.ReasonHyperVNotWanted)
}

// TestHyperVOnWindows checks that the real containerd and its shim request a virtual machine for a pod with Hyper-V isolation. The lab's container
// service has none. The test creates the class, because the operator creates none for a node without virtualization.
func TestHyperVOnWindows(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newHarness(t, testenv.Options{WineHosts: 1, Network: testenv.NetworkLab})
	p.joinAll()
	p.configure(func(s *v1alpha1.WindowsConfigSpec) {
		s.RuntimeClasses.HyperV = &v1alpha1.HyperVSpec{Memory: "1536Mi", Processors: 1}
	})
	p.expectHyperV("win-1", corev1.ConditionFalse, api.ReasonVirtualizationUnavailable)
	p.eventually("the node has the settings", func(context.Context) string {
		if got, want := p.node("win-1").Annotations[api.AnnotationSettings], p.config().Status.Settings; got != want {
			return fmt.Sprintf("got %s, want %s", got, want)
		}
		return ""
	})
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "test-class"}, Handler: api.HandlerHyperVIsolation}
	p.create(class)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "tenant"}, Spec: testenv.WebserverPod()}
	pod.Spec.RuntimeClassName = &class.Name
	p.create(pod)
	p.expectPodEvent(pod, "FailedCreatePodSandBox", "hcs::CreateComputeSystem") // the lab has no virtual machines
	must(t, p.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	if !p.calledHostCompute(pod, "HcsCreateComputeSystem", `"VirtualMachine":`, `"SizeInMB":1536`, `"Processor":{"Count":1`) {
		t.Error("no virtual machine with the memory and processors of WindowsConfig was requested")
	}
	p.remove(pod)
	p.webserver("web", 1, nil)
	p.ExpectServing(t, waitTimeout, "web", 1)
}
