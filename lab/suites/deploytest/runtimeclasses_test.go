//go:build linux

package deploytest

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
)

// windowsClass returns a RuntimeClass as the operator creates it.
func windowsClass(name string) *nodev1.RuntimeClass {
	tolerates := func(value string) corev1.Toleration {
		return corev1.Toleration{Key: "os", Operator: corev1.TolerationOpEqual, Value: value, Effect: corev1.TaintEffectNoSchedule}
	}
	return &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelManagedBy: api.ManagedBy}},
		Handler:    "runhcs-wcow-process",
		Scheduling: &nodev1.Scheduling{
			NodeSelector: map[string]string{corev1.LabelOSStable: "windows", corev1.LabelWindowsBuild: "10.0.20348"},
			Tolerations:  []corev1.Toleration{tolerates("Windows"), tolerates("windows")},
		},
	}
}

// makeHyperV turns a class into the one for Hyper-V isolation.
func makeHyperV(class *nodev1.RuntimeClass) {
	class.Name, class.Handler = "windows2022-hyperv", api.HandlerHyperVIsolation
	class.Scheduling.NodeSelector[api.LabelHyperV] = "true"
	class.Overhead = &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")}}
}

func (c *cluster) testRuntimeClasses(t *testing.T) {
	const onlyOwn, onlyWindows = "changes and deletes only those", "must have label"
	foreign := windowsClass("foreign")
	foreign.Labels = nil
	must(t, errOf(c.admin.NodeV1().RuntimeClasses().Create(t.Context(), foreign, metav1.CreateOptions{})))
	classes := c.asOperator(t).NodeV1().RuntimeClasses()
	create := func(change func(*nodev1.RuntimeClass)) func(context.Context) error {
		return func(ctx context.Context) error {
			class := windowsClass("windows2022")
			change(class)
			return errOf(classes.Create(ctx, class, metav1.CreateOptions{}))
		}
	}
	update := func(name string, change func(*nodev1.RuntimeClass)) func(context.Context) error {
		return func(ctx context.Context) error {
			class, err := classes.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			change(class)
			return errOf(classes.Update(ctx, class, metav1.UpdateOptions{}))
		}
	}
	try(t, []attempt{
		{"create a class without the operator's label", onlyWindows, create(func(class *nodev1.RuntimeClass) { class.Labels = nil })},
		{"create a class with another handler", onlyWindows, create(func(class *nodev1.RuntimeClass) { class.Handler = "runc" })},
		{"create a class for Linux nodes", onlyWindows, create(func(class *nodev1.RuntimeClass) { class.Scheduling.NodeSelector[corev1.LabelOSStable] = "linux" })},
		{"create a class for all nodes", onlyWindows, create(func(class *nodev1.RuntimeClass) { class.Scheduling = nil })},
		{"create a class", "", create(func(*nodev1.RuntimeClass) {})},
		{"create a class with overhead but without Hyper-V isolation", onlyWindows, create(func(class *nodev1.RuntimeClass) { makeHyperV(class); class.Handler = "runhcs-wcow-process" })},
		{"create a class with Hyper-V isolation for all nodes", onlyWindows, create(func(class *nodev1.RuntimeClass) {
			makeHyperV(class)
			delete(class.Scheduling.NodeSelector, api.LabelHyperV)
		})},
		{"create a class with Hyper-V isolation but without overhead", onlyWindows, create(func(class *nodev1.RuntimeClass) { makeHyperV(class); class.Overhead = nil })},
		{"create a class with another handler of Hyper-V isolation", onlyWindows, create(func(class *nodev1.RuntimeClass) { makeHyperV(class); class.Handler = "runhcs-wcow-hypervisor-17763" })},
		{"create a class with Hyper-V isolation", "", create(makeHyperV)},
		{"change its own class", "", update("windows2022", func(class *nodev1.RuntimeClass) { class.Labels[api.LabelImages] = "ltsc2022" })},
		{"remove the label of its own class", onlyWindows, update("windows2022", func(class *nodev1.RuntimeClass) { class.Labels = nil })},
		{"change another class", onlyOwn, update("foreign", func(class *nodev1.RuntimeClass) { class.Labels = map[string]string{api.LabelManagedBy: api.ManagedBy} })},
		{"delete another class", onlyOwn, func(ctx context.Context) error { return classes.Delete(ctx, "foreign", metav1.DeleteOptions{}) }},
	})
	t.Run("pod with a RuntimeClass", c.testPodWithRuntimeClass)
	t.Run("pod with Hyper-V isolation", c.testPodWithHyperV)
	for _, name := range []string{"windows2022", "windows2022-hyperv"} {
		try(t, []attempt{{"delete " + name, "", func(ctx context.Context) error { return classes.Delete(ctx, name, metav1.DeleteOptions{}) }}})
	}
}

func (c *cluster) testPodWithRuntimeClass(t *testing.T) {
	pod := windowsPod("web", "example.com/web:1")
	pod.Spec.RuntimeClassName = new("windows2022")
	got, err := c.dryRun(t.Context(), pod)
	must(t, err)
	if got.Spec.NodeSelector[corev1.LabelWindowsBuild] != "10.0.20348" || got.Spec.NodeSelector[corev1.LabelOSStable] != "windows" {
		t.Errorf("got node selector %v, want that of the RuntimeClass", got.Spec.NodeSelector)
	}
	for _, value := range []string{"Windows", "windows"} {
		taint := &corev1.Taint{Key: "os", Value: value, Effect: corev1.TaintEffectNoSchedule}
		if !slices.ContainsFunc(got.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.Key == taint.Key && t.Value == taint.Value && t.Effect == taint.Effect
		}) {
			t.Errorf("got tolerations %+v, want one for %s", got.Spec.Tolerations, taint.ToString())
		}
	}
}

func (c *cluster) testPodWithHyperV(t *testing.T) {
	pod := windowsPod("web", "example.com/web:1")
	pod.Spec.RuntimeClassName = new("windows2022-hyperv")
	got, err := c.dryRun(t.Context(), pod)
	must(t, err)
	if memory := got.Spec.Overhead[corev1.ResourceMemory]; memory.String() != "512Mi" || got.Spec.NodeSelector[api.LabelHyperV] != "true" {
		t.Errorf("got overhead %v and node selector %v, want those of the RuntimeClass", got.Spec.Overhead, got.Spec.NodeSelector)
	}
}

// windowsPod returns a pod for Windows in namespace default.
func windowsPod(name, image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec:       corev1.PodSpec{OS: &corev1.PodOS{Name: corev1.Windows}, Containers: []corev1.Container{{Name: "c", Image: image}}},
	}
}

// dryRun returns a pod as the API server would create it.
func (c *cluster) dryRun(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	return c.admin.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}
