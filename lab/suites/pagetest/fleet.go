//go:build linux

// Package pagetest tests the page of kubectl windows dashboard in a real browser, Debian's Chromium, with the lab's API server
// and fleets of any size. One of its tests takes the screenshots of the documents.
package pagetest

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

const (
	oldVersion = "1.0.0-k1.36-3f9a2c1"
	newVersion = "1.1.0-k1.36-122778d"
	settings   = "8c1f0e5d7a24"
)

// situation is the state of a host.
type situation struct {
	status, reason, message string
	node                    bool
	version                 string
	plan                    *v1alpha1.Plan
	maintenance             *v1alpha1.Maintenance
	condition               *corev1.NodeCondition // of the Node, in addition to Ready
}

// situationOf returns the situation of a host in a large fleet: most hosts are Ready, a rollout is in progress, and a few hosts
// have problems.
func situationOf(i, hosts int) situation {
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(time.Now().Add(-d)) }
	s := situation{status: "True", reason: api.ReasonReady, message: "the host is a Ready node with the configuration the cluster declares", node: true, version: newVersion}
	upgrade := func(waitsFor, message string) *v1alpha1.Plan {
		return &v1alpha1.Plan{Action: v1alpha1.ActionUpgrade, Disruption: v1alpha1.DisruptionDrain, WaitsFor: waitsFor, Message: message}
	}
	change := "from version " + oldVersion + " to " + newVersion
	switch {
	case i == 7:
		s = situation{status: "False", reason: api.ReasonHostKeyChanged, version: oldVersion, node: true, message: "the host at 10.1.0.7 presents host key SHA256:q1Yw9cJ0m4 and not SHA256:Zt5k2bXr8s, " +
			"which it had before. If it was reinstalled, compare the fingerprint on its console and set spec.hostKey; nothing is sent before"}
	case i == 23 || i == 24:
		s = situation{status: "False", reason: api.ReasonAuthenticationFailed, message: "the host rejects user Administrator with the key in Secret cloud-private-key (ssh-ed25519 SHA256:5s8aH1). " +
			"Add the public key to C:\\ProgramData\\ssh\\administrators_authorized_keys"}
	case i == 31:
		s.version, s.status, s.reason = oldVersion, "False", api.ReasonDrainBlocked
		s.message = "PodDisruptionBudget shop/checkout blocks the eviction of pod shop/checkout-7d9f: it allows 0 disruptions"
		s.plan = upgrade("", change)
		s.maintenance = &v1alpha1.Maintenance{Action: v1alpha1.ActionUpgrade, Step: v1alpha1.MaintenanceDrain, Disruption: v1alpha1.DisruptionDrain, Version: newVersion,
			StartedAt: ago(26 * time.Minute), StepStartedAt: ago(26 * time.Minute), Message: s.message}
	case i == 40:
		s.condition = &corev1.NodeCondition{Type: api.ConditionServicesHealthy, Status: "False", Reason: api.ReasonServiceCrashLoop,
			Message: "service kube-proxy crashed 4 times within five minutes. The end of C:\\var\\log\\kube-proxy\\kube-proxy.log: \"hcnListNetworks failed: The RPC server is unavailable.\""}
	case i == 55:
		s = situation{status: "False", reason: api.ReasonJoining, message: "step Transfer: 31 of 46 MB"}
	case i > 100 && i <= 103:
		s.version, s.status, s.reason, s.message = oldVersion, "False", api.ReasonDraining, "6 pods are leaving; their grace periods last up to 30s"
		s.plan = upgrade("", change)
		s.maintenance = &v1alpha1.Maintenance{Action: v1alpha1.ActionUpgrade, Step: v1alpha1.MaintenanceAct, Disruption: v1alpha1.DisruptionDrain, Version: newVersion,
			StartedAt: ago(4 * time.Minute), StepStartedAt: ago(2 * time.Minute), Message: "the daemon on the host installs the version"}
	case i > hosts-hosts/5:
		s.version = oldVersion
		s.plan = upgrade(api.ReasonBudget, change+"; 4 of at most 4 nodes are out of service")
	}
	return s
}

