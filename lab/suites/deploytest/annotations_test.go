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

// testAnnotationsOfPods has the operator say of a pod why it does not start, and try whatever else its permission to patch pods would allow.
func (c *cluster) testAnnotationsOfPods(t *testing.T) {
	const onlyOurs = "allowed is annotation " + api.AnnotationDoesNotStart
	pod := windowsPod("told", "r.test/web:1")
	pod.Annotations, pod.Labels = map[string]string{"theirs": "stays"}, map[string]string{"app": "web"}
	got, err := c.admin.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
	pods := c.asOperator(t).CoreV1().Pods(pod.Namespace)
	patch := func(change map[string]any, subresources ...string) func(context.Context) error {
		text, err := json.Marshal(change)
		must(t, err)
		return func(ctx context.Context) error {
			return drop(pods.Patch(ctx, pod.Name, types.MergePatchType, text, metav1.PatchOptions{}, subresources...))
		}
	}
	annotate := func(uid types.UID, name string, value any) func(context.Context) error {
		return patch(map[string]any{"metadata": map[string]any{"uid": uid, "annotations": map[string]any{name: value}}})
	}
	try(t, []attempt{
		{"the operator watches pods that have not started", "", func(ctx context.Context) error {
			return watched(c.asOperator(t).CoreV1().Pods("").Watch(ctx, metav1.ListOptions{FieldSelector: "status.phase=Pending"}))
		}},
		{"the operator says why it does not start", "", annotate(got.UID, api.AnnotationDoesNotStart, "TaintNotTolerated: x")},
		{"the operator says it of another pod with the name", "field is immutable", annotate("another", api.AnnotationDoesNotStart, "x")},
		{"the operator changes it", "", annotate(got.UID, api.AnnotationDoesNotStart, "NoNodeFits: x")},
		{"the operator takes it back", "", annotate(got.UID, api.AnnotationDoesNotStart, nil)},
		{"the operator writes another annotation", onlyOurs, annotate(got.UID, "other", "x")},
		{"the operator changes another annotation", onlyOurs, annotate(got.UID, "theirs", "x")},
		{"the operator removes another annotation", onlyOurs, annotate(got.UID, "theirs", nil)},
		{"the operator labels a pod", onlyOurs, patch(metadata("labels", map[string]any{"app": "other"}))},
		{"the operator holds a pod", onlyOurs, patch(metadata("finalizers", []string{"example.com/stay"}))},
		{"the operator gives a pod an owner", onlyOurs, patch(metadata("ownerReferences", []map[string]any{{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "y"}}))},
		{"the operator changes an image", onlyOurs, func(ctx context.Context) error {
			return drop(pods.Patch(ctx, pod.Name, types.JSONPatchType, []byte(`[{"op": "replace", "path": "/spec/containers/0/image", "value": "r.test/evil:1"}]`), metav1.PatchOptions{}))
		}},
		{"the operator writes a pod's status", forbidden, patch(map[string]any{"status": map[string]any{"phase": "Failed"}}, "status")},
		{"the operator creates a pod", forbidden, func(ctx context.Context) error {
			return drop(pods.Create(ctx, windowsPod("made", "a"), metav1.CreateOptions{}))
		}},
	})
	must(t, c.admin.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
}
