//go:build linux

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestFleetRules checks, with a real API server and the operator's own permissions, that nodes of a former version stay unchanged until their turn,
// whatever happens to them meanwhile. The hosts' own daemons run, and follow their Nodes.
func TestFleetRules(t *testing.T) {
	const hosts = 4
	p := newPlace(t, testenv.Options{SimulatedHosts: hosts})
	one := intstr.FromInt32(1)
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Rollout.MaxUnavailable = &one })
	for _, h := range p.Hosts() {
		p.announce(h, nil)
	}
	p.expectAllReady()
	watch := p.watchBudget(1)
	first := p.otherExporter(watch)
	p.configure(func(s *v1alpha1.WindowsConfigSpec) {
		s.Rollout.MaintenanceWindows = []v1alpha1.MaintenanceWindow{{Schedule: "0 0 29 2 *", Duration: "1h"}} // never
	})
	for _, h := range p.Hosts() {
		p.bindPods(h.Name, 2)
	}
	dir, err := p.AnotherPayload("second", "kubelet.exe")
	must(t, err)
	p.restartWith(dir)
	p.expectWaiting(api.ReasonMaintenanceWindow, "win-1", "win-2", "win-3", "win-4")

	passed := t.Run("a silence of all nodes drains none", func(t *testing.T) {
		p := p.in(t)
		p.silence(15*time.Second, "win-1", "win-2", "win-3", "win-4")
		p.expectLeftAlone(15*time.Second, first, "win-1", "win-2", "win-3", "win-4")
	})
	passed = passed && t.Run("nor does that of one", func(t *testing.T) {
		p := p.in(t)
		p.silence(15*time.Second, "win-2")
		p.expectLeftAlone(15*time.Second, first, "win-1", "win-2", "win-3", "win-4")
	})
	p.endPods()
	p.configure(func(s *v1alpha1.WindowsConfigSpec) {
		s.Rollout.MaintenanceWindows = nil
		s.Rollout.Canary = &v1alpha1.CanarySpec{Count: 1, Soak: "2h"}
	})
	p.eventually("win-1 has the version", func(context.Context) string {
		if got := p.reported("win-1"); got == first || p.node("win-1").Spec.Unschedulable {
			return "it has " + got
		}
		return ""
	})
	p.expectWaiting(api.ReasonCanary, "win-2", "win-3", "win-4")
	passed = passed && t.Run("a Node whose annotation is gone keeps its version", func(t *testing.T) {
		p := p.in(t)
		node := p.node("win-2")
		before := node.DeepCopy()
		delete(node.Annotations, api.AnnotationDesiredVersion)
		must(t, p.Client.Patch(t.Context(), node, client.MergeFrom(before)))
		p.expectLeftAlone(30*time.Second, first, "win-2")
		if wants := p.node("win-2").Annotations[api.AnnotationDesiredVersion]; wants != first {
			t.Errorf("it is told to have version %q, want %q", wants, first)
		}
	})
	passed = passed && t.Run("a Node that registers again keeps its version", func(t *testing.T) {
		p := p.in(t)
		must(t, p.Client.Delete(t.Context(), p.node("win-3")))
		p.Simulated()[2].Windows().Restart()
		eventuallyOf(p, "win-3 is a node again", client.ObjectKey{Name: "win-3"}, func(node *corev1.Node) string {
			if node.Annotations[api.AnnotationVersion] == "" {
				return "it reports no version"
			}
			return notReady(node)
		})
		p.expectLeftAlone(30*time.Second, first, "win-3")
	})
	passed = passed && t.Run("pods that come back hold no drain", func(t *testing.T) {
		p := p.in(t)
		made := p.runAgent()
		p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Rollout.Canary = nil })
		p.expectVersion(func(got string) bool { return got != first })
		p.expectInService()
		if n := made(); n > hosts {
			t.Errorf("%d pods were made in three drains; want one at the beginning, and one for each drain at most", n)
		}
	})
	if !passed {
		t.Log("what comes after a step that failed was not tried")
	}
	for _, problem := range watch.problems() {
		t.Error(problem)
	}
}

// otherExporter changes a program for which no node is drained, and returns the version that nodes have then.
func (p place) otherExporter(watch *budgetWatch) (version string) {
	p.t.Helper()
	before := p.reported("win-1")
	dir, err := p.AnotherPayload("exporter", "windows_exporter.exe")
	must(p.t, err)
	p.restartWith(dir)
	p.expectVersion(func(got string) bool { return got != before })
	if n := watch.cordons(); n != 0 {
		p.t.Errorf("%d nodes were cordoned for another exporter", n)
	}
	return p.reported("win-1")
}

