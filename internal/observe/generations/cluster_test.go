package generations_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/internal/observe/generations"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

func TestRunningPodsProveBuildsWithoutRegistry(t *testing.T) {
	for name, test := range map[string]struct {
		on     string
		change func(c *generations.Cluster)
		want   map[string]generations.Verdict // by target
	}{
		"on 2019":     {"old-1", nil, map[string]generations.Verdict{"10.0.17763": generations.Runs, "10.0.20348": generations.Unknown, "10.0.26100": generations.Unknown}},
		"on 2022":     {"mid-1", nil, map[string]generations.Verdict{"10.0.17763": generations.Unknown, "10.0.20348": generations.Runs, "10.0.26100": generations.Runs}},
		"not started": {"mid-1", func(c *generations.Cluster) { c.Pods[0].Status.ContainerStatuses = nil }, map[string]generations.Verdict{"10.0.20348": generations.Unknown}},
		"ended and restarts": {"mid-1", func(c *generations.Cluster) {
			c.Pods[0].Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "r.test/a:unread", LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}
		}, map[string]generations.Verdict{"10.0.20348": generations.Runs}},
		"pulled by a node": {"old-1", func(c *generations.Cluster) {
			c.Nodes[2].Status.Images = []corev1.ContainerImage{{Names: []string{"r.test/a@sha256:x", "r.test/a:unread"}}}
		}, map[string]generations.Verdict{"10.0.17763": generations.Runs, "10.0.20348": generations.Runs, "10.0.26100": generations.Runs}},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster()
			owner := object("Deployment", "web", template("r.test/a:unread"))
			c.Objects, c.Pods = []generations.Object{owner}, []corev1.Pod{podOf(owner, "web-1", test.on)}
			if test.change != nil {
				test.change(&c)
			}
			got := assess(c, windowsbuild.Server2025).Workloads[0]
			for build, want := range test.want {
				if got.Images[0].Builds[build] != want || want == generations.Runs && got.Images[0].Proof == "" {
					t.Errorf("%s: %s, proven by %q; want %s", build, got.Images[0].Builds[build], got.Images[0].Proof, want)
				}
			}
		})
	}
}

// TestRegistryDecidesOverRunningPods expects that a build that the registry no longer lists has no entry, although a pod still runs on it.
func TestRegistryDecidesOverRunningPods(t *testing.T) {
	c := cluster()
	owner := object("Deployment", "web", template("r.test/a:2019"))
	c.Objects, c.Pods = []generations.Object{owner}, []corev1.Pod{podOf(owner, "web-1", "mid-1")}
	if got := assess(c, windowsbuild.Server2025).Workloads[0].Builds["10.0.20348"]; got != generations.NoEntry {
		t.Errorf("the verdict is %s", got)
	}
}

// TestShortImageNameMatchesFullName expects a short name to match the full name that a node reports.
func TestShortImageNameMatchesFullName(t *testing.T) {
	for image, listed := range map[string]string{
		"a": "docker.io/library/a:latest", "a:1": "docker.io/library/a:1", "team/a:1": "docker.io/team/a:1", "localhost/a": "localhost/a:latest", "r.test:5000/a": "r.test:5000/a:latest",
		"r.test/a:1@sha256:x": "r.test/a@sha256:x",
	} {
		c := cluster()
		c.Nodes[2].Status.Images = []corev1.ContainerImage{{Names: []string{listed}}}
		c.Objects = []generations.Object{object("Deployment", "web", template(image))}
		if got := assess(c, windowsbuild.Server2025).Workloads[0]; got.State != generations.Movable {
			t.Errorf("a node lists %s, and the state with %s is %s", listed, image, got.State)
		}
	}
}

