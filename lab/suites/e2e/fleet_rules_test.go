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

// TestFleetRules checks, with a real API server, the operator's own permissions and the hosts' own daemons, that nodes of a former version stay
// unchanged until their turn, whatever happens to them meanwhile.
func TestFleetRules(t *testing.T) {
	const hosts = 4
	p := newHarness(t, testenv.Options{SimulatedHosts: hosts})
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

	passed := t.Run("no node is drained when all nodes stop reporting", func(t *testing.T) {
		p := p.withT(t)
		p.markUnknown(15*time.Second, "win-1", "win-2", "win-3", "win-4")
		p.expectUnchanged(15*time.Second, first, "win-1", "win-2", "win-3", "win-4")
	})
	passed = passed && t.Run("no node is drained when one stops reporting", func(t *testing.T) {
		p := p.withT(t)
		p.markUnknown(15*time.Second, "win-2")
		p.expectUnchanged(15*time.Second, first, "win-1", "win-2", "win-3", "win-4")
	})
	p.endPods()
	p.configure(func(s *v1alpha1.WindowsConfigSpec) {
		s.Rollout.MaintenanceWindows = nil
		s.Rollout.Canary = &v1alpha1.CanarySpec{Count: 1, Soak: "2h"}
	})
	p.eventually("win-1 has the new version and is in service", func(context.Context) string {
		if got := p.reported("win-1"); got == first || p.node("win-1").Spec.Unschedulable {
			return "it reports " + got
		}
		return ""
	})
	p.expectWaiting(api.ReasonCanary, "win-2", "win-3", "win-4")
	passed = passed && t.Run("a Node without its annotation keeps its version", func(t *testing.T) {
		p := p.withT(t)
		node := p.node("win-2")
		before := node.DeepCopy()
		delete(node.Annotations, api.AnnotationDesiredVersion)
		must(t, p.Client.Patch(t.Context(), node, client.MergeFrom(before)))
		p.expectUnchanged(30*time.Second, first, "win-2")
		if got := p.node("win-2").Annotations[api.AnnotationDesiredVersion]; got != first {
			t.Errorf("restored annotation %s: got %q, want %q", api.AnnotationDesiredVersion, got, first)
		}
	})
	passed = passed && t.Run("a Node that registers again keeps its version", func(t *testing.T) {
		p := p.withT(t)
		must(t, p.Client.Delete(t.Context(), p.node("win-3")))
		p.Simulated()[2].Windows().Restart()
		eventuallyOf(p, "win-3 is registered again and Ready", client.ObjectKey{Name: "win-3"}, func(node *corev1.Node) string {
			if node.Annotations[api.AnnotationVersion] == "" {
				return "it reports no version"
			}
			return notReady(node)
		})
		p.expectUnchanged(30*time.Second, first, "win-3")
	})
	passed = passed && t.Run("recreated pods do not block a drain", func(t *testing.T) {
		p := p.withT(t)
		count := p.runAgent()
		p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Rollout.Canary = nil })
		p.expectVersion(func(got string) bool { return got != first })
		p.expectInService()
		if n := count(); n > hosts {
			t.Errorf("%d pods were created, want at most the first one and one for each of three drains", n)
		}
	})
	if !passed {
		t.Log("the steps after the failed one were skipped")
	}
	for _, problem := range watch.problems() {
		t.Error(problem)
	}
}

// otherExporter upgrades to a payload with another exporter, which needs no drain, and returns the new version.
func (p harness) otherExporter(watch *budgetWatch) (version string) {
	p.t.Helper()
	before := p.reported("win-1")
	dir, err := p.AnotherPayload("exporter", "windows_exporter.exe")
	must(p.t, err)
	p.restartWith(dir)
	p.expectVersion(func(got string) bool { return got != before })
	if n := watch.cordons(); n != 0 {
		p.t.Errorf("%d nodes were cordoned for another exporter, want none", n)
	}
	return p.reported("win-1")
}

// runAgent starts a Deployment whose pod tolerates every taint, with Kubernetes' own controller and scheduler, and updates its pods as kubelets do.
// count returns the number of pods so far.
func (p harness) runAgent() (count func() int) {
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
			return fmt.Sprintf("got %d Ready replicas (%v), want 1", agent.Status.ReadyReplicas, err)
		}
		return ""
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(seen)
	}
}

// bindPods creates pods on a node. No kubelet starts or stops them.
func (p harness) bindPods(node string, n int) {
	p.t.Helper()
	for i := range n {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("app-%s-%d", node, i)}}
		pod.Spec = corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "app", Image: "example.com/app"}}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}
		p.create(pod)
	}
}

// endPods deletes all pods at once.
func (p harness) endPods() {
	p.t.Helper()
	must(p.t, p.Client.DeleteAllOf(p.t.Context(), &corev1.Pod{}, client.InNamespace(metav1.NamespaceDefault), client.GracePeriodSeconds(0)))
}

// expectWaiting waits until the plans of hosts wait for a reason.
func (p harness) expectWaiting(reason string, names ...string) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("the plans of %v wait for %s", names, reason), func(context.Context) string {
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

// markUnknown sets condition Ready of nodes to Unknown for a while, as the node lifecycle controller does when kubelets stop reporting.
func (p harness) markUnknown(lasts time.Duration, names ...string) {
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
	p.expectUnchanged(lasts, "", names...)
	set(corev1.ConditionTrue)
}

// expectUnchanged checks for a while that nodes are not cordoned, keep their pods and, if one is given, their version, and that no action begins on
// their hosts.
func (p harness) expectUnchanged(lasts time.Duration, version string, names ...string) {
	p.t.Helper()
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		var found []string
		for _, name := range names {
			node := p.node(name)
			if got := node.Annotations[api.AnnotationVersion]; version != "" && got != version {
				found = append(found, fmt.Sprintf("%s reports version %s", name, got))
			}
			if node.Spec.Unschedulable {
				found = append(found, name+" is cordoned")
			}
		}
		for _, i := range p.instances() {
			if m := i.Status.Maintenance; m != nil {
				found = append(found, fmt.Sprintf("%s: action %s began", i.Name, m.Action))
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