// runAgent starts a Deployment whose pod tolerates every taint, with Kubernetes' own controller and scheduler, and runs and ends its pods as kubelets
// do. made returns the number of pods so far.
func (p place) runAgent() (made func() int) {
	p.t.Helper()
	one := int32(1)
	agent := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "agent"}}
	agent.Spec = appsv1.DeploymentSpec{Replicas: &one, Selector: labelsOf("agent"), Template: corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "agent"}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelOSStable: "windows"}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "agent", Image: "example.com/agent"}},
		},
	}}
	p.create(agent)
	var mu sync.Mutex
	seen := map[types.UID]bool{}
	p.repeat(250*time.Millisecond, func(ctx context.Context) {
		var pods corev1.PodList
		if p.Client.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": "agent"}) != nil {
			return
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			mu.Lock()
			seen[pod.UID] = true
			mu.Unlock()
			switch {
			case pod.DeletionTimestamp != nil:
				_ = p.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))
			case pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodRunning:
				before := pod.DeepCopy()
				pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
				_ = p.Client.Status().Patch(ctx, pod, client.MergeFrom(before))
			}
		}
	})
	p.eventually("the agent runs", func(ctx context.Context) string {
		if err := p.Client.Get(ctx, client.ObjectKeyFromObject(agent), agent); err != nil || agent.Status.ReadyReplicas != 1 {
			return fmt.Sprintf("%d of it are Ready, %v", agent.Status.ReadyReplicas, err)
		}
		return ""
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(seen)
	}
}

// bindPods creates pods on a node. No kubelet runs or ends them.
func (p place) bindPods(node string, n int) {
	p.t.Helper()
	for i := range n {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("app-%s-%d", node, i)}}
		pod.Spec = corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "app", Image: "example.com/app"}}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}
		p.create(pod)
	}
}

// endPods deletes all pods at once.
func (p place) endPods() {
	p.t.Helper()
	must(p.t, p.Client.DeleteAllOf(p.t.Context(), &corev1.Pod{}, client.InNamespace(metav1.NamespaceDefault), client.GracePeriodSeconds(0)))
}

// expectWaiting waits until the plans of hosts wait for a reason.
func (p place) expectWaiting(reason string, names ...string) {
	p.t.Helper()
	p.eventually("all wait for "+reason, func(context.Context) string {
		for _, i := range p.instances() {
			for _, name := range names {
				if i.Status.Hostname == name && (i.Status.Plan == nil || i.Status.Plan.WaitsFor != reason) {
					return fmt.Sprintf("%s: %+v", name, i.Status.Plan)
				}
			}
		}
		return ""
	})
}

// silence marks nodes as the node lifecycle controller does if their kubelets stop reporting, and undoes it after a while.
func (p place) silence(lasts time.Duration, names ...string) {
	p.t.Helper()
	set := func(status corev1.ConditionStatus) {
		for _, name := range names {
			node := p.node(name)
			before := node.DeepCopy()
			for i := range node.Status.Conditions {
				if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady && c.Status != status {
					c.Status, c.LastTransitionTime = status, metav1.Now()
				}
			}
			must(p.t, p.Client.Status().Patch(p.t.Context(), node, client.MergeFrom(before)))
		}
	}
	set(corev1.ConditionUnknown)
	p.expectLeftAlone(lasts, "", names...)
	set(corev1.ConditionTrue)
}

// expectLeftAlone checks for a while that nodes are not cordoned, keep their version (if one is given) and their pods, and that no action begins on
// their hosts.
func (p place) expectLeftAlone(lasts time.Duration, version string, names ...string) {
	p.t.Helper()
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		var found []string
		for _, name := range names {
			node := p.node(name)
			if got := node.Annotations[api.AnnotationVersion]; version != "" && got != version {
				found = append(found, fmt.Sprintf("%s has version %s", name, got))
			}
			if node.Spec.Unschedulable {
				found = append(found, name+" is cordoned")
			}
		}
		for _, i := range p.instances() {
			if m := i.Status.Maintenance; m != nil {
				found = append(found, fmt.Sprintf("%s: %s began", i.Name, m.Action))
			}
		}
		var pods corev1.PodList
		must(p.t, p.Client.List(p.t.Context(), &pods, client.InNamespace(metav1.NamespaceDefault)))
		for _, pod := range pods.Items {
			if pod.DeletionTimestamp != nil {
				found = append(found, "pod "+pod.Name+" was evicted")
			}
		}
		if len(found) > 0 {
			p.t.Fatal(strings.Join(found, "; "))
		}
	}
}
