package runtimeclass

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// place is a cluster with the controller.
type place struct {
	t *testing.T
	client.Client
	controller *Controller
	events     *controllertest.Recorder
}

func open(t *testing.T, objects ...client.Object) place {
	p := place{t: t, Client: fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithObjects(objects...).Build(), events: &controllertest.Recorder{}}
	p.controller = &Controller{Client: p.Client, Live: p.Client, Events: kube.NewEvents(p.events)}
	return p
}

// reconcile reconciles and returns the existing classes with their node selectors, without the OS label.
func (p place) reconcile(ctx context.Context) (classes map[string]string, result reconcile.Result) {
	p.t.Helper()
	result, err := p.controller.Reconcile(ctx, reconcile.Request{})
	if err != nil {
		p.t.Fatal(err)
	}
	var list nodev1.RuntimeClassList
	if err := p.List(ctx, &list); err != nil {
		p.t.Fatal(err)
	}
	classes = map[string]string{}
	for _, class := range list.Items {
		classes[class.Name] = ""
		if class.Scheduling == nil {
			continue
		}
		selector := maps.Clone(class.Scheduling.NodeSelector)
		delete(selector, corev1.LabelOSStable)
		var parts []string
		for name, value := range selector {
			parts = append(parts, strings.TrimPrefix(name, api.GroupName+"/")+"="+value)
		}
		slices.Sort(parts)
		classes[class.Name] = strings.Join(parts, ",")
	}
	return classes, result
}

func (p place) expect(ctx context.Context, want map[string]string) {
	p.t.Helper()
	if got, _ := p.reconcile(ctx); !maps.Equal(got, want) {
		p.t.Errorf("the classes are %v, want %v", got, want)
	}
}

// node returns a Windows node; with suffix " hyperv" in its version, it supports Hyper-V isolation.
func node(name, version string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "windows"}}}
	version, isolates := strings.CutSuffix(version, " hyperv")
	if isolates {
		n.Labels[api.LabelHyperV] = "true"
	}
	n.Status.NodeInfo.KernelVersion = version
	return n
}

func config(change func(*v1alpha1.WindowsConfigSpec)) *v1alpha1.WindowsConfig {
	c := &v1alpha1.WindowsConfig{ObjectMeta: metav1.ObjectMeta{Name: api.WindowsConfigName}}
	change(&c.Spec)
	return c
}

const (
	is2019 = "node.kubernetes.io/windows-build=10.0.17763"
	is2022 = "node.kubernetes.io/windows-build=10.0.20348"
	is2025 = "node.kubernetes.io/windows-build=10.0.26100"
)

func TestEachVersionWithNodeHasClass(t *testing.T) {
	type spec = v1alpha1.WindowsConfigSpec
	linux := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "linux"}}
	linux.Status.NodeInfo.KernelVersion = "10.0.17763"
	for name, test := range map[string]struct {
		builds []string
		spec   func(*spec)
		want   map[string]string
	}{
		"no nodes":                        {nil, nil, map[string]string{}},
		"nodes of one version":            {[]string{"10.0.20348.2402", "10.0.20348.1"}, nil, map[string]string{"windows2022": is2022}},
		"nodes of all versions":           {[]string{"10.0.17763.1", "10.0.20348.1", "10.0.26100.1"}, nil, map[string]string{"windows2019": is2019, "windows2022": is2022, "windows2025": is2025}},
		"nodes of an unsupported version": {[]string{"10.0.25398.1", "six"}, nil, map[string]string{}},
		"no versions configured":          {[]string{"10.0.20348.1"}, func(s *spec) { s.RuntimeClasses.Versions = []v1alpha1.WindowsVersion{} }, map[string]string{}},
		"another version configured":      {[]string{"10.0.20348.1"}, func(s *spec) { s.RuntimeClasses.Versions = []v1alpha1.WindowsVersion{"2025"} }, map[string]string{}},
		"newer hosts":                     {[]string{"10.0.26100.1"}, func(s *spec) { s.RuntimeClasses.NewerHosts = true }, map[string]string{"windows2022": "runs.windows2022=true", "windows2025": "runs.windows2025=true"}},
		"newer hosts of 2019":             {[]string{"10.0.20348.1"}, func(s *spec) { s.RuntimeClasses.NewerHosts = true }, map[string]string{"windows2022": "runs.windows2022=true"}},
		"additional": {[]string{"10.0.20348.1"}, func(s *spec) {
			s.RuntimeClasses.Additional = []v1alpha1.AdditionalRuntimeClass{{Name: "windows-2022", Version: "2022"}, {Name: "old", Version: "2019"}, {Name: "any", Version: "2022", NewerHosts: true}}
		}, map[string]string{"windows2022": is2022, "windows-2022": is2022, "any": "runs.windows2022=true"}},
		"Hyper-V not configured":          {[]string{"10.0.20348.1 hyperv"}, nil, map[string]string{"windows2022": is2022}},
		"no node with Hyper-V":            {[]string{"10.0.20348.1"}, hyperV(nil), map[string]string{"windows2022": is2022}},
		"Hyper-V on nodes of one version": {[]string{"10.0.20348.1 hyperv", "10.0.17763.1"}, hyperV(nil), map[string]string{"windows2019": is2019, "windows2022": is2022, "windows2022-hyperv": "hyperv=true," + is2022}},
		"Hyper-V on newer hosts": {[]string{"10.0.26100.1 hyperv"}, hyperV(func(s *spec) { s.RuntimeClasses.NewerHosts = true }), map[string]string{
			"windows2022": "runs.windows2022=true", "windows2022-hyperv": "hyperv=true,runs.windows2022=true",
			"windows2025": "runs.windows2025=true", "windows2025-hyperv": "hyperv=true,runs.windows2025=true",
		}},
		"additional with Hyper-V": {[]string{"10.0.20348.1 hyperv"}, hyperV(func(s *spec) {
			s.RuntimeClasses.Versions = []v1alpha1.WindowsVersion{}
			s.RuntimeClasses.Additional = []v1alpha1.AdditionalRuntimeClass{{Name: "tenants", Version: "2022", HyperV: true}, {Name: "old", Version: "2019", HyperV: true}}
		}), map[string]string{"tenants": "hyperv=true," + is2022}},
		"additional, without hyperV": {[]string{"10.0.20348.1 hyperv"}, func(s *spec) {
			s.RuntimeClasses.Additional = []v1alpha1.AdditionalRuntimeClass{{Name: "tenants", Version: "2022", HyperV: true}}
		}, map[string]string{"windows2022": is2022}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{linux.DeepCopy()}
			for i, build := range test.builds {
				objects = append(objects, node(fmt.Sprint("win-", i), build))
			}
			if test.spec != nil {
				objects = append(objects, config(test.spec))
			}
			p := open(t, objects...)
			p.expect(t.Context(), test.want)
			p.expect(t.Context(), test.want) // a second reconcile changes nothing
			if len(p.events.Events) > 0 {
				t.Error(p.events.Events)
			}
		})
	}
}