// Fill creates the hosts of a large fleet with their Nodes and status, in place of the operator.
func Fill(ctx context.Context, c client.Client, hosts int) error {
	if err := fillCluster(ctx, c, hosts); err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(16)
	for i := 1; i <= hosts; i++ {
		all.Go(func() error {
			if err := fillHost(ctx, c, i, situationOf(i, hosts)); err != nil {
				return fmt.Errorf("creating host %d: %w", i, err)
			}
			return nil
		})
	}
	return all.Wait()
}

func fillCluster(ctx context.Context, c client.Client, hosts int) error {
	config := &v1alpha1.WindowsConfig{ObjectMeta: metav1.ObjectMeta{Name: api.WindowsConfigName}}
	config.Spec.Rollout.MaxUnavailable = new(intstr.FromInt32(4))
	if err := c.Create(ctx, config); err != nil {
		return err
	}
	config.Status.Settings, config.Status.Nodes, config.Status.UpdatedNodes = settings, int32(hosts-3), int32(hosts-9)
	config.Status.Rollout = &v1alpha1.RolloutStatus{Version: newVersion, Nodes: int32(hosts - 3), MaxUnavailable: 4, Message: "under way",
		StartedAt: new(metav1.NewTime(time.Now().Add(-3 * time.Hour))), EstimatedEnd: new(metav1.NewTime(time.Now().Add(50 * time.Minute)))}
	return c.Status().Update(ctx, config)
}

// HostName returns the name of a host of Fill, from 1.
func HostName(i int) string { return fmt.Sprintf("win-%04d", i) }

// fillHost creates a host with its Node and status.
func fillHost(ctx context.Context, c client.Client, i int, s situation) error {
	name := HostName(i)
	if s.node {
		if err := fillNode(ctx, c, i, s); err != nil {
			return err
		}
	}
	o := &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: name},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: fmt.Sprintf("10.1.%d.%d", i/250, 1+i%250), Username: "Administrator"},
	}
	if err := c.Create(ctx, o); err != nil {
		return err
	}
	o.Status = v1alpha1.WindowsInstanceStatus{
		Hostname: name, NodeIP: o.Spec.Address, OSBuild: "10.0.20348.2402", HostKeyFingerprint: "SHA256:Zt5k2bXr8sN0f3mC6wQ1",
		Payload: v1alpha1.PayloadStatus{Current: s.version, Desired: "122778d0a3e1"}, Plan: s.plan, Maintenance: s.maintenance, Steps: stepsOf(s),
	}
	if s.node {
		o.Status.NodeRef = &v1alpha1.NodeReference{Name: name}
	}
	o.Status.Conditions = conditionsOf(s)
	return c.Status().Update(ctx, o)
}

// conditionsOf returns the conditions of an instance.
func conditionsOf(s situation) (all []metav1.Condition) {
	at := metav1.NewTime(time.Now().Add(-26 * time.Minute))
	add := func(kind, status, reason, message string) {
		all = append(all, metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, LastTransitionTime: at})
	}
	switch s.reason {
	case api.ReasonHostKeyChanged, api.ReasonAuthenticationFailed:
		add(api.ConditionReachable, "False", s.reason, s.message)
	case api.ReasonDrainBlocked, api.ReasonDraining:
		add(api.ConditionDraining, "True", s.reason, s.message)
		fallthrough
	default:
		add(api.ConditionReachable, "True", api.ReasonConnected, "the host answers with its host key")
		add(api.ConditionSupported, "True", api.ReasonSupported, "all checks passed")
	}
	if s.node {
		add(api.ConditionConfigured, "True", api.ReasonConfigured, "the host has everything it needs")
		add(api.ConditionNodeReady, "True", api.ReasonNodeReady, "the node is Ready and configured")
	}
	add(api.ConditionReady, s.status, s.reason, s.message)
	return all
}

