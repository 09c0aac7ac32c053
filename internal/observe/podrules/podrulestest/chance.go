package podrulestest

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
)

// Pod returns a random pod. It sets fields that select nodes, and fields that Windows does not support.
func Pod(seed uint64) *corev1.Pod {
	c := chance{rand.New(rand.NewPCG(seed, 0))}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "by-chance", Namespace: metav1.NamespaceDefault}}
	for i := range 1 + c.IntN(2) {
		pod.Spec.Containers = append(pod.Spec.Containers, c.container(fmt.Sprint("c", i)))
	}
	if c.rarely() {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c.container("first"))
	}
	switch {
	case c.IntN(2) == 0:
		pod.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
	case c.rarely():
		pod.Spec.OS = &corev1.PodOS{Name: corev1.Linux}
	}
	for range c.IntN(3) {
		c.selectNodes(pod)
	}
	if c.IntN(3) == 0 {
		pod.Spec.Affinity = c.affinity()
	}
	c.tolerate(pod)
	for range c.IntN(3) {
		c.breakRule(pod)
	}
	return pod
}

type chance struct{ *rand.Rand }

func (c chance) one(of ...string) string { return of[c.IntN(len(of))] }

func (c chance) rarely() bool { return c.IntN(5) == 0 }

func (c chance) container(name string) corev1.Container {
	image := c.one("example.com/agent:1.0", "example.com/web:ltsc2022", "example.com/web:LTSC2019", "registry:5000/a:10.0.26100.1", "golang:1.26-nanoserver-1809",
		"mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022", "mcr.microsoft.com/dotnet/framework/aspnet:4.8", "example.com/20348/a:v1.20348x")
	container := corev1.Container{Name: name, Image: image}
	if !c.rarely() {
		container.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	}
	return container
}

func (c chance) selectNodes(pod *corev1.Pod) {
	selects := func(label string, values ...string) {
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = map[string]string{}
		}
		pod.Spec.NodeSelector[label] = c.one(values...)
	}
	switch c.IntN(7) {
	case 0, 1:
		selects(corev1.LabelOSStable, "windows", "windows", "windows", "linux")
	case 2:
		selects("beta.kubernetes.io/os", "windows", "windows", "linux")
	case 3:
		selects(corev1.LabelArchStable, "amd64")
	case 4:
		selects(corev1.LabelWindowsBuild, "10.0.20348", "10.0.26100")
	case 5:
		selects(c.one(corev1.LabelHostname, "pool"), "win-2022", "win-2025")
	case 6:
		selects(api.LabelRunsPrefix+"windows2022", "true")
	}
}

func (c chance) affinity() *corev1.Affinity {
	if c.rarely() {
		return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
	}
	var required corev1.NodeSelector
	for range 1 + c.IntN(2) {
		var term corev1.NodeSelectorTerm
		require := func(key string, operator corev1.NodeSelectorOperator, values ...string) {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values})
		}
		switch c.IntN(7) {
		case 0, 1:
			require(c.one(corev1.LabelOSStable, "beta.kubernetes.io/os"), corev1.NodeSelectorOpIn, "windows")
		case 2:
			require(corev1.LabelOSStable, corev1.NodeSelectorOperator(c.one("In", "NotIn")), "linux")
		case 3: // as DaemonSets do
			term.MatchFields = []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{c.one("win-2019", "win-2025")}}}
		case 4:
			require(corev1.LabelWindowsBuild, corev1.NodeSelectorOpIn, "10.0.26100")
		case 5:
			require(corev1.LabelOSStable, corev1.NodeSelectorOpIn, "windows")
			require("pool", corev1.NodeSelectorOpIn, "win-2025")
		case 6:
			require(c.one(corev1.LabelHostname, corev1.LabelWindowsBuild), corev1.NodeSelectorOpExists)
		}
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, term)
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &required}}
}

func (c chance) tolerate(pod *corev1.Pod) {
	switch c.IntN(4) {
	case 0:
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
	case 1:
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: api.TaintKey, Value: c.one(api.TaintValue, api.TaintValueLowerCase, "other"), Effect: corev1.TaintEffect(c.one("", "NoSchedule", "NoExecute")),
		})
	}
	if c.rarely() {
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: c.one("apps/v1", "apps.kruise.io/v1alpha1"), Kind: c.one("DaemonSet", "ReplicaSet"), Name: "agent", UID: "u", Controller: new(true),
		}}
	}
	if c.rarely() {
		pod.Spec.RuntimeClassName = new("windows2022")
	}
}

// breakRule adds something that Windows does not support or treats differently.
func (c chance) breakRule(pod *corev1.Pod) {
	first := &pod.Spec.Containers[0]
	switch c.IntN(9) {
	case 0:
		first.SecurityContext = &corev1.SecurityContext{Privileged: new(c.rarely())}
	case 1:
		first.SecurityContext = &corev1.SecurityContext{RunAsNonRoot: new(true)}
	case 2:
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(1000))}
	case 3:
		pod.Spec.HostNetwork = true
	case 4:
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMedium(c.one("", "Memory"))}}}}
	case 5:
		pod.Spec.HostNetwork = true
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: new(true), RunAsUserName: new(`NT AUTHORITY\SYSTEM`)}}
	case 6:
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true), WindowsOptions: &corev1.WindowsSecurityContextOptions{RunAsUserName: new("ContainerAdministrator")}}
		if c.rarely() {
			first.SecurityContext = &corev1.SecurityContext{RunAsNonRoot: new(c.rarely()), WindowsOptions: &corev1.WindowsSecurityContextOptions{RunAsUserName: new(c.one("ContainerUser", "CONTAINERADMINISTRATOR"))}}
		}
	case 7:
		first.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi"), "hugepages-2Mi": resource.MustParse("2Mi")}
	case 8:
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "example.com/data:1"}}}}
	}
}
