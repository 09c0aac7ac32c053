package podrulestest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/observe/podrules"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// Nodes returns Windows nodes, one of each build, as they join.
func Nodes() (nodes []*corev1.Node) {
	for _, r := range windowsbuild.Releases() {
		name := "win-" + r.Version
		labels := map[string]string{
			corev1.LabelOSStable: "windows", "beta.kubernetes.io/os": "windows", corev1.LabelArchStable: "amd64", corev1.LabelHostname: name, "pool": name,
			corev1.LabelWindowsBuild: r.Build.Label(),
		}
		for _, image := range windowsbuild.Releases() {
			if windowsbuild.Runs(r.Build, image.Build) {
				labels[api.LabelRunsPrefix+image.Class] = "true"
			}
		}
		nodes = append(nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: api.TaintKey, Value: api.TaintValue, Effect: corev1.TaintEffectNoSchedule}}},
		})
	}
	return nodes
}

// HasNode reports whether the scheduler would find one of these nodes for a pod.
func HasNode(t testing.TB, pod *corev1.Pod) bool {
	t.Helper()
	return slices.ContainsFunc(Nodes(), func(n *corev1.Node) bool {
		fits, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(n)
		if err != nil {
			t.Fatal(err)
		}
		return fits && slices.ContainsFunc(pod.Spec.Tolerations, func(o corev1.Toleration) bool {
			return o.ToleratesTaint(klog.Background(), &n.Spec.Taints[0], false)
		})
	})
}

// Spec returns the spec of a pod, as in a manifest.
func Spec(t testing.TB, pod *corev1.Pod) map[string]any {
	t.Helper()
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// Lint returns the fields of a pod that kubectl windows lint reports, in the notation of the policies.
func Lint(t testing.TB, pod *corev1.Pod) map[string]podrules.Severity {
	t.Helper()
	spec, fields := Spec(t, pod), map[string]podrules.Severity{}
	if !podrules.ForWindows(spec) {
		return fields
	}
	found, err := podrules.Check(spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		field := f.Field
		if list, rest, isList := strings.Cut(field, "["); isList {
			_, rest, _ = strings.Cut(rest, "]")
			if list == "initContainers" {
				list = "containers"
			}
			field = list + "[*]" + rest
		}
		if before, _, isPage := strings.Cut(field, "hugepages-"); isPage {
			field = before + "hugepages-*"
		}
		fields[field] = f.Severity
	}
	return fields
}

// Fields returns the sorted fields of Lint's result.
func Fields(found map[string]podrules.Severity) []string { return slices.Sorted(maps.Keys(found)) }
