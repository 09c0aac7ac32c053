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

// windowsClass is a RuntimeClass as the operator creates it.
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

// makeHyperV makes of a class the one for Hyper-V isolation.
func makeHyperV(class *nodev1.RuntimeClass) {
	class.Name, class.Handler = "windows2022-hyperv", api.HandlerHyperVIsolation
	class.Scheduling.NodeSelector[api.LabelHyperV] = "true"
	class.Overhead = &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")}}
}

func (c *cluster) testRuntimeClasses(t *testing.T) {
	const onlyOurs, onlyWindows = "changes and deletes only those", "must have label"
	theirs := windowsClass("theirs")
	theirs.Labels = nil
	must(t, drop(c.admin.NodeV1().RuntimeClasses().Create(t.Context(), theirs, metav1.CreateOptions{})))
	classes := c.asOperator(t).NodeV1().RuntimeClasses()
	create := func(change func(*nodev1.RuntimeClass)) func(context.Context) error {
		return func(ctx context.Context) error {
			class := windowsClass("windows2022")
			change(class)
			return drop(classes.Create(ctx, class, metav1.CreateOptions{}))
		}
	}
	update := func(name string, change func(*nodev1.RuntimeClass)) func(context.Context) error {
		return func(ctx context.Context) error {
			class, err := classes.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			change(class)
			return drop(classes.Update(ctx, class, metav1.UpdateOptions{}))
		}
	}
	try(t, []attempt{
		{"the operator creates one without its label", onlyWindows, create(func(class *nodev1.RuntimeClass) { class.Labels = nil })},
		{"the operator creates one for another runtime", onlyWindows, create(func(class *nodev1.RuntimeClass) { class.Handler = "runc" })},
		{"the operator creates one for Linux nodes", onlyWindows, create(func(class *nodev1.RuntimeClass) { class.Scheduling.NodeSelector[corev1.LabelOSStable] = "linux" })},
		{"the operator creates one for all nodes", onlyWindows, create(func(class *nodev1.RuntimeClass) { class.Scheduling = nil })},
		{"the operator creates its own", "", create(func(*nodev1.RuntimeClass) {})},
		{"the operator creates one with overhead for nothing", onlyWindows, create(func(class *nodev1.RuntimeClass) { makeHyperV(class); class.Handler = "runhcs-wcow-process" })},
		{"the operator creates one with Hyper-V for all nodes", onlyWindows, create(func(class *nodev1.RuntimeClass) {
			makeHyperV(class)
			delete(class.Scheduling.NodeSelector, api.LabelHyperV)
		})},
		{"the operator creates one with Hyper-V for nothing", onlyWindows, create(func(class *nodev1.RuntimeClass) { makeHyperV(class); class.Overhead = nil })},
		{"the operator creates one with another hypervisor", onlyWindows, create(func(class *nodev1.RuntimeClass) { makeHyperV(class); class.Handler = "runhcs-wcow-hypervisor-17763" })},
		{"the operator creates one with Hyper-V", "", create(makeHyperV)},
		{"the operator changes its own", "", update("windows2022", func(class *nodev1.RuntimeClass) { class.Labels[api.LabelImages] = "ltsc2022" })},
		{"the operator gives its own away", onlyWindows, update("windows2022", func(class *nodev1.RuntimeClass) { class.Labels = nil })},
		{"the operator changes another", onlyOurs, update("theirs", func(class *nodev1.RuntimeClass) { class.Labels = map[string]string{api.LabelManagedBy: api.ManagedBy} })},
		{"the operator deletes another", onlyOurs, func(ctx context.Context) error { return classes.Delete(ctx, "theirs", metav1.DeleteOptions{}) }},
	})
	t.Run("a pod gets what its class says", c.testPodOfAClass)
	t.Run("a pod with Hyper-V isolation gets what its class says", c.testPodWithHyperV)
	for _, name := range []string{"windows2022", "windows2022-hyperv"} {
		try(t, []attempt{{"the operator deletes " + name, "", func(ctx context.Context) error { return classes.Delete(ctx, name, metav1.DeleteOptions{}) }}})
	}
}

func (c *cluster) testPodOfAClass(t *testing.T) {
	pod := windowsPod("web", "example.com/web:1")
	pod.Spec.RuntimeClassName = new("windows2022")
	got, err := c.dryRun(t.Context(), pod)
	must(t, err)
	if got.Spec.NodeSelector[corev1.LabelWindowsBuild] != "10.0.20348" || got.Spec.NodeSelector[corev1.LabelOSStable] != "windows" {
		t.Errorf("its node selector is %v", got.Spec.NodeSelector)
	}
	for _, value := range []string{"Windows", "windows"} {
		taint := &corev1.Taint{Key: "os", Value: value, Effect: corev1.TaintEffectNoSchedule}
		if !slices.ContainsFunc(got.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.Key == taint.Key && t.Value == taint.Value && t.Effect == taint.Effect
		}) {
			t.Errorf("it does not tolerate %s: %+v", taint.ToString(), got.Spec.Tolerations)
		}
	}
}

func (c *cluster) testPodWithHyperV(t *testing.T) {
	pod := windowsPod("web", "example.com/web:1")
	pod.Spec.RuntimeClassName = new("windows2022-hyperv")
	got, err := c.dryRun(t.Context(), pod)
	must(t, err)
	if memory := got.Spec.Overhead[corev1.ResourceMemory]; memory.String() != "512Mi" || got.Spec.NodeSelector[api.LabelHyperV] != "true" {
		t.Errorf("its overhead is %v, and its node selector %v", got.Spec.Overhead, got.Spec.NodeSelector)
	}
}

// windowsPod is a pod for Windows in namespace default.
func windowsPod(name, image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec:       corev1.PodSpec{OS: &corev1.PodOS{Name: corev1.Windows}, Containers: []corev1.Container{{Name: "c", Image: image}}},
	}
}

// dryRun is the pod as the API server would create it.
func (c *cluster) dryRun(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	return c.admin.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}