func TestHostsThatNothingKeepsComeFirst(t *testing.T) {
	c := cluster()
	pinned := object("Deployment", "pinned", template("r.test/a:both"))
	pinned.Template.RuntimeClassName = new("windows2019")
	single := object("StatefulSet", "single", template("r.test/a:2022"))
	single.Template.NodeSelector = map[string]string{corev1.LabelHostname: "mid-2"}
	movable := object("Deployment", "movable", template("r.test/a:2022"))
	agent := object("DaemonSet", "agent", template("r.test/a:2019"))
	bare := object("", "", template("r.test/a:2022"))
	c.Objects = []generations.Object{pinned, single, movable, agent}
	c.Pods = []corev1.Pod{
		podOf(pinned, "pinned-1", "old-1"), podOf(single, "single-1", "mid-2"), podOf(movable, "movable-1", "mid-1"), podOf(agent, "agent-1", "old-2"), podOf(bare, "bare", "old-1"),
	}
	c.Nodes = append(c.Nodes, node("new-1", on2025), node("odd", "x"))
	report := assess(c, windowsbuild.Server2025)
	var got []string
	for _, h := range report.Hosts {
		line := fmt.Sprintf("%s %s %d", h.Turn, h.Name, h.Pods)
		for _, b := range h.KeptBy {
			line += fmt.Sprintf(", %s %s %d", b.Workload, b.State, b.Others)
		}
		got = append(got, line)
	}
	want := []string{"First old-2 0", "First mid-1 1", "Last mid-2 1, StatefulSet shop/single Pinned 0", "Last old-1 2, Deployment shop/pinned Pinned 0, Pod shop/bare Pinned 0"}
	if !slices.Equal(got, want) {
		t.Errorf("the hosts are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !slices.Equal(report.UnknownBuilds, []string{"odd"}) {
		t.Errorf("the nodes without a version are %q", report.UnknownBuilds)
	}
}

// TestPodsAlwaysHaveNodeWhileHostsAreReplaced replaces hosts in their order, and expects a node for pods that only run on the old build.
func TestPodsAlwaysHaveNodeWhileHostsAreReplaced(t *testing.T) {
	for name, test := range map[string]struct {
		pods, cordoned string // nodes of pods that only 2019 runs, and cordoned nodes
		want           string
	}{
		"pods on one host":        {"a", "", "First b, First c, Last a 0"},
		"pods on two hosts":       {"a b", "", "First c, Later a 1, Last b 0"},
		"pods on all hosts":       {"a b c", "", "Later a 2, Later b 1, Last c 0"},
		"others are cordoned":     {"a b", "b c", "First c, Later b 1, Last a 0"},
		"it is cordoned":          {"a b", "a", "First c, Later a 1, Last b 0"},
		"pods on none":            {"", "", "First a, First b, First c"},
		"pods without a node yet": {"none", "", "First a, First b, First c"},
	} {
		t.Run(name, func(t *testing.T) {
			c := generations.Cluster{Nodes: []corev1.Node{node("a", on2019), node("b", on2019), node("c", on2019), node("new", on2025)}}
			for i := range c.Nodes {
				c.Nodes[i].Spec.Unschedulable = strings.Contains(test.cordoned, c.Nodes[i].Name)
			}
			owner := object("Deployment", "web", template("r.test/a:2019"))
			c.Objects = []generations.Object{owner}
			for _, on := range strings.Fields(test.pods) {
				c.Pods = append(c.Pods, podOf(owner, "pod-"+on, strings.TrimPrefix(on, "none")))
			}
			var got []string
			for _, h := range assess(c, windowsbuild.Server2025).Hosts {
				line := string(h.Turn) + " " + h.Name
				for _, b := range h.KeptBy {
					line += fmt.Sprintf(" %d", b.Others)
				}
				got = append(got, line)
				if h.Revision != 8000 || !h.Own {
					t.Errorf("host %+v", h)
				}
			}
			if strings.Join(got, ", ") != test.want {
				t.Errorf("the order is %q, want %s", got, test.want)
			}
		})
	}
}

// TestDisplacedPodsKeepTheirLastNode expects a host that has none of the pods now to be Last, if they move to it from a host before it.
func TestDisplacedPodsKeepTheirLastNode(t *testing.T) {
	c := generations.Cluster{Nodes: []corev1.Node{node("a", on2019), node("b", on2019)}}
	one, two := object("Deployment", "one", template("r.test/a:2019")), object("Deployment", "two", template("r.test/a:2019"))
	c.Objects = []generations.Object{one, two}
	c.Pods = []corev1.Pod{podOf(one, "one-1", "a"), podOf(two, "two-1", "b"), podOf(two, "two-2", "b")}
	hosts := assess(c, windowsbuild.Server2025).Hosts
	if hosts[0].Name != "a" || hosts[0].Turn != generations.Later || hosts[1].Turn != generations.Last {
		t.Errorf("the hosts are %+v", hosts)
	}
}

func TestOwnersAreResolvedToTheTop(t *testing.T) {
	labels := metav1.ObjectMeta{Namespace: "shop"}
	meta := func(name, kind, owner string) metav1.ObjectMeta {
		m := *labels.DeepCopy()
		m.Name, m.UID = name, types.UID(name)
		if owner != "" {
			m.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: owner, UID: types.UID(owner), Controller: new(true)}}
		}
		return m
	}
	of := func(image string) corev1.PodTemplateSpec { return corev1.PodTemplateSpec{Spec: template(image)} }
	var job batchv1.Job
	job.ObjectMeta, job.Spec.Template = meta("nightly-1", "CronJob", "nightly"), of("r.test/a:2022")
	var done batchv1.Job
	done.ObjectMeta, done.Spec.Template = meta("done", "", ""), of("r.test/a:2022")
	done.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	var cron batchv1.CronJob
	cron.ObjectMeta, cron.Spec.JobTemplate.Spec.Template = meta("nightly", "", ""), of("r.test/a:2022")
	set := func(name, kind, owner string, replicas int32) appsv1.ReplicaSet {
		return appsv1.ReplicaSet{ObjectMeta: meta(name, kind, owner), Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Template: of("r.test/a:2022")}}
	}
	linux := appsv1.Deployment{ObjectMeta: meta("linux", "", ""), Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "a"}}}}}}
	c := cluster()
	c.Objects = slices.Concat(
		generations.Objects(&appsv1.DeploymentList{Items: []appsv1.Deployment{{ObjectMeta: meta("web", "", ""), Spec: appsv1.DeploymentSpec{Template: of("r.test/a:2022")}}, linux}}),
		generations.Objects(&appsv1.ReplicaSetList{Items: []appsv1.ReplicaSet{
			set("web-1", "Deployment", "web", 1), set("web-0", "Deployment", "web", 0), set("roll-2", "Rollout", "roll", 1), set("roll-1", "Rollout", "roll", 0), set("alone", "", "", 0),
		}}),
		generations.Objects(&appsv1.StatefulSetList{Items: []appsv1.StatefulSet{{ObjectMeta: meta("db", "", ""), Spec: appsv1.StatefulSetSpec{Template: of("r.test/a:2022")}}}}),
		generations.Objects(&appsv1.DaemonSetList{Items: []appsv1.DaemonSet{{ObjectMeta: meta("agent", "", ""), Spec: appsv1.DaemonSetSpec{Template: of("r.test/a:2022")}}}}),
		generations.Objects(&batchv1.JobList{Items: []batchv1.Job{job, done}}),
		generations.Objects(&batchv1.CronJobList{Items: []batchv1.CronJob{cron}}),
		// Owner references are their users' text: these form a cycle.
		[]generations.Object{cycle("x", "y"), cycle("y", "z"), cycle("z", "x"), cycle("x-0", "x")},
	)
	pod := func(name, kind, owner, on string) corev1.Pod {
		p := corev1.Pod{ObjectMeta: meta(name, kind, owner), Spec: template("r.test/a:2022")}
		p.Spec.NodeName = on
		return p
	}
	foreign := pod("elsewhere", "Deployment", "web", "mid-1") // names the UID of an object of another namespace
	foreign.Namespace = "tenant"
	c.Pods = []corev1.Pod{
		foreign,
		pod("web-1-a", "ReplicaSet", "web-1", "mid-1"), pod("nightly-1-a", "Job", "nightly-1", "mid-1"), pod("game", "GameServer", "fleet", "mid-1"), pod("bare", "", "", ""),
		pod("linux-1", "Deployment", "linux", "mid-1"),
	}
	var got []string
	for _, w := range generations.Workloads(c) {
		got = append(got, fmt.Sprintf("%s %s %d %s", w.Kind, w.Name, len(w.Pods), w.ManagedBy))
	}
	want := []string{
		"CronJob nightly 1 ", "DaemonSet agent 0 ", "Deployment linux 1 ", "Deployment web 1 ", "GameServer fleet 1 ", "Pod bare 1 ", "ReplicaSet alone 0 ", "ReplicaSet roll-2 0 Rollout roll",
		"ReplicaSet x 0 ReplicaSet y", "ReplicaSet y 0 ReplicaSet z", "ReplicaSet z 0 ReplicaSet x", "StatefulSet db 0 ", "Deployment web 1 ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the workloads are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func cycle(name, owner string) generations.Object {
	o := object("ReplicaSet", name, template("r.test/a:2022"))
	o.Controller = &metav1.OwnerReference{Kind: "ReplicaSet", Name: owner, UID: types.UID(owner)}
	return o
}

