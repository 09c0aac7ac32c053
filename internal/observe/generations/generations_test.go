package generations_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/observe/generations"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

const (
	on2019 = "10.0.17763.8000"
	on2022 = "10.0.20348.4000"
	on2025 = "10.0.26100.7000"
)

// node returns a node with a version of Windows, and the labels that the kubelet and the operator give it.
func node(name, version string) corev1.Node {
	build, _ := windowsbuild.Parse(version)
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelOSStable: "windows", corev1.LabelArchStable: "amd64", corev1.LabelHostname: name, corev1.LabelWindowsBuild: build.Label(), api.LabelBYOH: "true",
	}}}
	for _, r := range windowsbuild.Releases() {
		if windowsbuild.Runs(build, r.Build) {
			n.Labels[api.LabelRunsPrefix+r.Class] = "true"
		}
	}
	n.Status.NodeInfo.KernelVersion = version
	return n
}

// class returns a RuntimeClass of the operator that selects nodes by a label.
func class(name, key, value string) *nodev1.RuntimeClass {
	c := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelManagedBy: api.ManagedBy}}}
	c.Scheduling = &nodev1.Scheduling{NodeSelector: map[string]string{corev1.LabelOSStable: "windows", key: value}}
	c.Scheduling.Tolerations = []corev1.Toleration{{Key: api.TaintKey, Operator: corev1.TolerationOpExists}}
	return c
}

// template returns the spec of a pod for Windows.
func template(images ...string) corev1.PodSpec {
	spec := corev1.PodSpec{OS: &corev1.PodOS{Name: corev1.Windows}}
	for _, image := range images {
		spec.Containers = append(spec.Containers, corev1.Container{Name: image, Image: image})
	}
	return spec
}

// object returns an object whose UID is its name.
func object(kind, name string, spec corev1.PodSpec) generations.Object {
	return generations.Object{Kind: kind, Namespace: "shop", Name: name, UID: types.UID(name), Template: spec}
}

// podOf returns a pod on a node, with running containers.
func podOf(owner generations.Object, name, on string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}, Spec: owner.Template}
	if owner.Kind != "" {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: owner.Kind, Name: owner.Name, UID: owner.UID, Controller: new(true)}}
	}
	p.Spec.NodeName = on
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	}
	return p
}

func cluster() generations.Cluster {
	return generations.Cluster{
		Nodes: []corev1.Node{node("old-1", on2019), node("old-2", on2019), node("mid-1", on2022), node("mid-2", on2022)},
		Classes: map[string]*nodev1.RuntimeClass{
			"windows2019": class("windows2019", corev1.LabelWindowsBuild, "10.0.17763"),
			"windows2022": class("windows2022", corev1.LabelWindowsBuild, "10.0.20348"),
			"newer":       class("newer", api.LabelRunsPrefix+"windows2022", "true"),
		},
	}
}

// images returns readings of images whose tags are 2019, 2022, both, linux, any and unread.
func images() generations.Readings {
	readings := generations.Readings{}
	for tag, image := range map[string]windowsbuild.Image{
		"2019": {Builds: []windowsbuild.Build{windowsbuild.Server2019}}, "2022": {Builds: []windowsbuild.Build{windowsbuild.Server2022}},
		"both": {Builds: []windowsbuild.Build{windowsbuild.Server2019, windowsbuild.Server2022}}, "linux": {}, "any": {Any: true},
		"2019@sha256:x": {Builds: []windowsbuild.Build{windowsbuild.Server2019}},
	} {
		readings[generations.ImageKey{Image: "r.test/a:" + tag}] = generations.Reading{Image: image}
	}
	readings[generations.ImageKey{Image: "r.test/a:unread"}] = generations.Reading{Unread: "status 401", Remedy: "Log in."}
	return readings
}

func assess(c generations.Cluster, to windowsbuild.Build) generations.Report {
	return generations.Assess(c, to, generations.Workloads(c), images(), nil)
}

// requires adds a required node affinity with one term.
func requires(spec *corev1.PodSpec, key string, operator corev1.NodeSelectorOperator, values ...string) {
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}},
	}}}
}