// hyperV enables Hyper-V isolation and applies change.
func hyperV(change func(*v1alpha1.WindowsConfigSpec)) func(*v1alpha1.WindowsConfigSpec) {
	return func(s *v1alpha1.WindowsConfigSpec) {
		s.RuntimeClasses.HyperV = &v1alpha1.HyperVSpec{}
		if change != nil {
			change(s)
		}
	}
}

func TestHyperVClassHasHandlerAndOverhead(t *testing.T) {
	p := open(t, node("a", "10.0.20348.1 hyperv"), config(hyperV(nil)))
	p.reconcile(t.Context())
	class := p.class("windows2022-hyperv")
	if class.Handler != "runhcs-wcow-hypervisor" || class.Labels[api.LabelImages] != "" || len(class.Scheduling.Tolerations) != 2 {
		t.Errorf("the class is %+v", class)
	}
	if memory := class.Overhead.PodFixed[corev1.ResourceMemory]; memory.String() != "512Mi" || len(class.Overhead.PodFixed) != 1 {
		t.Errorf("the overhead is %v", class.Overhead.PodFixed)
	}
	class.Overhead = nil
	if err := p.Update(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	if p.reconcile(t.Context()); p.class("windows2022-hyperv").Overhead == nil {
		t.Error("the overhead that was removed stays so")
	}
	if process := p.class("windows2022"); process.Overhead != nil {
		t.Errorf("without Hyper-V, the overhead is %v", process.Overhead)
	}
}

// TestUnusedClassGetsNewHandler: the handler is immutable, so the class is created again.
func TestUnusedClassGetsNewHandler(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.PodSpec{RuntimeClassName: new("tenants")}}
	additional := func(isolated bool) func(*v1alpha1.WindowsConfigSpec) {
		return hyperV(func(s *v1alpha1.WindowsConfigSpec) {
			s.RuntimeClasses.Versions = []v1alpha1.WindowsVersion{}
			s.RuntimeClasses.Additional = []v1alpha1.AdditionalRuntimeClass{{Name: "tenants", Version: "2022", HyperV: isolated}}
		})
	}
	c := config(additional(false))
	p := open(t, node("a", "10.0.20348.1 hyperv"), pod, c)
	p.expect(t.Context(), map[string]string{"tenants": is2022})
	additional(true)(&c.Spec)
	if err := p.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if classes, result := p.reconcile(t.Context()); classes["tenants"] != is2022 || result.RequeueAfter == 0 || len(p.events.Events) > 0 {
		t.Errorf("while a pod uses it: classes %v, next attempt after %v, events %v", classes, result.RequeueAfter, p.events.Events)
	}
	if err := p.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	p.reconcile(t.Context()) // deletes it
	p.expect(t.Context(), map[string]string{"tenants": "hyperv=true," + is2022})
}

func TestClassToleratesBothTaints(t *testing.T) {
	p := open(t, node("a", "10.0.20348.1"))
	p.reconcile(t.Context())
	class := p.class("windows2022")
	for _, taint := range []string{"Windows", "windows"} {
		if !slices.ContainsFunc(class.Scheduling.Tolerations, func(got corev1.Toleration) bool {
			return got.Key == "os" && got.Value == taint && got.Effect == corev1.TaintEffectNoSchedule
		}) {
			t.Errorf("no toleration of os=%s:NoSchedule in %+v", taint, class.Scheduling.Tolerations)
		}
	}
	if class.Handler != "runhcs-wcow-process" || class.Labels[api.LabelImages] != "ltsc2022" || class.Labels[api.LabelManagedBy] != api.ManagedBy {
		t.Errorf("the class is %+v", class)
	}
}