func TestEndedAndStaticPodsDoNotMatter(t *testing.T) {
	isWindows := func(node string) bool { return node == "win" }
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"running":  {func(p *corev1.Pod) {}, true},
		"waiting":  {func(p *corev1.Pod) { p.Spec.NodeName = "" }, true},
		"on Linux": {func(p *corev1.Pod) { p.Spec.NodeName = "linux" }, false},
		"ended":    {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, false},
		"failed":   {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, false},
		"static":   {func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }, false},
	} {
		p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "win"}}
		test.change(p)
		if got := generations.Relevant(p, isWindows); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestBuildsHaveEndsOfSupport expects the builds of nodes, oldest first, with their names and dates.
func TestBuildsHaveEndsOfSupport(t *testing.T) {
	c := cluster()
	c.Nodes = append(c.Nodes, node("annual", "10.0.25398.1"))
	report := generations.Assess(c, windowsbuild.Server2022, nil, nil, map[windowsbuild.Build]time.Time{windowsbuild.Server2019: time.Date(2029, time.January, 9, 0, 0, 0, 0, time.UTC)})
	var got []string
	for _, g := range report.Builds {
		got = append(got, fmt.Sprintf("%s %s %s %d", g.Short(), g.Name, g.SupportedUntil, g.Nodes))
	}
	if want := []string{"2019 Windows Server 2019 2029-01-09 2", "2022 Windows Server 2022  2", "10.0.25398   1"}; !slices.Equal(got, want) || report.Target.Nodes != 2 || len(report.Hosts) != 2 {
		t.Errorf("the builds are %q, the target %+v, and %d hosts are older", got, report.Target, len(report.Hosts))
	}
}