func TestWorkloadMovesIfHostsRunImagesAndMatchSelectors(t *testing.T) {
	hostProcess := &corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: new(true)}}
	for name, test := range map[string]struct {
		image  string
		change func(*corev1.PodSpec)
		state  generations.State
		pins   []generations.Pin
		next   string // a part of the steps; empty for none
	}{
		"an image that newer hosts run":  {"2022", nil, generations.Movable, nil, ""},
		"an index with both builds":      {"both", nil, generations.Movable, nil, ""},
		"an image without a build":       {"any", nil, generations.Movable, nil, ""},
		"an image of 2019":               {"2019", nil, generations.ImageMissing, nil, "Build image r.test/a:2019 also from a base image with tag ltsc2022 or ltsc2025"},
		"an image for Linux":             {"linux", nil, generations.ImageMissing, nil, "Replace image r.test/a:linux"},
		"an image that was not read":     {"unread", nil, generations.Undetermined, nil, "status 401. Log in."},
		"an image that was not queried":  {"new", nil, generations.Undetermined, nil, "its registry was not queried"},
		"a HostProcess pod":              {"2019", func(s *corev1.PodSpec) { s.SecurityContext = hostProcess }, generations.Movable, nil, ""},
		"a HostProcess pod that is not":  {"linux", func(s *corev1.PodSpec) { s.SecurityContext = hostProcess }, generations.ImageMissing, nil, "Replace image"},
		"the digest of one entry":        {"2019@sha256:x", nil, generations.ImageMissing, []generations.Pin{{By: generations.PinDigest, Value: "r.test/a:2019@sha256:x"}}, "by the digest of an index"},
		"a class with a build":           {"2022", func(s *corev1.PodSpec) { s.RuntimeClassName = new("windows2022") }, generations.Pinned, []generations.Pin{{By: generations.PinRuntimeClass, Value: "windows2022"}}, "Change RuntimeClass windows2022 to windows2025; or set spec.runtimeClasses.newerHosts"},
		"a class whose images do not go": {"both", func(s *corev1.PodSpec) { s.RuntimeClassName = new("windows2019") }, generations.Pinned, []generations.Pin{{By: generations.PinRuntimeClass, Value: "windows2019"}}, "Change RuntimeClass windows2019 to windows2025."},
		"a class with newer hosts":       {"2022", func(s *corev1.PodSpec) { s.RuntimeClassName = new("newer") }, generations.Movable, nil, ""},
		"a class that is not there yet":  {"2022", func(s *corev1.PodSpec) { s.RuntimeClassName = new("windows2025") }, generations.Movable, nil, ""},
		"a class that does not exist":    {"2022", func(s *corev1.PodSpec) { s.RuntimeClassName = new("x") }, generations.Undetermined, nil, "RuntimeClass x does not exist"},
		"a class and no image":           {"2019", func(s *corev1.PodSpec) { s.RuntimeClassName = new("windows2019") }, generations.ImageMissing, []generations.Pin{{By: generations.PinRuntimeClass, Value: "windows2019"}}, "Change RuntimeClass windows2019"},
		"a build selected":               {"2022", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{corev1.LabelWindowsBuild: "10.0.20348"} }, generations.Pinned, []generations.Pin{{By: generations.PinNodeSelector, Value: corev1.LabelWindowsBuild + "=10.0.20348"}}, "Replace node selector"},
		"the target selected":            {"2022", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{corev1.LabelWindowsBuild: "10.0.26100"} }, generations.Movable, nil, ""},
		"a host selected":                {"2022", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{corev1.LabelHostname: "mid-1"} }, generations.Pinned, []generations.Pin{{By: generations.PinNodeSelector, Value: corev1.LabelHostname + "=mid-1"}}, "give the new host this name"},
		"a label of an old host":         {"2022", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{api.LabelBYOH: "true"} }, generations.Movable, nil, "Give new hosts the labels that the pods select: " + api.LabelBYOH + "=true"},
		"a label of no host":             {"2022", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"pool": "a"} }, generations.Pinned, []generations.Pin{{By: generations.PinNodeSelector, Value: "pool=a"}}, "Replace node selector pool=a"},
		"an affinity for builds": {"2022", func(s *corev1.PodSpec) {
			requires(s, corev1.LabelWindowsBuild, corev1.NodeSelectorOpIn, "10.0.17763", "10.0.20348")
		}, generations.Pinned, []generations.Pin{{By: generations.PinAffinity, Value: corev1.LabelWindowsBuild + " In 10.0.17763,10.0.20348"}}, "Change the required node affinity"},
		"an affinity against a build": {"2022", func(s *corev1.PodSpec) {
			requires(s, corev1.LabelWindowsBuild, corev1.NodeSelectorOpNotIn, "10.0.17763")
		}, generations.Movable, nil, ""},
		"an affinity for labels": {"2022", func(s *corev1.PodSpec) { requires(s, api.LabelBYOH, corev1.NodeSelectorOpExists) }, generations.Movable, nil, "labels that match"},
		"a node named":           {"2022", func(s *corev1.PodSpec) { s.NodeName = "mid-1" }, generations.Pinned, []generations.Pin{{By: generations.PinNodeName, Value: "mid-1"}}, "Remove nodeName mid-1"},
		"too many requirements":  {"2022", func(s *corev1.PodSpec) { requires(s, "a", corev1.NodeSelectorOpIn, make([]string, 2000)...) }, generations.Undetermined, nil, "too large to analyze"},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster()
			spec := template("r.test/a:" + test.image)
			if test.change != nil {
				test.change(&spec)
			}
			c.Objects = []generations.Object{object("Deployment", "web", spec)}
			got := assess(c, windowsbuild.Server2025).Workloads
			if len(got) != 1 {
				t.Fatalf("%d workloads are assessed", len(got))
			}
			next := strings.Join(got[0].Next, " ")
			if got[0].State != test.state || !slices.Equal(got[0].Pins, test.pins) || !strings.Contains(next, test.next) || test.next == "" && next != "" {
				t.Errorf("state %s, pins %q, steps %q; want %s, %q, ...%s...", got[0].State, got[0].Pins, next, test.state, test.pins, test.next)
			}
		})
	}
}

