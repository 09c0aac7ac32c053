package podcause_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/observe/podcause"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

func node(name, build string, taints ...corev1.Taint) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "windows", corev1.LabelWindowsBuild: build}}}
	n.Status.NodeInfo.KernelVersion = build + ".2402"
	n.Spec.Taints = append(taints, corev1.Taint{Key: "os", Value: "Windows", Effect: corev1.TaintEffectNoSchedule})
	return n
}

func taint(key string) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule}
}

// waits returns a pod for Windows that tolerates the taint and that the scheduler cannot place.
func waits(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.PodSpec{
		OS: &corev1.PodOS{Name: corev1.Windows}, NodeSelector: map[string]string{corev1.LabelOSStable: "windows"},
		Tolerations: []corev1.Toleration{{Key: "os", Value: "Windows"}}, Containers: []corev1.Container{{Name: "web", Image: "r.test/web:1"}},
	}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	change(pod)
	return pod
}

// refused returns a pod on a node with a waiting container.
func refused(on, reason, message string) *corev1.Pod {
	return waits(func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Conditions = on, nil
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Image: "r.test/web:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	})
}

// withAccount returns a waiting pod on a node, with the content of a credential spec.
func withAccount(on string) *corev1.Pod {
	pod := refused(on, "ContainerCreating", "")
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{GMSACredentialSpecName: new("web-gmsa"), GMSACredentialSpec: new("{}")}}
	return pod
}

// gmsa returns a node that reports whether it supports group Managed Service Accounts.
func gmsa(name string, capable corev1.ConditionStatus) corev1.Node {
	n := node(name, "10.0.20348")
	n.Status.Conditions = []corev1.NodeCondition{{Type: api.ConditionGMSACapable, Status: capable}}
	return n
}

const noMatch = "no match for platform in manifest: not found"

func TestCauses(t *testing.T) {
	selects := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeSelector[key] = value }
	}
	affinity := func(operator corev1.NodeSelectorOperator, key string, values ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}},
			}}}}
		}
	}
	reported := refused("win-1", "ImagePullBackOff", `Back-off pulling image "r.test/web:1"`)
	reported.Annotations = map[string]string{api.AnnotationDoesNotStart: "ImageForAnotherBuild: as before. Use another."}
	deleted := refused("win-1", "ErrImagePull", noMatch)
	deleted.DeletionTimestamp = new(metav1.Now())
	linux := refused("linux-1", "ErrImagePull", noMatch)
	linux.Spec.OS, linux.Spec.NodeSelector = nil, nil
	isolated := refused("win-1", "ErrImagePull", noMatch)
	isolated.Spec.RuntimeClassName = new("isolated")
	nodes := []corev1.Node{node("win-1", "10.0.20348"), node("win-2", "10.0.26100")}
	for name, test := range map[string]struct {
		pod             *corev1.Pod
		nodes           []corev1.Node
		reason, message string
	}{
		"another build":                    {refused("win-1", "ErrImagePull", noMatch), nodes, api.EventImageForAnotherBuild, "has no manifest for node win-1, which has build 10.0.20348 (Windows Server 2022)"},
		"back-off after the first message": {reported, nodes, api.EventImageForAnotherBuild, "as before"},
		"missing pull secret":              {refused("win-1", "ErrImagePull", "401 Unauthorized"), nodes, api.EventRegistryDenied, "image r.test/web:1"},
		"container is being created":       {refused("win-1", "ContainerCreating", ""), nodes, "", ""},
		"init containers run":              {refused("win-1", "PodInitializing", ""), nodes, "", ""},
		"unknown failure":                  {refused("win-1", "ErrImagePull", "strange"), nodes, "", ""},
		"pod is being deleted":             {deleted, nodes, "", ""},
		"pod for Linux":                    {linux, nodes, "", ""},
		"no node of the build":             {waits(selects(corev1.LabelWindowsBuild, "10.0.17763")), nodes, api.EventNoNodeForBuild, "no Windows node has build 10.0.17763 (Windows Server 2019); the cluster has nodes with 10.0.20348"},
		"no node for its RuntimeClass":     {waits(selects(api.LabelRunsPrefix+"windows2019", "true")), nodes, api.EventNoNodeForBuild, "runs images of windows2019"},
		"two labels without a node": {waits(func(p *corev1.Pod) {
			p.Spec.NodeSelector[corev1.LabelWindowsBuild], p.Spec.NodeSelector[api.LabelRunsPrefix+"windows2019"] = "10.0.17763", "true"
		}), nodes, api.EventNoNodeForBuild, "no Windows node has build 10.0.17763"},
		"unknown label":                   {waits(selects("disk", "fast")), nodes, api.EventNoNodeFits, "disk=fast"},
		"no nodes":                        {waits(func(*corev1.Pod) {}), nil, api.EventNoNodeFits, "has no Windows node"},
		"affinity that fits no node":      {waits(affinity(corev1.NodeSelectorOpIn, "zone", "a")), nodes, api.EventNoNodeFits, "required affinity"},
		"affinity that fits a node":       {waits(affinity(corev1.NodeSelectorOpNotIn, "zone", "a")), nodes, "", ""},
		"an unknown operator":             {waits(affinity("Near", "zone", "a")), nodes, api.EventNoNodeFits, "required affinity"},
		"an untolerated taint":            {waits(func(p *corev1.Pod) { p.Spec.Tolerations[0].Value = "windows" }), nodes, api.EventTaintNotTolerated, "win-1 has os=Windows:NoSchedule"},
		"one node fits":                   {waits(func(*corev1.Pod) {}), append([]corev1.Node{node("win-0", "10.0.20348", taint("mine"))}, nodes...), "", ""},
		"cordoned nodes":                  {waits(func(*corev1.Pod) {}), []corev1.Node{node("win-1", "10.0.20348", taint(corev1.TaintNodeUnschedulable)), node("win-2", "10.0.20348", taint("mine"))}, api.EventNodesUnavailable, "win-1"},
		"memory pressure without a limit": {waits(func(*corev1.Pod) {}), []corev1.Node{node("win-1", "10.0.20348", taint(corev1.TaintNodeMemoryPressure))}, api.EventMemoryLimitMissing, "win-1"},
		"memory pressure with a limit": {waits(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
		}), []corev1.Node{node("win-1", "10.0.20348", taint(corev1.TaintNodeMemoryPressure))}, api.EventNodesUnavailable, "win-1"},
		"missing RuntimeClass":  {waits(func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("windows2022") }), nodes, api.EventRuntimeClassMissing, "RuntimeClass windows2022 no longer exists"},
		"existing RuntimeClass": {waits(func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("other") }), nodes, "", ""},
		"missing webhook": {waits(func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{GMSACredentialSpecName: new("web-gmsa")}}
		}), nodes, api.EventCredentialSpecMissing, "web-gmsa"},
		"webhook": {waits(func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{GMSACredentialSpecName: new("web-gmsa"), GMSACredentialSpec: new("{}")}}
		}), nodes, "", ""},
		"node without a domain": {withAccount("win-1"), []corev1.Node{gmsa("win-1", "False"), gmsa("win-2", "False")}, api.EventNodeNotInDomain,
			"node win-1 does not report that it is joined to a domain or has a plugin of Container Credential Guard; 0 of 2 Windows nodes do"},
		"another node with a domain":                    {withAccount("win-1"), []corev1.Node{gmsa("win-1", "False"), gmsa("win-2", "True")}, api.EventNodeNotInDomain, "1 of 2 Windows nodes do"},
		"node with a domain":                            {withAccount("win-1"), []corev1.Node{gmsa("win-1", "True")}, "", ""},
		"node that does not report its domain":          {withAccount("win-1"), nodes, api.EventNodeNotInDomain, "0 of 2 Windows nodes do"},
		"pod without an account, node without a domain": {refused("win-1", "ContainerCreating", ""), []corev1.Node{gmsa("win-1", "False")}, "", ""},
		"selects a domain":                              {waits(selects(api.LabelGMSA, "true")), nodes, api.EventNodeNotInDomain, "no Windows node is joined to a domain or has a plugin"},
		"selects Hyper-V":                               {waits(selects(api.LabelHyperV, "true")), nodes, api.EventNoNodeWithHyperV, "none of the Windows nodes (2) has it; condition WindowsHyperVCapable"},
		"image for another build with Hyper-V isolation": {isolated, nodes, api.EventImageForAnotherBuild,
			"build 10.0.20348 (Windows Server 2022); even with Hyper-V isolation, containerd pulls images for the build of the node"},
		"not scheduled yet": {waits(func(p *corev1.Pod) { p.Status.Conditions, p.Spec.Tolerations = nil, nil }), nodes, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := podcause.Of(test.pod, podcause.Cluster{Nodes: test.nodes, Handlers: map[string]string{"other": "runhcs-wcow-process", "isolated": "runhcs-wcow-hypervisor"}})
			if c.Reason != test.reason || !strings.Contains(c.Message, test.message) || c.Reason == "" && c.Message != "" {
				t.Errorf("Of() = %+v, want %s: %s", c, test.reason, test.message)
			}
		})
	}
}

