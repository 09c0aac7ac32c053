package bugreports

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/observe/podrules"
	"github.com/windows-machine-config/wmco/internal/observe/podrules/podrulestest"
)

// workloadReports are reports about manifests for Windows.
func workloadReports() []report {
	const datadog = "https://github.com/DataDog/helm-charts/issues/1151"
	const wrong = "checked: containers[0].securityContext.privileged"
	return []report{
		{
			link:    datadog,
			input:   "the pod of a DaemonSet for all builds of Windows, with an image that names none, and a default class for another build",
			want:    "no class",
			outcome: assignedClass("gcr.io/datadoghq/agent:7.46.0", onNode("win-2019")),
		},
		{
			link:    datadog,
			input:   "the same, with an image that names a build",
			want:    "no class",
			outcome: assignedClass("example.com/agent:1.0-ltsc2022", onNode("win-2025")),
		},
		{
			link:  datadog,
			input: "a pod that selects its host",
			want:  "no class",
			outcome: assignedClass("example.com/web:ltsc2022", func(p *corev1.Pod) {
				p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "win-2025"}
			}),
		},
		{
			link:  datadog,
			input: "a pod that requires another build than that of its image",
			want:  "no class",
			outcome: assignedClass("example.com/web:ltsc2022", func(p *corev1.Pod) {
				onNode("")(p)
				p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0] = corev1.NodeSelectorTerm{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelWindowsBuild, Operator: corev1.NodeSelectorOpIn, Values: []string{"10.0.26100"}}},
				}
			}),
		},
		{
			link:    "https://kubernetes.io/docs/concepts/containers/runtime-class/",
			input:   "a pod for Windows that selects Linux nodes: the API server takes it",
			want:    "no class",
			outcome: assignedClass("example.com/web:ltsc2022", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "linux"} }),
		},
		{
			link:    "https://github.com/opencontainers/distribution-spec/blob/main/spec.md",
			input:   "a tag in capitals",
			want:    "windows2022",
			outcome: assignedClass("example.com/web:LTSC2022", func(*corev1.Pod) {}),
		},
		{
			link:    "https://kubernetes.io/docs/reference/labels-annotations-taints/",
			input:   "the label of the system that kubelets had first, and still set",
			want:    wrong,
			outcome: linted("nodeSelector: {beta.kubernetes.io/os: windows}", "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2019", ""),
		},
		{
			link:  "https://github.com/epam/cloud-pipeline/pull/2007",
			input: "required node affinity in place of a node selector",
			want:  wrong,
			outcome: linted("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "+
				"[{matchExpressions: [{key: kubernetes.io/os, operator: In, values: [windows]}]}]}}}", "example.com/web:1", ""),
		},
		{
			link:    "https://docs.aws.amazon.com/eks/latest/userguide/windows-support.html",
			input:   "the pool of a cloud in place of the system, with an image of Microsoft's",
			want:    wrong,
			outcome: linted("nodeSelector: {agentpool: win22}", "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022", ""),
		},
		{
			link:    "https://kubernetes.io/docs/concepts/storage/persistent-volumes/",
			input:   "an empty list of volume devices, as generators of manifests write it",
			want:    wrong,
			outcome: linted("nodeSelector: {kubernetes.io/os: windows}", "example.com/web:1", ", volumeDevices: []"),
		},
		{
			link:    "https://github.com/microsoft/Windows-Containers/issues/223",
			input:   "another build than that of the node, in the words of containerd",
			want:    api.EventImageForAnotherBuild,
			outcome: waiting("ErrImagePull", `rpc error: code = NotFound desc = failed to pull and unpack image "r/a:1": no match for platform in manifest: not found`),
		},
		{
			link:    "https://github.com/kubernetes-sigs/sig-windows-tools/issues/72",
			input:   "another build than that of the node, in the words of Windows",
			want:    api.EventImageForAnotherBuild,
			outcome: waiting("CreateContainerError", `hcsshim::CreateComputeSystem e20e: The container operating system does not match the host operating system.`),
		},
		{
			link:  "https://github.com/eksctl-io/eksctl/issues/6669",
			input: "a registry of a cloud without credentials",
			want:  api.EventRegistryDenied,
			outcome: waiting("ErrImagePull", `failed to resolve reference "1.dkr.ecr.eu-west-1.amazonaws.com/eks/livenessprobe:v2": pulling from host 1.dkr.ecr.eu-west-1.amazonaws.com `+
				`failed with status code [manifests v2]: 401 Unauthorized`),
		},
	}
}

// onNode restricts a pod to one node, as DaemonSets do.
func onNode(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}},
		}}}}}
	}
}

// assignedClass returns the RuntimeClass that deploy/workloads assigns to a pod for Windows.
func assignedClass(image string, change func(*corev1.Pod)) func(*testing.T) string {
	return func(t *testing.T) string {
		pod := &corev1.Pod{Spec: corev1.PodSpec{OS: &corev1.PodOS{Name: corev1.Windows}, Containers: []corev1.Container{{Name: "c", Image: image}}}}
		change(pod)
		given, err := podrulestest.NewServer(t).Assign(pod, podrulestest.Classes())
		if err != nil {
			return err.Error()
		}
		if given.Spec.RuntimeClassName == nil {
			return "no class"
		}
		return *given.Spec.RuntimeClassName
	}
}

// linted returns the finding of kubectl windows lint for a pod whose only fault is a privileged container.
func linted(where, image, more string) func(*testing.T) string {
	return func(t *testing.T) string {
		var spec map[string]any
		text := fmt.Sprintf("os: {name: windows}\n%s\ntolerations: [{key: os, value: Windows}]\ncontainers: [{name: c, image: %q, securityContext: {privileged: true}, "+
			"resources: {limits: {memory: 1Gi}}%s}]", where, image, more)
		if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
			t.Fatal(err)
		}
		delete(spec, "os")
		if !podrules.ForWindows(spec) {
			return "left out"
		}
		spec["os"] = map[string]any{"name": "windows"}
		found, err := podrules.Check(spec)
		if err != nil {
			t.Fatal(err)
		}
		var fields []string
		for _, f := range found {
			fields = append(fields, f.Field)
		}
		return "checked: " + strings.Join(fields, " ")
	}
}
