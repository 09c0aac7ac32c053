package generations_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/internal/observe/generations"
)

// TestPodsElsewhere expects a pod to have a place only on a node that takes pods, that its settings allow, and that is known to run its images.
func TestPodsElsewhere(t *testing.T) {
	working := func(name, version string) corev1.Node {
		n := node(name, version)
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		return n
	}
	pulled := func(n corev1.Node, image string) corev1.Node {
		n.Status.Images = []corev1.ContainerImage{{Names: []string{image}}}
		return n
	}
	cordoned, tainted, silent := working("new", on2025), working("new", on2025), node("new", on2025)
	cordoned.Spec.Unschedulable = true
	tainted.Spec.Taints = []corev1.Taint{{Key: "rehearsal", Effect: corev1.TaintEffectNoSchedule}}
	pinned := template("registry.example/web:1")
	pinned.NodeSelector = map[string]string{corev1.LabelWindowsBuild: "10.0.20348"}
	tolerant := template("registry.example/web:1")
	tolerant.Tolerations = []corev1.Toleration{{Key: "rehearsal", Operator: corev1.TolerationOpExists}}
	far := template("registry.example/web:1")
	far.NodeSelector = map[string]string{corev1.LabelTopologyZone: "b"}
	huge := template("registry.example/web:1")
	huge.NodeSelector = map[string]string{}
	for i := range 1001 {
		huge.NodeSelector[fmt.Sprint("label-", i)] = "x"
	}
	hostProcess := template("registry.example/tool:1")
	hostProcess.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: new(true)}}
	web := template("registry.example/web:1")

	for name, test := range map[string]struct {
		from   string
		pod    corev1.PodSpec
		others []corev1.Node
		want   string // a part of the answer; empty if the pod has a place
	}{
		"a newer node":                       {on2022, web, []corev1.Node{working("new", on2025)}, ""},
		"only itself":                        {on2022, web, nil, "no other node"},
		"a cordoned node":                    {on2022, web, []corev1.Node{cordoned}, "no other node"},
		"a node that is not Ready":           {on2022, web, []corev1.Node{silent}, "no other node"},
		"a taint":                            {on2022, web, []corev1.Node{tainted}, "no other node"},
		"a tolerated taint":                  {on2022, tolerant, []corev1.Node{tainted}, ""},
		"pinned to the former version":       {on2022, pinned, []corev1.Node{working("new", on2025)}, "no other node"},
		"pinned, with another such node":     {on2022, pinned, []corev1.Node{working("new", on2025), working("mid", on2022)}, ""},
		"another zone":                       {on2022, far, []corev1.Node{working("new", on2025)}, "no other node"},
		"a selector of a thousand labels":    {on2022, huge, []corev1.Node{working("new", on2025)}, "too large"},
		"an image of 2019":                   {on2019, web, []corev1.Node{working("new", on2025)}, "image registry.example/web:1 is not known to run on node new with 10.0.26100"},
		"an image of 2019 that was pulled":   {on2019, web, []corev1.Node{pulled(working("new", on2025), "registry.example/web:1")}, ""},
		"an image of 2019 on another 2019":   {on2019, web, []corev1.Node{working("other", on2019)}, ""},
		"another image was pulled":           {on2019, web, []corev1.Node{pulled(working("new", on2025), "registry.example/web:2")}, "not known to run"},
		"a HostProcess pod of 2019":          {on2019, hostProcess, []corev1.Node{working("new", on2025)}, ""},
		"an image that only 2022 has pulled": {on2019, web, []corev1.Node{working("new", on2025), pulled(working("mid", on2022), "registry.example/web:1")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			from := working("old", test.from)
			pod := &corev1.Pod{Spec: test.pod}
			got := generations.NewElsewhere(&from, append([]corev1.Node{from}, test.others...)).Missing(pod)
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
