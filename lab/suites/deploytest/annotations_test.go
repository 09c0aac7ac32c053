//go:build linux

package deploytest

import (
	"context"
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
)

// testPodAnnotations has the operator annotate a pod with the reason why it does not start, and try other changes that RBAC
// alone would permit.
func (c *cluster) testPodAnnotations(t *testing.T) {
	const rejected = "allowed: annotation " + api.AnnotationDoesNotStart
	pod := windowsPod("annotated", "r.test/web:1")
	pod.Annotations, pod.Labels = map[string]string{"example.com/other": "x"}, map[string]string{"app": "web"}
	got, err := c.admin.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
	pods := c.asOperator(t).CoreV1().Pods(pod.Namespace)
	patch := func(change map[string]any, subresources ...string) func(context.Context) error {
		text, err := json.Marshal(change)
		must(t, err)
		return func(ctx context.Context) error {
			return errOf(pods.Patch(ctx, pod.Name, types.MergePatchType, text, metav1.PatchOptions{}, subresources...))
		}
	}
	annotate := func(uid types.UID, name string, value any) func(context.Context) error {
		return patch(map[string]any{"metadata": map[string]any{"uid": uid, "annotations": map[string]any{name: value}}})
	}
	try(t, []attempt{
		{"watch pods that have not started", "", func(ctx context.Context) error {
			return watchErr(c.asOperator(t).CoreV1().Pods("").Watch(ctx, metav1.ListOptions{FieldSelector: "status.phase=Pending"}))
		}},
		{"add the reason", "", annotate(got.UID, api.AnnotationDoesNotStart, "TaintNotTolerated: x")},
		{"add the reason to another pod with the name", "field is immutable", annotate("another", api.AnnotationDoesNotStart, "x")},
		{"change the reason", "", annotate(got.UID, api.AnnotationDoesNotStart, "NoNodeFits: x")},
		{"remove the reason", "", annotate(got.UID, api.AnnotationDoesNotStart, nil)},
		{"add another annotation", rejected, annotate(got.UID, "other", "x")},
		{"change another annotation", rejected, annotate(got.UID, "example.com/other", "y")},
		{"remove another annotation", rejected, annotate(got.UID, "example.com/other", nil)},
		{"change a label", rejected, patch(metadata("labels", map[string]any{"app": "other"}))},
		{"add a finalizer", rejected, patch(metadata("finalizers", []string{"example.com/stay"}))},
		{"add an owner", rejected, patch(metadata("ownerReferences", []map[string]any{{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "y"}}))},
		{"change an image", rejected, func(ctx context.Context) error {
			return errOf(pods.Patch(ctx, pod.Name, types.JSONPatchType, []byte(`[{"op": "replace", "path": "/spec/containers/0/image", "value": "r.test/evil:1"}]`), metav1.PatchOptions{}))
		}},
		{"change the status", forbidden, patch(map[string]any{"status": map[string]any{"phase": "Failed"}}, "status")},
		{"create a pod", forbidden, func(ctx context.Context) error {
			return errOf(pods.Create(ctx, windowsPod("new", "a"), metav1.CreateOptions{}))
		}},
	})
	must(t, c.admin.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
}
