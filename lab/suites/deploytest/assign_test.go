//go:build linux

package deploytest

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
)

// testDefaultRuntimeClass tests that deploy/workloads sets the RuntimeClass of pods, which then adds its node selector and tolerations.
func (c *cluster) testDefaultRuntimeClass(t *testing.T) {
	must(t, manifest.Apply(t.Context(), c.config, deployDir+"/workloads"))
	class := func(name string, labels map[string]string, build string) *nodev1.RuntimeClass {
		class := windowsClass(name)
		for key, value := range labels {
			class.Labels[key] = value
		}
		class.Scheduling.NodeSelector[corev1.LabelWindowsBuild] = build
		return class
	}
	unmanaged := class("unmanaged", map[string]string{api.LabelManagedBy: "helm", api.LabelImages: "ltsc2025"}, "10.0.26100")
	for _, class := range []*nodev1.RuntimeClass{
		class("windows2019", map[string]string{api.LabelImages: "ltsc2019"}, "10.0.17763"), class("windows2022", map[string]string{api.LabelImages: "ltsc2022"}, "10.0.20348"),
		class("fallback", map[string]string{api.LabelDefaultClass: "true"}, "10.0.20348"), unmanaged,
	} {
		must(t, errOf(c.admin.NodeV1().RuntimeClasses().Create(t.Context(), class, metav1.CreateOptions{})))
	}
	eventually(t, "", func(ctx context.Context) error { // until the policy is in effect
		got, err := c.dryRun(ctx, windowsPod("web", "a:ltsc2022"))
		if err == nil && got.Spec.RuntimeClassName == nil {
			err = errors.New("the pod has no RuntimeClass")
		}
		return err
	})
	for name, test := range map[string]struct {
		image  string
		change func(*corev1.Pod)
		want   string
	}{
		"2022":               {"mcr.microsoft.com/windows/nanoserver:ltsc2022", nil, "windows2022"},
		"2019 by its build":  {"registry:5000/a:10.0.17763.1-amd64", nil, "windows2019"},
		"2019 by its number": {"a:windowsservercore-1809@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", nil, "windows2019"},
		"no matching class":  {"a:ltsc2025", nil, ""},
		"no Windows version": {"ltsc2022/a:1.0", nil, "fallback"},
		"tag in upper case":  {"a:LTSC2022", nil, "windows2022"},
		"selects Windows by the beta label": {"a:ltsc2022", func(p *corev1.Pod) {
			p.Spec.OS, p.Spec.NodeSelector = nil, map[string]string{"beta.kubernetes.io/os": "windows"}
		}, "windows2022"},
		"image of a Windows repository": {"mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022", func(p *corev1.Pod) {
			p.Spec.OS, p.Spec.NodeSelector = nil, map[string]string{"agentpool": "win22"}
		}, "windows2022"},
		"DaemonSet pod with node affinity": {"gcr.io/datadoghq/agent:7.46.0", func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"win-2019"}}},
			}}}}}
		}, ""},
		"selects Linux": {"a:ltsc2022", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "linux"} }, ""},
		"selects Windows": {"a:ltsc2022", func(p *corev1.Pod) {
			p.Spec.OS, p.Spec.NodeSelector = nil, map[string]string{corev1.LabelOSStable: "windows"}
		}, "windows2022"},
		"no operating system":               {"a:20348", func(p *corev1.Pod) { p.Spec.OS = nil }, ""},
		"RuntimeClass of the user":          {"a:ltsc2022", func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("windows2019") }, "windows2019"},
		"build in the node selector":        {"a:ltsc2022", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelWindowsBuild: "10.0.26100"} }, ""},
		"node name":                         {"a:ltsc2022", func(p *corev1.Pod) { p.Spec.NodeName = "win-1" }, ""},
		"HostProcess pod":                   {"a:ltsc2022", hostProcess, ""},
		"disabled by the pod's label":       {"a:ltsc2022", func(p *corev1.Pod) { p.Labels = map[string]string{api.LabelAssignRuntimeClass: "false"} }, ""},
		"disabled by the namespace's label": {"a:ltsc2022", func(p *corev1.Pod) { p.Namespace = "own-classes" }, ""},
		"images for two versions": {"a:ltsc2022", func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "other", Image: "b:ltsc2019"})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) { c.expectClass(t, test.image, test.change, test.want) })
	}
	t.Run("random pods", c.testRandomPods)
}

func hostProcess(p *corev1.Pod) {
	p.Spec.HostNetwork = true
	p.Spec.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: new(true), RunAsUserName: new(`NT AUTHORITY\SYSTEM`)}}
}

func (c *cluster) expectClass(t *testing.T, image string, change func(*corev1.Pod), want string) {
	t.Helper()
	pod := windowsPod("web", image)
	if change != nil {
		change(pod)
	}
	if pod.Namespace != metav1.NamespaceDefault {
		c.createNamespace(t, pod.Namespace, map[string]string{api.LabelAssignRuntimeClass: "false"})
	}
	current, err := c.dryRun(t.Context(), pod)
	must(t, err)
	got := ""
	if current.Spec.RuntimeClassName != nil {
		got = *current.Spec.RuntimeClassName
	}
	if got != want {
		t.Errorf("got RuntimeClass %q, want %q", got, want)
	}
	if want != "" && (current.Spec.NodeSelector[corev1.LabelWindowsBuild] == "" || len(current.Spec.Tolerations) < 2) {
		t.Errorf("got node selector %v and tolerations %v, want those of the RuntimeClass", current.Spec.NodeSelector, current.Spec.Tolerations)
	}
}
