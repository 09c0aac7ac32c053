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
// permissions. No pod runs in a virtual machine.
func TestHyperV(t *testing.T) {
	p := newPlace(t, testenv.Options{})
	joins := func(name string, got wicdapi.Virtualization) *sim.Host {
		host, at := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: name, Virtualization: got}})
		p.expectReady(p.announce(at, nil))
		return host
	}
	can := wicdapi.Virtualization{Processor: true}
	able, unable := joins("able", can), joins("unable", wicdapi.Virtualization{Hypervisor: "KVMKVMKVM"})
	before := []string{able.Windows().BootID(), unable.Windows().BootID()}

	t.Run("nodes that exist wait for a restart", func(t *testing.T) {
		p := p.in(t)
		p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.RuntimeClasses.HyperV = &v1alpha1.HyperVSpec{} })
		p.expectHyperV("able", corev1.ConditionFalse, api.ReasonHyperVRestartPending)
		p.expectHyperV("unable", corev1.ConditionFalse, api.ReasonVirtualizationUnavailable)
		p.eventually("the restart is told", func(context.Context) string {
			if c := nodestate.Condition(p.node("able"), api.ConditionNodeRebootRequired); c == nil || c.Status != corev1.ConditionTrue {
				return fmt.Sprintf("the condition is %+v", c)
			}
			return ""
		})
		time.Sleep(5 * time.Second) // nothing must happen
		if got := []string{able.Windows().BootID(), unable.Windows().BootID()}; !slices.Equal(got, before) {
			t.Errorf("boot IDs are %v, before they were %v", got, before)
		}
		p.expectClass(false)
	})
	t.Run("the operator restarts them when it may", func(t *testing.T) {
		p := p.in(t)
		p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Rollout.Reboots = v1alpha1.RebootsAllowed })
		p.expectHyperV("able", corev1.ConditionTrue, api.ReasonHyperVRuns)
		p.expectClass(true)
		p.expectInService()
		if unable.Windows().BootID() != before[1] || p.node("unable").Labels[api.LabelHyperV] != "" {
			t.Error("the host that cannot have Hyper-V restarted, or has its label")
		}
	})
	t.Run("a new host restarts while it joins", func(t *testing.T) {
		p := p.in(t)
		host := joins("new", can)
		p.expectHyperV("new", corev1.ConditionTrue, api.ReasonHyperVRuns)
		if id := host.Windows().BootID(); id != "2" {
			t.Errorf("its boot ID is %s, want 2", id)
		}
	})
	t.Run("it ends when no pod uses it", func(t *testing.T) { p.in(t).endHyperV() })
}

// expectHyperV waits until a node has the condition, and has the label if it supports Hyper-V.
func (p place) expectHyperV(name string, status corev1.ConditionStatus, reason string) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("node %s has %s", name, reason), func(context.Context) string {
		node := p.node(name)
		c := nodestate.Condition(node, api.ConditionHyperVCapable)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Sprintf("the condition is %+v", c)
		}
		if labeled := node.Labels[api.LabelHyperV] == "true"; labeled != (status == corev1.ConditionTrue) {
			return fmt.Sprintf("the labels are %v", node.Labels)
		}
		return ""
	})
}

// expectClass waits until the class exists, or does not.
func (p place) expectClass(exists bool) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("RuntimeClass %s exists: %v", hyperVClass, exists), func(ctx context.Context) string {
		var class nodev1.RuntimeClass
		err := p.Client.Get(ctx, types.NamespacedName{Name: hyperVClass}, &class)
		if client.IgnoreNotFound(err) != nil || apierrors.IsNotFound(err) == exists {
			return fmt.Sprintf("it is %+v, %v", class, err)
		}
		return ""
	})
}

// endHyperV has a pod that still uses Hyper-V isolation after it is no longer configured.
func (p place) endHyperV() {
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
			return fmt.Sprintf("it is on node %q", on)
		}
		return ""
	})
	if memory := pod.Spec.Overhead[corev1.ResourceMemory]; memory.String() != "512Mi" {
		p.t.Errorf("the pod has overhead %v", pod.Spec.Overhead)
	}
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.RuntimeClasses.HyperV = nil })
	time.Sleep(5 * time.Second) // nothing must happen
	p.expectClass(true)
	p.expectHyperV(pod.Spec.NodeName, corev1.ConditionTrue, api.ReasonHyperVRuns)
	must(p.t, p.Client.Delete(p.t.Context(), pod, client.GracePeriodSeconds(0)))
	p.expectClass(false)
	p.expectHyperV("able", corev1.ConditionUnknown, api.ReasonHyperVNotWanted)
}

// TestHyperVOnWindows follows a pod with Hyper-V isolation through the real containerd and its shim to the container service of the lab, which
// has no virtual machines. The operator creates no class for it, because the node cannot have Hyper-V.
func TestHyperVOnWindows(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newPlace(t, testenv.Options{WineHosts: 1, Network: testenv.NetworkLab})
	p.joinAll()
	p.configure(func(s *v1alpha1.WindowsConfigSpec) {
		s.RuntimeClasses.HyperV = &v1alpha1.HyperVSpec{Memory: "1536Mi", Processors: 1}
	})
	p.expectHyperV("win-1", corev1.ConditionFalse, api.ReasonVirtualizationUnavailable)
	p.eventually("the node has the settings", func(context.Context) string {
		if got, want := p.node("win-1").Annotations[api.AnnotationSettings], p.config().Status.Settings; got != want {
			return fmt.Sprintf("it has %s, want %s", got, want)
		}
		return ""
	})
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "of-the-test"}, Handler: api.HandlerHyperVIsolation}
	p.create(class)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "tenant"}, Spec: testenv.WebserverPod()}
	pod.Spec.RuntimeClassName = &class.Name
	p.create(pod)
	p.expectPodEvent(pod, "FailedCreatePodSandBox", "hcs::CreateComputeSystem") // Windows made no virtual machine
	must(t, p.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	if !p.noted(pod, "HcsCreateComputeSystem", `"VirtualMachine":`, `"SizeInMB":1536`, `"Processor":{"Count":1`) {
		t.Error("Windows was not asked for a virtual machine with the memory and processors of WindowsConfig")
	}
	p.remove(pod)
	p.webserver("web", 1, nil)
	p.ExpectServing(t, patience, "web", 1)
}