func TestRegistryRefinesPodCause(t *testing.T) {
	c := podcause.Of(refused("win-1", "ErrImagePull", noMatch), podcause.Cluster{Nodes: []corev1.Node{node("win-1", "10.0.20348")}})
	for name, test := range map[string]struct {
		image   windowsbuild.Image
		message string
	}{
		"another build": {windowsbuild.Image{Builds: []windowsbuild.Build{17763}}, "the image is for 10.0.17763 (Windows Server 2019)"},
		"Linux":         {windowsbuild.Image{}, "the image is not for Windows"},
		"a lie":         {windowsbuild.Image{Builds: []windowsbuild.Build{20348}}, "its registry now reports one"},
	} {
		if got := c.For(test.image).Message; !strings.Contains(got, test.message) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestMissingGMSASupportIsExplained(t *testing.T) {
	c := podcause.Of(waits(func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{GMSACredentialSpecName: new("web-gmsa")}}
	}), podcause.Cluster{Nodes: []corev1.Node{node("win-1", "10.0.20348")}})
	for exists, want := range map[bool]string{true: "the webhook of windows-gmsa is not installed", false: "kind GMSACredentialSpec does not exist"} {
		if got := c.WithKind(exists).Message; !strings.Contains(got, want) || !strings.Contains(got, "web-gmsa") {
			t.Errorf("%v: %s", exists, got)
		}
	}
}

// TestHostileTextsAreBounded uses terminal control characters in texts of a kubelet and a user.
func TestHostileTextsAreBounded(t *testing.T) {
	pod := refused("win-1", "ErrImagePull", "401 Unauthorized \x1b[31m"+strings.Repeat("x", 1<<20))
	c := podcause.Of(pod, podcause.Cluster{Nodes: []corev1.Node{node("win-1", "10.0.20348")}})
	if len(c.Message) > 2000 || strings.Contains(c.Message, "\x1b") || c.Reason != api.EventRegistryDenied {
		t.Errorf("%d bytes: %.200q", len(c.Message), c.Message)
	}
}
