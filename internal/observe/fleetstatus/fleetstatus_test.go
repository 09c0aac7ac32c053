package fleetstatus_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/observe/advice"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

var update = flag.Bool("update", false, "write the golden files")

func now() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now().Add(-d)) }

// instance returns an instance with condition Ready and others.
func instance(name, reason, message string, others ...metav1.Condition) v1alpha1.WindowsInstance {
	status := metav1.ConditionFalse
	if reason == api.ReasonReady {
		status = metav1.ConditionTrue
	}
	i := v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: api.DefaultNamespace, CreationTimestamp: ago(24 * time.Hour)}}
	i.Spec.Address, i.Spec.Username = "10.1.42."+name[len(name)-1:], "Administrator"
	i.Status.Hostname = name
	if reason == "" {
		return i
	}
	i.Status.Conditions = append(others, metav1.Condition{Type: api.ConditionReady, Status: status, Reason: reason, Message: message, LastTransitionTime: ago(time.Hour)})
	if status == metav1.ConditionTrue {
		i.Status.NodeRef = &v1alpha1.NodeReference{Name: name}
		i.Status.Conditions = append(i.Status.Conditions, condition(api.ConditionConfigured, "True", api.ReasonConfigured, ""))
	}
	return i
}

func condition(kind, status, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, LastTransitionTime: ago(30 * time.Minute)}
}

func node(name string, conditions ...corev1.NodeCondition) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{api.AnnotationVersion: "1.0.0-3f9a2c1"}}}
	n.Status.Conditions = append(conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: "True", Reason: "KubeletReady"})
	n.Status.NodeInfo.KubeletVersion, n.Spec.PodCIDRs = "v1.36.3", []string{"10.244.1.0/24"}
	return n
}

func nodeCondition(kind, status, reason, message string) corev1.NodeCondition {
	return corev1.NodeCondition{
		Type: corev1.NodeConditionType(kind), Status: corev1.ConditionStatus(status), Reason: reason, Message: message, LastTransitionTime: ago(10 * time.Minute),
	}
}

func operator(ready int32) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: fleetstatus.DeploymentName, Namespace: api.DefaultNamespace}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Image: "registry.example.com:5000/wmco:v1.0.0"}}
	d.Status.ReadyReplicas = ready
	return d
}