func TestUnreadClassesAreKnownByTheirUsualNames(t *testing.T) {
	for name, want := range map[string]generations.State{"windows2022": generations.Pinned, "windows2022-hyperv": generations.Pinned, "windows2025": generations.Movable, "tenants": generations.Undetermined} {
		c := cluster()
		c.Classes = nil
		spec := template("r.test/a:2022")
		spec.RuntimeClassName = &name
		c.Objects = []generations.Object{object("Deployment", "web", spec)}
		if got := assess(c, windowsbuild.Server2025).Workloads[0]; got.State != want {
			t.Errorf("with class %s, the state is %s, want %s", name, got.State, want)
		}
	}
}

// TestAssignedClassPins expects the class that an admission policy gives pods to count as if the template named it.
func TestAssignedClassPins(t *testing.T) {
	c := cluster()
	owner := object("Deployment", "web", template("r.test/a:2022"))
	p := podOf(owner, "web-1", "mid-1")
	p.Spec.RuntimeClassName = new("windows2022")
	c.Objects, c.Pods = []generations.Object{owner}, []corev1.Pod{p}
	got := assess(c, windowsbuild.Server2025).Workloads[0]
	if got.State != generations.Pinned || !strings.Contains(got.Next[0], "Set RuntimeClass windows2025: pods get windows2022 when they are created") {
		t.Errorf("state %s, steps %q", got.State, got.Next)
	}
}

// TestExistingHostsMustTakePods expects a hint if nodes with the target build exist and none takes the pods.
func TestExistingHostsMustTakePods(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Node)
		want   string
	}{
		"nothing": {func(*corev1.Node) {}, ""},
		"cordoned": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
		}, ""},
		"a taint": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "canary", Effect: corev1.TaintEffectNoSchedule}}
		}, "have taint canary:NoSchedule"},
		"a soft one": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "canary", Effect: corev1.TaintEffectPreferNoSchedule}}
		}, ""},
		"not labeled": {func(n *corev1.Node) { delete(n.Labels, api.LabelBYOH) }, "Give new hosts the labels that the pods select: " + api.LabelBYOH + "=true"},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster()
			n := node("new-1", on2025)
			test.change(&n)
			c.Nodes = append(c.Nodes, n)
			spec := template("r.test/a:2022")
			spec.NodeSelector = map[string]string{api.LabelBYOH: "true"}
			c.Objects = []generations.Object{object("Deployment", "web", spec)}
			got := assess(c, windowsbuild.Server2025).Workloads[0]
			if next := strings.Join(got.Next, " "); got.State != generations.Movable || !strings.Contains(next, test.want) || test.want == "" && next != "" {
				t.Errorf("state %s, steps %q", got.State, next)
			}
		})
	}
}

// TestNewHostsNeedRevisionsWithoutKnownFaults expects what support.md lists for the target.
func TestNewHostsNeedRevisionsWithoutKnownFaults(t *testing.T) {
	got := strings.Join(assess(cluster(), windowsbuild.Server2025).Requirements, "\n")
	if !strings.Contains(got, "revision 6899 or later (KB5066835)") || strings.Contains(got, "KB5012637") {
		t.Errorf("the requirements are %q", got)
	}
}