// FuzzAssess assesses pods with selectors, images and owners of any text.
func FuzzAssess(f *testing.F) {
	f.Add("r.test/a:2022@sha256:x", "node.kubernetes.io/windows-build", "10.0.20348", "In", "windows2022", "ReplicaSet")
	f.Add("a", "kubernetes.io/hostname", "old-1", "Gt", "x", "")
	f.Fuzz(func(t *testing.T, image, key, value, operator, class, owner string) {
		c := cluster()
		spec := template(image, "r.test/a:2022")
		spec.NodeSelector = map[string]string{key: value}
		requires(&spec, key, corev1.NodeSelectorOperator(operator), value)
		spec.RuntimeClassName = &class
		o := object("Deployment", "web", spec)
		o.Controller = &metav1.OwnerReference{Kind: owner, Name: value, UID: "web"}
		c.Objects = []generations.Object{o}
		c.Pods = []corev1.Pod{podOf(generations.Object{Kind: owner, Name: key, UID: types.UID(owner), Template: spec}, "p", "mid-1")}
		report := assess(c, windowsbuild.Server2025)
		for _, w := range report.Workloads {
			isReady := len(w.Pins) == 0 && w.Builds["10.0.26100"] == generations.Runs
			if w.State == generations.Movable && !isReady || w.State != generations.Movable && len(w.Next) == 0 {
				t.Errorf("%+v", w)
			}
		}
		if len(report.Hosts) != len(c.Nodes) {
			t.Errorf("%d hosts of %d", len(report.Hosts), len(c.Nodes))
		}
	})
}