// TestCausesOfFailures expects the cause, its object and the remedy for each kind of failure, as the objects report it.
func TestCausesOfFailures(t *testing.T) {
	failed := instance("win-1", api.ReasonReady, "")
	failed.Status.Failure = &v1alpha1.Failure{Action: v1alpha1.ActionUpgrade, Version: "1.1.0-122778d", Step: v1alpha1.MaintenanceVerify, At: ago(time.Minute), Message: "the kubelet stopped"}
	failed.Status.Plan = &v1alpha1.Plan{Action: v1alpha1.ActionUpgrade, WaitsFor: api.ReasonFailed, Message: "it failed"}
	drained := instance("win-1", api.ReasonDrainBlocked, "PodDisruptionBudget shop/web allows no disruption", condition(api.ConditionDraining, "True", api.ReasonDrainBlocked, ""))
	drained.Status.Maintenance = &v1alpha1.Maintenance{Action: v1alpha1.ActionReboot, Step: v1alpha1.MaintenanceDrain, StartedAt: ago(time.Hour), StepStartedAt: ago(time.Hour)}
	drained.Status.NodeRef = &v1alpha1.NodeReference{Name: "win-1"}
	ready := instance("win-1", api.ReasonReady, "")
	silent := node("win-1")
	silent.Status.Conditions = []corev1.NodeCondition{nodeCondition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."),
		nodeCondition("MemoryPressure", "Unknown", "NodeStatusUnknown", "")}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}, Spec: corev1.PodSpec{NodeName: "win-1"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Image: "example.com/web:ltsc2019", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: "ErrImagePull", Message: "failed to pull from http://user:hunter2@r.test: no match for platform in manifest: not found"}}}}
	notReady := instance("win-1", api.ReasonNodeNotReady, "the node is not Ready", condition(api.ConditionConfigured, "True", api.ReasonConfigured, ""))
	notReady.Status.NodeRef = &v1alpha1.NodeReference{Name: "win-1"}
	for name, test := range map[string]struct {
		instance v1alpha1.WindowsInstance
		nodes    []corev1.Node
		pods     []corev1.Pod
		state    fleetstatus.State
		reason   string // of the first problem
		remedy   string // a part of its remedy
	}{
		"wrong key": {instance: instance("win-1", api.ReasonAuthenticationFailed, "add the line ...", condition(api.ConditionReachable, "False", api.ReasonAuthenticationFailed, "")),
			state: fleetstatus.Failed, reason: api.ReasonAuthenticationFailed, remedy: "administrators_authorized_keys"},
		"changed host key": {instance: instance("win-1", api.ReasonHostKeyChanged, ""), state: fleetstatus.Failed, reason: api.ReasonHostKeyChanged, remedy: "spec.hostKey"},
		"budget":           {instance: drained, nodes: []corev1.Node{node("win-1")}, state: fleetstatus.Maintenance, reason: api.ReasonDrainBlocked, remedy: "PodDisruptionBudget"},
		"old build":        {instance: instance("win-1", api.ReasonBuildUnsupported, ""), state: fleetstatus.Failed, reason: api.ReasonBuildUnsupported, remedy: "17763"},
		"disk full on join": {instance: instance("win-1", api.ReasonDiskTooSmall, "1.2 GB are free"),
			state: fleetstatus.Failed, reason: api.ReasonDiskTooSmall, remedy: "Free disk space"},
		"disk full": {instance: ready, nodes: []corev1.Node{node("win-1", nodeCondition("DiskPressure", "True", "KubeletHasDiskPressure", ""))},
			state: fleetstatus.Degraded, reason: "KubeletHasDiskPressure", remedy: "Free disk space"},
		"HCS hangs": {instance: ready, nodes: []corev1.Node{node("win-1", nodeCondition(api.ConditionHostComputeUnavailable, "True", api.ReasonHCSUnavailable, ""))},
			state: fleetstatus.Degraded, reason: api.ReasonHCSUnavailable, remedy: "start the service vmcompute"},
		"no memory to commit": {instance: ready, nodes: []corev1.Node{node("win-1", nodeCondition(api.ConditionCommitPressure, "True", api.ReasonCommitLimitNear, ""))},
			state: fleetstatus.Degraded, reason: api.ReasonCommitLimitNear, remedy: "memory limits"},
		"clock is off": {instance: ready, nodes: []corev1.Node{node("win-1", nodeCondition(api.ConditionClockSkewed, "True", api.ReasonClockOutOfSync, ""))},
			state: fleetstatus.Degraded, reason: api.ReasonClockOutOfSync, remedy: "w32tm"},
		"Defender interferes": {instance: ready, nodes: []corev1.Node{node("win-1", nodeCondition(api.ConditionDefenderInterference, "True", api.ReasonDefenderExclusionsMissing, ""))},
			state: fleetstatus.Degraded, reason: api.ReasonDefenderExclusionsMissing, remedy: "policy of Microsoft Defender"},
		"HNS stopped": {instance: ready, nodes: []corev1.Node{node("win-1", nodeCondition(api.ConditionWindowsNetworkUnavailable, "True", api.ReasonHNSUnavailable, ""))},
			state: fleetstatus.Degraded, reason: api.ReasonHNSUnavailable, remedy: "start the service hns"},
		"kubelet crashes": {instance: notReady, nodes: []corev1.Node{node("win-1", nodeCondition(api.ConditionServicesHealthy, "False", api.ReasonServiceCrashLoop, "kubelet crashes"))},
			state: fleetstatus.Failed, reason: api.ReasonServiceCrashLoop, remedy: "service's log"},
		"canary failed": {instance: failed, nodes: []corev1.Node{node("win-1")}, state: fleetstatus.Degraded, reason: api.ReasonFailed, remedy: "retry"},
		"host is off":   {instance: ready, nodes: []corev1.Node{silent}, state: fleetstatus.Failed, reason: "NodeStatusUnknown", remedy: "whether the host is on"},
		"cloud": {instance: instance("win-1", api.ReasonCloudNotInitialized, ""),
			state: fleetstatus.Failed, reason: api.ReasonCloudNotInitialized, remedy: "cloud-controller-manager"},
		"mirror down": {instance: instance("win-1", api.ReasonSandboxImagePullFailed, "connection refused", condition(api.ConditionSandboxImage, "False", api.ReasonSandboxImagePullFailed, "")),
			state: fleetstatus.Failed, reason: api.ReasonSandboxImagePullFailed, remedy: "mirror"},
		"image of another build": {instance: ready, nodes: []corev1.Node{node("win-1")}, pods: []corev1.Pod{pod},
			state: fleetstatus.Ready, reason: api.EventImageForAnotherBuild, remedy: "ltsc2022"},
		"not reported": {instance: instance("win-1", "", ""), state: fleetstatus.Pending},
		"joining":      {instance: instance("win-1", api.ReasonJoining, ""), state: fleetstatus.Joining},
		"paused":       {instance: instance("win-1", api.ReasonPaused, ""), state: fleetstatus.Waiting},
		"ready":        {instance: ready, nodes: []corev1.Node{node("win-1")}, state: fleetstatus.Ready},
	} {
		t.Run(name, func(t *testing.T) {
			f := fleetstatus.Of(fleetstatus.Input{
				Now: now(), Namespace: api.DefaultNamespace, Operator: operator(1), Instances: []v1alpha1.WindowsInstance{test.instance}, Nodes: test.nodes, Pods: test.pods,
			})
			h := f.Hosts[0]
			if h.State != test.state {
				t.Errorf("the state is %s (%s: %s), want %s", h.State, h.Reason, h.Message, test.state)
			}
			if test.reason == "" {
				if len(f.Problems) > 0 {
					t.Errorf("unexpected problems: %+v", f.Problems)
				}
				return
			}
			if len(f.Problems) == 0 || f.Problems[0].Reason != test.reason || !strings.Contains(f.Problems[0].Remedy, test.remedy) || f.Problems[0].Docs == "" {
				t.Errorf("the problems are %+v, want %s with remedy ...%s...", f.Problems, test.reason, test.remedy)
			}
			if strings.Contains(fmt.Sprint(f), "hunter2") {
				t.Errorf("a password is in the result: %+v", f)
			}
			if len(h.Problems) == 0 || !slices.Equal(f.Problems[0].Hosts, []string{"win-1"}) {
				t.Errorf("the host has no problem: %+v", h)
			}
		})
	}
}