// stepsOf returns the steps of the join.
func stepsOf(s situation) (steps []v1alpha1.StepStatus) {
	at := time.Now().Add(-21 * 24 * time.Hour)
	if s.reason == api.ReasonJoining {
		at = time.Now().Add(-12 * time.Second)
	}
	last := 7
	switch s.reason {
	case api.ReasonHostKeyChanged, api.ReasonAuthenticationFailed:
		last = 0
	case api.ReasonJoining:
		last = 3
	}
	durations := []time.Duration{400 * time.Millisecond, 1200 * time.Millisecond, 100 * time.Millisecond, 9300 * time.Millisecond, 4100 * time.Millisecond, 2200 * time.Millisecond, 6800 * time.Millisecond}
	for i, name := range []string{"Connect", "Inspect", "Check", "Transfer", "Configure", "Register", "Ready"} {
		step := v1alpha1.StepStatus{Name: name, State: v1alpha1.StepWaiting}
		if i <= last {
			step.StartedAt = new(metav1.NewMicroTime(at))
			step.State = v1alpha1.StepRunning
			if s.reason == api.ReasonAuthenticationFailed || s.reason == api.ReasonHostKeyChanged {
				step.State, step.Message = v1alpha1.StepFailed, s.message
			}
			if at = at.Add(durations[i]); i < last {
				step.State, step.FinishedAt = v1alpha1.StepDone, new(metav1.NewMicroTime(at))
			}
		}
		steps = append(steps, step)
	}
	return steps
}

// services returns the annotation of a Node with the states of its services: all run, except for the kubelet if the condition
// reports a crash loop.
func services(c *corev1.NodeCondition) string {
	var all []nodestate.Service
	for _, name := range []string{"containerd", "windows_exporter", "hybrid-overlay-node", "kubelet", "csi-proxy", "kube-proxy"} {
		s := nodestate.Service{Name: name, State: api.ServiceRunning}
		if name == "kubelet" && c != nil && c.Reason == api.ReasonServiceCrashLoop {
			s.State = api.ServiceCrashLoop
		}
		all = append(all, s)
	}
	return nodestate.FormatServices(all)
}

// fillNode creates the Node of a host.
func fillNode(ctx context.Context, c client.Client, i int, s situation) error {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: HostName(i), Labels: map[string]string{corev1.LabelOSStable: "windows", corev1.LabelArchStable: "amd64"},
		Annotations: map[string]string{api.AnnotationVersion: s.version, api.AnnotationSettings: settings, api.AnnotationDesiredVersion: s.version},
	}}
	n.Annotations[api.AnnotationServices] = services(s.condition)
	if s.maintenance != nil {
		n.Spec.Unschedulable = true
		n.Annotations[api.AnnotationCordoned] = string(s.maintenance.Action)
	}
	if err := c.Create(ctx, n); err != nil {
		return err
	}
	at := metav1.NewTime(time.Now().Add(-3 * time.Hour))
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: "True", Reason: "KubeletReady", Message: "kubelet is posting ready status", LastHeartbeatTime: at, LastTransitionTime: at}}
	if s.condition != nil {
		s.condition.LastTransitionTime = at
		n.Status.Conditions = append(n.Status.Conditions, *s.condition)
	}
	n.Status.NodeInfo = corev1.NodeSystemInfo{
		MachineID: "m", SystemUUID: "u", BootID: "b", KernelVersion: "10.0.20348.2402", OSImage: "Windows Server 2022 Datacenter", OperatingSystem: "windows",
		Architecture: "amd64", ContainerRuntimeVersion: sim.ContainerRuntime, KubeletVersion: sim.KubeletVersion,
	}
	for image := range 20 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/shop/web-%d:ltsc2022", image)}, SizeBytes: 1 << 30})
	}
	for range 5 { // controllers write Nodes as well
		err := c.Status().Update(ctx, n)
		if !apierrors.IsConflict(err) {
			return err
		}
		status := n.Status
		if err := c.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err
		}
		n.Status = status
	}
	return fmt.Errorf("updating the status of node %s: too many conflicts", n.Name)
}
