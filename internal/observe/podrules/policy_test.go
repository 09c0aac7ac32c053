package podrules_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/observe/podrules/podrulestest"
)

// TestRandomPods compares the rules with each other: assigning a class never leads to a rejection or leaves the pod without a matching node,
// and policies warn about what kubectl windows lint reports. lab/suites/deploytest does the same with an API server.
func TestRandomPods(t *testing.T) {
	server, classes, seen := newServer(t), runtimeClasses(), map[string]int{}
	for seed := range uint64(2000) {
		pod := podrulestest.Pod(seed)
		if got, want := server.warned(pod), podrulestest.Fields(podrulestest.Lint(t, pod)); !slices.Equal(got, want) {
			t.Errorf("seed %d: the policies warn of %q, lint of %q\n%+v", seed, got, want, pod.Spec)
		}
		own := pod.DeepCopy()
		if own.Spec.RuntimeClassName != nil {
			var err error
			if own, err = server.assigned(own, classes); err != nil {
				continue // rejected even without a change
			}
		}
		assigned, err := server.assigned(pod, classes)
		if err != nil {
			t.Errorf("seed %d: the pod is rejected: %v\n%+v", seed, err, pod.Spec)
			continue
		}
		before, after := podrulestest.HasNode(t, own), podrulestest.HasNode(t, assigned)
		if before && !after {
			t.Errorf("seed %d: the pod no longer matches any node: %v\n%+v", seed, assigned.Spec.NodeSelector, pod.Spec)
		}
		switch {
		case assigned.Spec.RuntimeClassName == nil:
			seen["no class"]++
		case pod.Spec.RuntimeClassName == nil:
			seen["a class"]++
		}
		if !before && after {
			seen["a node by the class"]++
		}
		if t.Failed() {
			return
		}
	}
	for _, kind := range []string{"no class", "a class", "a node by the class"} {
		if seen[kind] < 100 {
			t.Errorf("only %d pods get %s: %v", seen[kind], kind, seen)
		}
	}
}

// TestRuntimeClassAssignment covers pods that select their node, and pods that do not.
func TestRuntimeClassAssignment(t *testing.T) {
	server, classes := newServer(t), runtimeClasses()
	requires := func(label string, values ...string) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: label, Operator: corev1.NodeSelectorOpIn, Values: values}},
		}}}}}
	}
	selects := func(label, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{label: value} }
	}
	for name, test := range map[string]struct {
		image  string
		change func(*corev1.Pod)
		want   string
	}{
		"image for 2022":                    {"a:ltsc2022", func(*corev1.Pod) {}, "windows2022"},
		"image for 2022, in capitals":       {"a:LTSC2022", func(*corev1.Pod) {}, "windows2022"}, // https://github.com/opencontainers/distribution-spec/blob/main/spec.md
		"image without a version":           {"a:1.0", func(*corev1.Pod) {}, "windows2022"},
		"selects Windows by the older name": {"a:ltsc2019", func(p *corev1.Pod) { p.Spec.OS = nil; selects("beta.kubernetes.io/os", "windows")(p) }, "windows2019"},
		"requires Windows":                  {"a:ltsc2019", func(p *corev1.Pod) { p.Spec.OS, p.Spec.Affinity = nil, requires(corev1.LabelOSStable, "windows") }, "windows2019"},
		"image for Windows only":            {"a:ltsc2019", func(p *corev1.Pod) { p.Spec.OS = nil; selects("agentpool", "win19")(p) }, "windows2019"},
		"pinned to a node by its DaemonSet": {"gcr.io/datadoghq/agent:7.46.0", func(p *corev1.Pod) { // https://github.com/DataDog/helm-charts/issues/1151
			p.Spec.Affinity = requires(corev1.LabelOSStable, "windows")
			p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields = []corev1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"win-2019"}},
			}
		}, ""},
		"owned by a DaemonSet":                {"a:ltsc2022", func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet"}} }, ""},
		"owned by a ReplicaSet":               {"a:ltsc2022", func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet"}} }, "windows2022"},
		"requires a build":                    {"a:ltsc2022", func(p *corev1.Pod) { p.Spec.Affinity = requires(corev1.LabelWindowsBuild, "10.0.26100") }, ""},
		"requires a host":                     {"a:ltsc2022", func(p *corev1.Pod) { p.Spec.Affinity = requires(corev1.LabelHostname, "win-2025") }, ""},
		"selects a host":                      {"a:ltsc2022", selects(corev1.LabelHostname, "win-2025"), ""},
		"selects a build":                     {"a:ltsc2022", selects(corev1.LabelWindowsBuild, "10.0.26100"), ""},
		"selects nodes of the RuntimeClass":   {"a:ltsc2022", selects("windowsmachineconfig.openshift.io/runs.windows2022", "true"), ""},
		"assigned to a node":                  {"a:ltsc2022", func(p *corev1.Pod) { p.Spec.NodeName = "win-1" }, ""},
		"selects Linux":                       {"a:ltsc2022", selects(corev1.LabelOSStable, "linux"), ""}, // https://kubernetes.io/docs/concepts/containers/runtime-class/
		"for Linux, with a Windows selector":  {"a:ltsc2022", func(p *corev1.Pod) { p.Spec.OS.Name = corev1.Linux; selects(corev1.LabelOSStable, "windows")(p) }, ""},
		"selects a pool without a toleration": {"a:ltsc2022", selects("pool", "a"), "windows2022"},
		"selects a pool with a toleration": {"a:ltsc2022", func(p *corev1.Pod) {
			selects("pool", "a")(p)
			p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}, ""},
		"affinity to another pod with a toleration": {"a:ltsc2022", func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname}}}}
			p.Spec.Tolerations = []corev1.Toleration{{Key: "os", Value: "windows"}}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{OS: &corev1.PodOS{Name: corev1.Windows}, Containers: []corev1.Container{{Name: "c", Image: test.image}}}}
			test.change(pod)
			assigned, err := server.assigned(pod, classes)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if assigned.Spec.RuntimeClassName != nil {
				got = *assigned.Spec.RuntimeClassName
			}
			if got != test.want {
				t.Errorf("the class is %q, want %q", got, test.want)
			}
		})
	}
}