// TestFleetAsJSON compares the whole JSON form of a fleet.
func TestFleetAsJSON(t *testing.T) {
	upgrading := instance("win-2", api.ReasonDraining, "2 pods are leaving", condition(api.ConditionDraining, "True", api.ReasonDraining, "2 pods are leaving"))
	upgrading.Status.NodeRef = &v1alpha1.NodeReference{Name: "win-2"}
	upgrading.Status.Maintenance = &v1alpha1.Maintenance{Action: v1alpha1.ActionUpgrade, Step: v1alpha1.MaintenanceDrain, Disruption: v1alpha1.DisruptionDrain,
		Version: "1.1.0-122778d", StartedAt: ago(10 * time.Minute), StepStartedAt: ago(10 * time.Minute), Message: "2 pods are leaving"}
	waiting := instance("win-3", api.ReasonReady, "")
	waiting.Status.Plan = &v1alpha1.Plan{Action: v1alpha1.ActionUpgrade, Disruption: v1alpha1.DisruptionDrain, WaitsFor: api.ReasonBudget, Message: "1 node is out of service"}
	joining := instance("win-4", api.ReasonJoining, "step Transfer")
	start, end := metav1.NewMicroTime(now().Add(-20*time.Second)), metav1.NewMicroTime(now().Add(-18500*time.Millisecond))
	joining.Status.Steps = []v1alpha1.StepStatus{{Name: "Connect", State: v1alpha1.StepDone, StartedAt: &start, FinishedAt: &end}, {Name: "Transfer", State: v1alpha1.StepRunning, StartedAt: &end}}
	config := &v1alpha1.WindowsConfig{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	config.Status.Rollout = &v1alpha1.RolloutStatus{Version: "1.1.0-122778d", MaxUnavailable: 1, Message: "in progress: 1 Upgrade"}
	config.Status.Conditions = []metav1.Condition{condition(api.ConditionDegraded, "True", api.ReasonSettingsIgnored, "mirror set a: ...")}
	cordoned := node("win-2")
	cordoned.Spec.Unschedulable, cordoned.Annotations[api.AnnotationCordoned] = true, "Upgrade"
	event := corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "ConfigMap", Name: api.InstancesConfigMap}, Type: "Warning", Reason: api.EventInstanceInvalid,
		Message: `entry "10.1.42.": not an address`, LastTimestamp: ago(time.Minute), Count: 3}
	f := fleetstatus.Of(fleetstatus.Input{
		Now: now(), Namespace: api.DefaultNamespace, Operator: operator(1), Config: config, Instances: []v1alpha1.WindowsInstance{joining, upgrading, waiting},
		Nodes: []corev1.Node{cordoned, node("win-3"), node("stranger")}, Events: []corev1.Event{event},
		Unread: []fleetstatus.Unread{{What: "pods", Why: "missing permission: list pods in all namespaces"}},
	})
	got, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "fleet.json", append(got, '\n'))
}