func (p place) class(name string) *nodev1.RuntimeClass {
	p.t.Helper()
	class := &nodev1.RuntimeClass{}
	if err := p.Get(p.t.Context(), client.ObjectKey{Name: name}, class); err != nil {
		p.t.Fatal(err)
	}
	return class
}

func TestClassRemainsAfterLastNodeLeaves(t *testing.T) {
	p := open(t, node("a", "10.0.20348.1"))
	p.expect(t.Context(), map[string]string{"windows2022": is2022})
	if err := p.Delete(t.Context(), node("a", "")); err != nil {
		t.Fatal(err)
	}
	p.expect(t.Context(), map[string]string{"windows2022": is2022})
}

func TestChangedClassIsRestored(t *testing.T) {
	p := open(t, node("a", "10.0.20348.1"), config(func(s *v1alpha1.WindowsConfigSpec) { s.Pods.DefaultRuntimeClass = "windows2022" }))
	p.reconcile(t.Context())
	class := p.class("windows2022")
	if class.Labels[api.LabelDefaultClass] != "true" {
		t.Errorf("the labels are %v", class.Labels)
	}
	class.Scheduling.NodeSelector = nil
	class.Labels[api.LabelImages], class.Labels["mine"] = "ltsc2019", "x"
	if err := p.Update(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	if err := p.Update(t.Context(), p.withoutDefault()); err != nil {
		t.Fatal(err)
	}
	p.expect(t.Context(), map[string]string{"windows2022": is2022})
	class = p.class("windows2022")
	want := map[string]string{api.LabelManagedBy: api.ManagedBy, api.LabelImages: "ltsc2022", "mine": "x"}
	if !maps.Equal(class.Labels, want) {
		t.Errorf("the labels are %v, want %v", class.Labels, want)
	}
}

func (p place) withoutDefault() *v1alpha1.WindowsConfig {
	p.t.Helper()
	c := &v1alpha1.WindowsConfig{}
	if err := p.Get(p.t.Context(), client.ObjectKey{Name: api.WindowsConfigName}, c); err != nil {
		p.t.Fatal(err)
	}
	c.Spec.Pods.DefaultRuntimeClass = ""
	return c
}

func TestForeignRuntimeClassIsKept(t *testing.T) {
	foreign := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "windows2022"}, Handler: "theirs"}
	other := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}, Handler: "runsc"}
	p := open(t, node("a", "10.0.20348.1"), foreign, other)
	p.expect(t.Context(), map[string]string{"windows2022": "", "gvisor": ""})
	if len(p.events.Events) != 1 || !strings.Contains(p.events.Events[0], api.EventRuntimeClassConflict+" *v1.RuntimeClass windows2022") {
		t.Errorf("the events are %v", p.events.Events)
	}
}

func TestUnusedRuntimeClassIsDeleted(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.PodSpec{RuntimeClassName: new("windows2022")}}
	p := open(t, node("a", "10.0.20348.1"), node("b", "10.0.17763.1"), pod)
	p.reconcile(t.Context())
	noVersions := config(func(s *v1alpha1.WindowsConfigSpec) { s.RuntimeClasses.Versions = []v1alpha1.WindowsVersion{} })
	if err := p.Create(t.Context(), noVersions); err != nil {
		t.Fatal(err)
	}
	classes, result := p.reconcile(t.Context())
	if !maps.Equal(classes, map[string]string{"windows2022": is2022}) || result.RequeueAfter == 0 {
		t.Errorf("while a pod uses it: classes %v, next attempt after %v", classes, result.RequeueAfter)
	}
	if err := p.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	classes, result = p.reconcile(t.Context())
	if len(classes) > 0 || result.RequeueAfter != 0 {
		t.Errorf("without a pod: classes %v, next attempt after %v", classes, result.RequeueAfter)
	}
}

func TestOnlyCapabilityChangesTriggerReconcile(t *testing.T) {
	changed := capabilityChanged()
	before, got := node("a", "10.0.20348.1"), node("a", "10.0.20348.1")
	got.Labels["x"] = "y"
	if changed.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: got}) {
		t.Error("a changed label of a Node triggers a reconcile")
	}
	got.Labels[api.LabelHyperV] = "true"
	if !changed.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: got}) {
		t.Error("Hyper-V on a node triggers no reconcile")
	}
	delete(got.Labels, api.LabelHyperV)
	got.Status.NodeInfo.KernelVersion = "10.0.26100.1"
	if !changed.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: got}) || !changed.Create(event.CreateEvent{Object: before}) {
		t.Error("a new build triggers no reconcile")
	}
	if changed.Create(event.CreateEvent{Object: &corev1.Node{}}) {
		t.Error("a Linux node triggers a reconcile")
	}
}
