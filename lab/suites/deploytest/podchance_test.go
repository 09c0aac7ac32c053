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

// testPodsByChance holds the rules about pods against the API server: with deploy/workloads, it refuses no pod that it takes without, and a node
// fits each that one did fit; it warns of what kubectl windows lint finds; and what it refuses for being on Windows is an error there.
func (c *cluster) testPodsByChance(t *testing.T) {
	const plain = "without-classes"
	w := c.newWriter(t)
	c.createNamespace(t, plain, map[string]string{api.LabelAssignRuntimeClass: "false"})
	seen := map[string]int{}
	for seed := range uint64(600) {
		pod := podrulestest.Pod(seed)
		found := podrulestest.Lint(t, pod)
		w.warnings.take()
		written, err := w.dryRun(t.Context(), pod, plain)
		if output := warned(w.warnings.take()); err == nil && !slices.Equal(output, podrulestest.Fields(found)) {
			t.Errorf("seed %d: the API server warns of %q, lint of %q\n%+v", seed, output, podrulestest.Fields(found), pod)
		}
		if err != nil {
			seen["refused"]++
			ofClass := strings.Contains(err.Error(), "conflict: runtimeClass") // lint does not know the classes of a cluster
			if pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Windows && !ofClass && !slices.Contains(slices.Collect(maps.Values(found)), podrules.Error) {
				t.Errorf("seed %d: the API server refuses the pod, and lint finds no error in it: %v\n%+v", seed, err, pod)
			}
			continue
		}
		given, err := w.dryRun(t.Context(), pod, metav1.NamespaceDefault)
		if err != nil {
			t.Fatalf("seed %d: with deploy/workloads, the pod is refused: %v\n%+v", seed, err, pod)
		}
		if given.Spec.RuntimeClassName != nil && written.Spec.RuntimeClassName == nil {
			seen["a class"]++
		}
		if podrulestest.HasNode(t, written) && !podrulestest.HasNode(t, given) {
			t.Errorf("seed %d: with deploy/workloads, no node fits the pod: %v, %v\n%+v", seed, given.Spec.NodeSelector, given.Spec.Tolerations, pod)
		}
		if t.Failed() {
			return
		}
	}
	if seen["refused"] < 30 || seen["a class"] < 30 {
		t.Errorf("too few pods tell anything: %v", seen)
	}
}

// warned are the fields that warnings of the policies name.
func warned(output []string) (fields []string) {
	for _, text := range output {
		_, rest, _ := strings.Cut(text, "': ")
		field, _, _ := strings.Cut(rest, " of a pod for Windows: ")
		fields = append(fields, field)
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// dryRun is the pod as the API server would create it in a namespace.
func (w writer) dryRun(ctx context.Context, pod *corev1.Pod, namespace string) (*corev1.Pod, error) {
	pod = pod.DeepCopy()
	pod.Namespace = namespace
	return w.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}