func TestNodesThatCannotApplyPoliciesAreCounted(t *testing.T) {
	reporting := func(name string, status corev1.ConditionStatus) corev1.Node {
		n := node(name)
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: api.ConditionNetworkPoliciesNotApplied, Status: status})
		return n
	}
	nodes := []corev1.Node{
		reporting("win-1", corev1.ConditionFalse), reporting("win-2", corev1.ConditionTrue), reporting("win-3", corev1.ConditionUnknown), node("win-4"),
	}
	for _, test := range []struct {
		network v1alpha1.NetworkSpec
		want    *fleetstatus.Policies
	}{
		{v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkFlannel, Policies: v1alpha1.PoliciesEnforce}, &fleetstatus.Policies{Mode: v1alpha1.PoliciesEnforce, NotApplied: 1}},
		{v1alpha1.NetworkSpec{Policies: v1alpha1.PoliciesReport}, &fleetstatus.Policies{Mode: v1alpha1.PoliciesReport, NotApplied: 1}},
		{v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkFlannel, Policies: v1alpha1.PoliciesOff}, nil},
		{v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkFlannel}, &fleetstatus.Policies{Mode: v1alpha1.PoliciesEnforce, NotApplied: 1}},
		{v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkCustom, Policies: v1alpha1.PoliciesEnforce}, nil},
	} {
		config := &v1alpha1.WindowsConfig{Spec: v1alpha1.WindowsConfigSpec{Network: test.network}}
		f := fleetstatus.Of(fleetstatus.Input{Now: now(), Namespace: api.DefaultNamespace, Config: config, Nodes: nodes})
		if diff := cmp.Diff(test.want, f.Policies); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test.network, diff)
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not as expected (run go test -update); got:\n%s", name, got)
	}
}

// TestHostTextsAreSafe plants terminal control characters into everything that a host writes.
func TestHostTextsAreSafe(t *testing.T) {
	evil := "\x1b[2J\x1b]52;c;ZXZpbA==\a\u202e" + strings.Repeat("x", 100_000)
	i := instance("win-1", evil, evil, condition(api.ConditionReachable, "False", evil, evil))
	i.Status.Hostname, i.Status.OSBuild, i.Status.NodeIP, i.Status.HostKeyFingerprint, i.Spec.Address = evil, evil, evil, evil, evil
	i.Status.NodeRef = &v1alpha1.NodeReference{Name: "win-1"}
	i.Status.Steps = []v1alpha1.StepStatus{{Name: evil, State: v1alpha1.StepState(evil), Message: evil}}
	i.Status.Failure = &v1alpha1.Failure{Action: v1alpha1.PlanAction(evil), Message: evil}
	i.Status.Maintenance = &v1alpha1.Maintenance{Action: v1alpha1.PlanAction(evil), Message: evil}
	i.Status.Plan = &v1alpha1.Plan{Action: v1alpha1.PlanAction(evil), WaitsFor: evil, Message: evil}
	n := node("win-1", nodeCondition(api.ConditionServicesHealthy, "False", evil, evil), nodeCondition(evil, evil, evil, evil))
	n.Annotations = map[string]string{api.AnnotationVersion: evil, api.AnnotationSettings: evil, api.AnnotationCordoned: evil, api.AnnotationDesiredVersion: evil, "k8s.ovn.org/hybrid-overlay-node-subnet": evil,
		api.AnnotationServices: nodestate.FormatServices([]nodestate.Service{{Name: evil[:200], State: api.ServiceWaiting, WaitsFor: evil[:200]}})}
	n.Status.NodeInfo = corev1.NodeSystemInfo{OSImage: evil, KubeletVersion: evil, ContainerRuntimeVersion: evil}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}, Spec: corev1.PodSpec{NodeName: "win-1"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Image: evil, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: evil, Message: evil}}}}
	event := corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "win-1"}, Type: "Warning", Reason: evil, Message: evil}
	f := fleetstatus.Of(fleetstatus.Input{Now: now(), Instances: []v1alpha1.WindowsInstance{i}, Nodes: []corev1.Node{n}, Pods: []corev1.Pod{pod}, Events: []corev1.Event{event}})
	reported := fmt.Sprintf("%+v %+v %+v %+v", f, f.Hosts[0].Plan, f.Hosts[0].Maintenance, f.Hosts[0].Failure)
	if strings.ContainsAny(reported, "\x1b\a\u202e") {
		t.Error("a control character of a host is in the result")
	}
	if text, _ := json.Marshal(f); len(text) > 200_000 {
		t.Errorf("the result has %d bytes", len(text))
	}
}

