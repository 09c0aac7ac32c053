package generations_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/observe/generations"
)

// rehearsed returns a Deployment for Windows Server 2022.
func rehearsed(edit func(*appsv1.Deployment)) *appsv1.Deployment {
	class, replicas := "windows2022", int32(5)
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				RuntimeClassName: &class, NodeSelector: map[string]string{corev1.LabelWindowsBuild: "10.0.20348"}, PriorityClassName: "high",
				Containers: []corev1.Container{{Name: "web", Image: "example.com/web:1"}},
				Affinity:   &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}},
			}},
		},
	}
	if edit != nil {
		edit(d)
	}
	return d
}

func classOf(name, build string) *nodev1.RuntimeClass {
	return &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{corev1.LabelWindowsBuild: build}},
	}
}

// newHost returns a node with Windows Server 2025 and a taint.
func newHost() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "win-9", Labels: map[string]string{
			corev1.LabelOSStable: "windows", corev1.LabelHostname: "win-9", corev1.LabelWindowsBuild: "10.0.26100",
		}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: "new", Value: "2025", Effect: corev1.TaintEffectNoSchedule}, {Key: "node.kubernetes.io/unschedulable", Effect: corev1.TaintEffectNoSchedule},
		}},
		Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "windows", KernelVersion: "10.0.26100.7171"}},
	}
}

func TestRehearsalRunsOnOneHostWithoutTraffic(t *testing.T) {
	classes := map[string]*nodev1.RuntimeClass{"windows2022": classOf("windows2022", "10.0.20348"), "windows2025": classOf("windows2025", "10.0.26100")}
	original := rehearsed(nil)
	r, err := generations.Rehearse(original, newHost(), classes, false)
	if err != nil {
		t.Fatal(err)
	}
	got, pod := r.Deployment, r.Deployment.Spec.Template.Spec
	if got.Name != "web-rehearsal" || got.Namespace != "shop" || *got.Spec.Replicas != 1 || *pod.RuntimeClassName != "windows2025" {
		t.Errorf("the copy is %s/%s with %d replicas and class %s", got.Namespace, got.Name, *got.Spec.Replicas, *pod.RuntimeClassName)
	}
	if len(pod.NodeSelector) != 2 || pod.NodeSelector[corev1.LabelHostname] != "win-9" || pod.Affinity != nil || pod.PriorityClassName != "" {
		t.Errorf("the copy is scheduled by %v, %+v, %q", pod.NodeSelector, pod.Affinity, pod.PriorityClassName)
	}
	if len(pod.Tolerations) != 1 || pod.Tolerations[0].Key != "new" {
		t.Errorf("the copy tolerates %+v", pod.Tolerations)
	}
	labels := got.Spec.Template.Labels
	if len(labels) != 1 || labels[api.LabelRehearsal] != "web" || got.Spec.Selector.MatchLabels[api.LabelRehearsal] != "web" {
		t.Errorf("the copy's pods have labels %v, and its selector is %v", labels, got.Spec.Selector)
	}
	if *original.Spec.Template.Spec.RuntimeClassName != "windows2022" || original.Spec.Template.Spec.Affinity == nil {
		t.Error("the original was changed")
	}
}

func TestRehearsalOfRuntimeClassAndVolumes(t *testing.T) {
	claim := func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-1"},
		}}}
	}
	class := func(name string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) { d.Spec.Template.Spec.RuntimeClassName = &name }
	}
	all := []*nodev1.RuntimeClass{
		classOf("windows2022", "10.0.20348"), classOf("windows2025", "10.0.26100"), classOf("windows2022-hyperv", "10.0.20348"),
		classOf("windows2025-hyperv", "10.0.26100"), classOf("own", "10.0.20348"), {ObjectMeta: metav1.ObjectMeta{Name: "any"}},
	}
	for name, test := range map[string]struct {
		edit      func(*appsv1.Deployment)
		empty     bool
		without   string // a RuntimeClass that does not exist
		wantClass string
		wantNote  string
		wantErr   string
	}{
		"Hyper-V isolation":           {class("windows2022-hyperv"), false, "", "windows2025-hyperv", "RuntimeClass windows2022-hyperv is replaced by windows2025-hyperv.", ""},
		"class of the build":          {class("windows2025"), false, "", "windows2025", "", ""},
		"class without selector":      {class("any"), false, "", "any", "", ""},
		"no class":                    {func(d *appsv1.Deployment) { d.Spec.Template.Spec.RuntimeClassName = nil }, false, "", "", "", ""},
		"class of users":              {class("own"), false, "", "", "", `RuntimeClass "own" does not select node win-9`},
		"no class of the build":       {nil, false, "windows2025", "", "", "RuntimeClass windows2025 does not exist"},
		"claim":                       {claim, false, "", "", "", "PersistentVolumeClaim data-1, which the copy would share: use --empty-volumes"},
		"claim, with an empty volume": {claim, true, "", "windows2025", "Volume data is empty instead of PersistentVolumeClaim data-1.", ""},
		"folder of the host": {func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "logs", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: `C:\logs`}}}}
		}, false, "", "windows2025", "Volume logs is a folder of the host", ""},
		"long name": {func(d *appsv1.Deployment) { d.Name = strings.Repeat("a", 51) + "." + strings.Repeat("b", 60) }, false, "", "windows2025", "", ""},
	} {
		classes := map[string]*nodev1.RuntimeClass{}
		for _, c := range all {
			if c.Name != test.without {
				classes[c.Name] = c
			}
		}
		r, err := generations.Rehearse(rehearsed(test.edit), newHost(), classes, test.empty)
		if test.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("%s: error %v, want %q", name, err, test.wantErr)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		pod := r.Deployment.Spec.Template.Spec
		got := ""
		if pod.RuntimeClassName != nil {
			got = *pod.RuntimeClassName
		}
		if got != test.wantClass || !strings.Contains(strings.Join(r.Notes, "\n"), test.wantNote) {
			t.Errorf("%s: class %q and notes %q, want %q and %q", name, got, r.Notes, test.wantClass, test.wantNote)
		}
		if n := r.Deployment.Name; len(n) > 63 || strings.Contains(n, ".-") || len(r.Deployment.Labels[api.LabelRehearsal]) > 63 {
			t.Errorf("%s: the copy is named %s", name, n)
		}
		if len(pod.Volumes) > 0 && pod.Volumes[0].PersistentVolumeClaim != nil {
			t.Errorf("%s: the copy shares a claim", name)
		}
	}
}
