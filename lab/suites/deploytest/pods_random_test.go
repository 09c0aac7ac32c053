//go:build linux

package deploytest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/observe/podrules"
	"github.com/windows-machine-config/wmco/internal/observe/podrules/podrulestest"
)

// testRandomPods compares the pod rules with the API server for random pods: with deploy/workloads, the API server accepts the
// same pods, and each pod fits a node that fits one without; it warns about the findings of kubectl windows lint; and lint
// finds an error in each pod that the API server rejects because it is for Windows.
func (c *cluster) testRandomPods(t *testing.T) {
	const disabled = "without-classes"
	w := c.newWriter(t)
	c.createNamespace(t, disabled, map[string]string{api.LabelAssignRuntimeClass: "false"})
	seen := map[string]int{}
	for seed := range uint64(600) {
		pod := podrulestest.Pod(seed)
		found := podrulestest.Lint(t, pod)
		w.warnings.take()
		without, err := w.dryRun(t.Context(), pod, disabled)
		if output := warned(w.warnings.take()); err == nil && !slices.Equal(output, podrulestest.Fields(found)) {
			t.Errorf("seed %d: got warnings of the API server %q, want those of lint %q\n%+v", seed, output, podrulestest.Fields(found), pod)
		}
		if err != nil {
			seen["rejected"]++
			ofClass := strings.Contains(err.Error(), "conflict: runtimeClass") // lint does not know the classes of a cluster
			if pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Windows && !ofClass && !slices.Contains(slices.Collect(maps.Values(found)), podrules.Error) {
				t.Errorf("seed %d: lint found no error, but the API server rejected the pod: %v\n%+v", seed, err, pod)
			}
			continue
		}
		with, err := w.dryRun(t.Context(), pod, metav1.NamespaceDefault)
		if err != nil {
			t.Fatalf("seed %d: with deploy/workloads, the API server rejected the pod: %v\n%+v", seed, err, pod)
		}
		if with.Spec.RuntimeClassName != nil && without.Spec.RuntimeClassName == nil {
			seen["default class"]++
		}
		if podrulestest.HasNode(t, without) && !podrulestest.HasNode(t, with) {
			t.Errorf("seed %d: with deploy/workloads, no node fits the pod: %v, %v\n%+v", seed, with.Spec.NodeSelector, with.Spec.Tolerations, pod)
		}
		if t.Failed() {
			return
		}
	}
	if seen["rejected"] < 30 || seen["default class"] < 30 {
		t.Errorf("too few pods of each result: %v", seen)
	}
}

// warned returns the fields in the warnings of the policies.
func warned(output []string) (fields []string) {
	for _, text := range output {
		_, rest, _ := strings.Cut(text, "': ")
		field, _, _ := strings.Cut(rest, " of a pod for Windows: ")
		fields = append(fields, field)
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// dryRun returns a pod as the API server would create it in a namespace.
func (w writer) dryRun(ctx context.Context, pod *corev1.Pod, namespace string) (*corev1.Pod, error) {
	pod = pod.DeepCopy()
	pod.Namespace = namespace
	return w.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}
