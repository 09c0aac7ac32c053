//go:build linux

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestHostIsReplaced replaces a simulated host with another one, with a real API server and the operator's own permissions. A pod that matches no
// other node holds the first attempt. Most of its time is the ten minutes for which the new host must have worked.
func TestHostIsReplaced(t *testing.T) {
	p := newHarness(t, testenv.Options{SimulatedHosts: 2})
	first := p.announce(p.Hosts()[0], func(i *v1alpha1.WindowsInstance) { i.Spec.ReplaceWith = p.Hosts()[1].Name })
	p.expect(first, api.ConditionReady, api.ReasonReplaced, "remove the field")
	p.patchInstance(first, func(i *v1alpha1.WindowsInstance) { i.Spec.ReplaceWith = "" })
	p.expectReady(first)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "pinned"}, Spec: corev1.PodSpec{
		NodeName: p.Hosts()[0].Name, NodeSelector: map[string]string{corev1.LabelHostname: p.Hosts()[0].Name},
		Containers: []corev1.Container{{Name: "app", Image: "example.com/app"}}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}}
	p.create(pod)
	p.patchInstance(first, func(i *v1alpha1.WindowsInstance) { i.Spec.ReplaceWith = p.Hosts()[1].Name })
	p.expectWaiting(api.ReasonReplacementNotReady, p.Hosts()[0].Name)
	p.expectReady(p.announce(p.Hosts()[1], nil))

	testenv.Eventually(t, waitTimeout+10*time.Minute, "the replacement fails because of the pod", func(context.Context) string {
		if f := p.instance(first).Status.Failure; f == nil || !strings.Contains(f.Message, "default/pinned") {
			return fmt.Sprintf("got failure %+v", f)
		}
		return ""
	})
	var current corev1.Pod
	p.get(client.ObjectKeyFromObject(pod), &current)
	if current.DeletionTimestamp != nil || p.node(p.Hosts()[0].Name).Spec.Unschedulable {
		t.Error("a replacement that failed evicted the pod or left the node cordoned")
	}
	must(t, p.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	p.patchInstance(first, func(i *v1alpha1.WindowsInstance) {
		metav1.SetMetaDataAnnotation(&i.ObjectMeta, api.AnnotationRetry, "true")
	})
	p.expectGone(first, &v1alpha1.WindowsInstance{})
	p.expectGone(types.NamespacedName{Name: p.Hosts()[0].Name}, &corev1.Node{})
	if p.Simulated()[0].Windows().Disk().Exists(desired.Root + `\kubelet.conf`) {
		t.Error("the replaced host still has files of the operator")
	}
}

func (p harness) patchInstance(name types.NamespacedName, change func(*v1alpha1.WindowsInstance)) {
	p.t.Helper()
	i := p.instance(name)
	before := i.DeepCopy()
	change(i)
	must(p.t, p.Client.Patch(p.t.Context(), i, client.MergeFrom(before)))
}