func TestProblemsOfManyHostsAreMerged(t *testing.T) {
	in := fleetstatus.Input{Now: now(), Operator: operator(0)}
	for n := range 3 {
		in.Instances = append(in.Instances, instance(fmt.Sprintf("win-%d", 3-n), api.ReasonConnectionTimeout, "no answer"))
	}
	f := fleetstatus.Of(in)
	if len(f.Problems) != 2 || f.Problems[0].Reason != advice.OperatorNotReady || !slices.Equal(f.Problems[1].Hosts, []string{"win-1", "win-2", "win-3"}) {
		t.Errorf("the problems are %+v", f.Problems)
	}
	if f.Counts.States[fleetstatus.Failed] != 3 {
		t.Errorf("the states are %v", f.Counts.States)
	}
}

func TestServicesAreReadFromNode(t *testing.T) {
	reported := []nodestate.Service{{Name: "containerd", State: api.ServiceRunning}, {Name: "kubelet", State: api.ServiceWaiting, WaitsFor: "containerd"}}
	all := []fleetstatus.Service{{Name: "containerd", State: "Running", Good: true}, {Name: "kubelet", State: "Waiting", WaitsFor: "containerd"}}
	for name, test := range map[string]struct {
		services string
		ready    corev1.ConditionStatus
		want     *fleetstatus.Services
	}{
		"Ready node":            {nodestate.FormatServices(reported), corev1.ConditionTrue, &fleetstatus.Services{List: all}},
		"silent node":           {nodestate.FormatServices(reported), corev1.ConditionUnknown, &fleetstatus.Services{Outdated: true, List: all}},
		"node without a report": {"", corev1.ConditionTrue, nil},
		"malformed report":      {`[{"name":"kubelet","state":"Fine"}]`, corev1.ConditionTrue, nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := node("win-1")
			n.Annotations[api.AnnotationServices] = test.services
			n.Status.Conditions[0].Status = test.ready
			f := fleetstatus.Of(fleetstatus.Input{Now: now(), Instances: []v1alpha1.WindowsInstance{instance("win-1", api.ReasonReady, "")}, Nodes: []corev1.Node{n}})
			if got := f.Hosts[0].Services; !reflect.DeepEqual(got, test.want) {
				t.Errorf("the services are %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestFindByAnyName(t *testing.T) {
	i := instance("i-0abc", api.ReasonReady, "")
	i.Status.NodeRef, i.Status.Hostname, i.Status.NodeIP, i.Spec.Address = &v1alpha1.NodeReference{Name: "win-1"}, "win-1", "10.0.0.7", "Win-1.example.com"
	f := fleetstatus.Of(fleetstatus.Input{Instances: []v1alpha1.WindowsInstance{i}, Nodes: []corev1.Node{node("win-1")}})
	for _, name := range []string{"i-0abc", "win-1", "WIN-1", "win-1.example.com", "10.0.0.7"} {
		if h, ok := f.Find(name); !ok || h.Name != "i-0abc" {
			t.Errorf("%s is not found", name)
		}
	}
	if _, ok := f.Find(""); ok {
		t.Error("a host without a name is found")
	}
}

// FuzzTexts sets every text of a host: the result is limited and has no control characters other than line breaks.
func FuzzTexts(f *testing.F) {
	f.Add("\x1b[31m", "no match for platform in manifest")
	f.Fuzz(func(t *testing.T, reason, message string) {
		i := instance("win-1", reason+"x", message)
		n := node("win-1", nodeCondition(api.ConditionServicesHealthy, "False", reason, message))
		i.Status.NodeRef = &v1alpha1.NodeReference{Name: "win-1"}
		fleet := fleetstatus.Of(fleetstatus.Input{Now: now(), Instances: []v1alpha1.WindowsInstance{i}, Nodes: []corev1.Node{n}})
		for _, p := range fleet.Problems {
			for _, r := range p.Reason + p.Message {
				if r < 0x20 && r != '\n' || r >= 0x7f && r < 0xa0 {
					t.Fatalf("%q has a control character", p.Reason+p.Message)
				}
			}
			if len(p.Reason) > 253 || len(p.Message) > 4096 {
				t.Errorf("a problem has %d bytes", len(p.Message))
			}
		}
	})
}
