//go:build linux

package deploytest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
)

// healthCondition returns condition WindowsServicesHealthy with a message.
func healthCondition(message string) corev1.NodeCondition {
	now := metav1.Now()
	return corev1.NodeCondition{
		Type: "WindowsServicesHealthy", Status: corev1.ConditionFalse, Reason: "ServiceCrashLoop", Message: message,
		LastHeartbeatTime: now, LastTransitionTime: now,
	}
}

// setCondition merges conditions by type, like WICD and kubelets.
func setCondition(ctx context.Context, as clients, node string, c ...corev1.NodeCondition) error {
	return patchStatus(ctx, as, node, types.StrategicMergePatchType, map[string]any{"status": map[string]any{"conditions": c}})
}

func patchStatus(ctx context.Context, as clients, node string, kind types.PatchType, patch any) error {
	raw, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return errOf(as.CoreV1().Nodes().Patch(ctx, node, kind, raw, metav1.PatchOptions{}, "status"))
}

// fullStatus returns a status with all fields that a kubelet writes.
func fullStatus() corev1.NodeStatus {
	now := metav1.Now()
	return corev1.NodeStatus{
		Capacity:    corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi")},
		Allocatable: corev1.ResourceList{"cpu": resource.MustParse("3500m"), "memory": resource.MustParse("14Gi")},
		Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, LastHeartbeatTime: now, LastTransitionTime: now},
			{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastHeartbeatTime: now, LastTransitionTime: now},
		},
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
		NodeInfo:        corev1.NodeSystemInfo{MachineID: "x", OperatingSystem: "windows"},
		Images:          []corev1.ContainerImage{{Names: []string{"example.com/image"}, SizeBytes: 1}},
		RuntimeHandlers: []corev1.NodeRuntimeHandler{{Name: "runhcs-wcow-process"}},
	}
}

// newNode creates a Node with a full status.
func (c *cluster) newNode(t *testing.T, name string) {
	t.Helper()
	err := errOf(c.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"kubernetes.io/os": "windows"}, Annotations: map[string]string{group + "/version": "1"},
	}}, metav1.CreateOptions{}))
	must(t, err)
	must(t, patchStatus(t.Context(), c.admin, name, types.StrategicMergePatchType, map[string]any{"status": fullStatus()}))
}

func (c *cluster) testWICDStatusPermissions(t *testing.T) {
	c.newNode(t, "win-ill")
	wicd := c.asWICD(t, "win-ill")
	set := func(conditions ...corev1.NodeCondition) func(context.Context) error {
		return func(ctx context.Context) error { return setCondition(ctx, wicd, "win-ill", conditions...) }
	}
	merge := func(patch map[string]any) func(context.Context) error {
		return func(ctx context.Context) error { return patchStatus(ctx, wicd, "win-ill", types.MergePatchType, patch) }
	}
	status := func(field string, value any) func(context.Context) error {
		return merge(map[string]any{"status": map[string]any{field: value}})
	}
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	const policy = "ValidatingAdmissionPolicy 'windows-instance-config-daemon-status'"
	var problems []corev1.NodeCondition
	for _, kind := range []corev1.NodeConditionType{
		"WindowsHostComputeUnavailable", "WindowsCommitPressure", "WindowsClockSkewed", "WindowsDefenderInterference",
		"WindowsUpdateNeeded", "WindowsAddressesHidden", "WindowsKubeletSettingsHeld",
		"WindowsNetworkPoliciesNotApplied", "WindowsGMSACapable", "WindowsHyperVCapable",
		"WindowsUpdatesOverdue",
	} {
		problems = append(problems, corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "x"})
	}
	try(t, []attempt{
		{"set its condition", "", set(healthCondition("first"))},
		{"change its condition", "", set(healthCondition("second"))},
		{"set condition WindowsUpdated", "", set(corev1.NodeCondition{Type: "WindowsUpdated", Status: corev1.ConditionFalse, Reason: "UpdateFailed"})},
		{"set condition WindowsRebootRequired", "", set(corev1.NodeCondition{Type: "WindowsRebootRequired", Status: corev1.ConditionTrue, Reason: "RebootPending"})},
		{"set its other conditions", "", set(problems...)},
		{"set condition Ready", policy, set(ready)},
		{"set condition Ready together with its own", policy, set(healthCondition("third"), ready)},
		{"add a condition of another writer", policy, set(corev1.NodeCondition{Type: "NetworkUnavailable", Status: corev1.ConditionTrue})},
		{"remove the conditions of other writers", policy, status("conditions", []corev1.NodeCondition{healthCondition("alone")})},
		{"remove all conditions", policy, status("conditions", nil)},
		{"change the capacity", policy, status("capacity", map[string]any{"cpu": "400"})},
		{"remove allocatable", policy, status("allocatable", nil)},
		{"change the addresses", policy, status("addresses", []map[string]any{{"type": "InternalIP", "address": "192.0.2.66"}})},
		{"change the port of the kubelet", policy, status("daemonEndpoints", map[string]any{"kubeletEndpoint": map[string]any{"Port": 66}})},
		{"change the operating system", policy, status("nodeInfo", map[string]any{"operatingSystem": "linux"})},
		{"remove the images", policy, status("images", nil)},
		{"remove the runtime handlers", policy, status("runtimeHandlers", nil)},
		{"add a field", policy, status("phase", "Running")},
		{"add volumes", policy, status("volumesInUse", []string{"x"})},
		{"change an annotation through the status", policy, merge(annotate(group+"/version", "2"))},
		{"add a label through the status", policy, merge(metadata("labels", map[string]any{"a": "b"}))},
		{"add a finalizer through the status", policy, merge(metadata("finalizers", []string{"example.com/stay"}))},
		{"set the condition of another Node", "is not the node of user system:wicd-node:win-ill", func(ctx context.Context) error {
			return setCondition(ctx, wicd, "win-2", healthCondition("x"))
		}},
		{"set the condition as another member of the group", "is not the node of user alice", func(ctx context.Context) error {
			return setCondition(ctx, c.as(t, "alice", "system:wicd-nodes"), "win-ill", healthCondition("x"))
		}},
		{"set the condition of a Node without status", "", func(ctx context.Context) error {
			return setCondition(ctx, c.asWICD(t, "win-bare"), "win-bare", healthCondition("x"))
		}},
		{"cordon its Node through the status, which has no effect", "", merge(map[string]any{"spec": map[string]any{"unschedulable": true}})},
	})
	node, err := c.admin.CoreV1().Nodes().Get(t.Context(), "win-ill", metav1.GetOptions{})
	isLast := func(c corev1.NodeCondition) bool { return c.Type == "WindowsServicesHealthy" && c.Message == "second" }
	if err != nil || node.Spec.Unschedulable || len(node.Status.Conditions) != 5+len(problems) || !slices.ContainsFunc(node.Status.Conditions, isLast) {
		t.Errorf("got spec %+v and conditions %+v (error %v), want only the permitted changes", node.Spec, node.Status.Conditions, err)
	}
}

// testConcurrentStatusWrites has WICD and the kubelet write concurrently, and expects that no write is lost or rejected.
func (c *cluster) testConcurrentStatusWrites(t *testing.T) {
	c.newNode(t, "win-busy")
	kubelet, wicd := c.as(t, "system:node:win-busy", "system:nodes"), c.asWICD(t, "win-busy")
	const writes = 50
	var writers sync.WaitGroup
	for _, writer := range []func(ctx context.Context, n string) error{
		func(ctx context.Context, n string) error {
			return setCondition(ctx, wicd, "win-busy", healthCondition(n))
		},
		func(ctx context.Context, n string) error {
			ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Message: n}
			patch := map[string]any{"status": map[string]any{
				"$setElementOrder/conditions": []map[string]any{{"type": "MemoryPressure"}, {"type": "Ready"}},
				"conditions":                  []corev1.NodeCondition{ready},
				"images":                      []map[string]any{{"names": []string{"example.com/image:" + n}}},
			}}
			return patchStatus(ctx, kubelet, "win-busy", types.StrategicMergePatchType, patch)
		},
	} {
		writers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for n := range writes {
				if err := writer(ctx, fmt.Sprint(n)); err != nil {
					t.Errorf("write %d: %v", n, err)
					return
				}
			}
		})
	}
	writers.Wait()
	node, err := c.admin.CoreV1().Nodes().Get(t.Context(), "win-busy", metav1.GetOptions{})
	must(t, err)
	last := fmt.Sprint(writes - 1)
	messages := map[corev1.NodeConditionType]string{}
	for _, condition := range node.Status.Conditions {
		messages[condition.Type] = condition.Message
	}
	if len(messages) != 3 || messages["Ready"] != last || messages["WindowsServicesHealthy"] != last || node.Status.Images[0].Names[0] != "example.com/image:"+last {
		t.Errorf("got conditions %v and images %v, want the last of each writer, %s", messages, node.Status.Images, last)
	}
}

// eventOf returns an event by WICD about a node.
func eventOf(node string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: node + "-", Namespace: "default"},
		EventTime:  metav1.NowMicro(), ReportingController: "windows-instance-config-daemon", ReportingInstance: node,
		Action: "KeepServices", Reason: "ServiceCrashLoop", Type: "Warning", Note: "x",
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)},
	}
}

func createEvent(ctx context.Context, as clients, e *eventsv1.Event) error {
	return errOf(as.EventsV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{}))
}

func (c *cluster) testWICDEventPermissions(t *testing.T) {
	wicd := c.asWICD(t, "win-1")
	create := func(change func(e *eventsv1.Event)) func(context.Context) error {
		return func(ctx context.Context) error {
			e := eventOf("win-1")
			change(e)
			return createEvent(ctx, wicd, e)
		}
	}
	const policy = "ValidatingAdmissionPolicy 'windows-instance-config-daemon-events'"
	try(t, []attempt{
		{"create an event about its Node", "", create(func(e *eventsv1.Event) { e.Name = "win-1.known" })},
		{"create an event about another Node", policy, create(func(e *eventsv1.Event) { e.Regarding.Name = "win-2" })},
		{"create an event about a pod with its name", policy, create(func(e *eventsv1.Event) {
			e.Regarding.Kind, e.Regarding.Namespace = "Pod", "default"
		})},
		{"create an event about no object", policy, create(func(e *eventsv1.Event) { e.Regarding = corev1.ObjectReference{} })},
		{"create an event in another namespace", policy, create(func(e *eventsv1.Event) { e.Namespace = "kube-system" })},
		{"create an event in the operator's namespace", policy, create(func(e *eventsv1.Event) { e.Namespace, e.Regarding.Namespace = namespace, namespace })},
		{"create an event with a related object", policy, create(func(e *eventsv1.Event) { e.Related = &corev1.ObjectReference{Kind: "Node", Name: "win-2"} })},
		{"create an event of another controller", policy, create(func(e *eventsv1.Event) { e.ReportingController = "kubelet" })},
		{"create an event of API group core", forbidden, func(ctx context.Context) error {
			return errOf(wicd.CoreV1().Events("default").Create(ctx, &corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{Name: "older", Namespace: "default"},
				InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "win-1"},
			}, metav1.CreateOptions{}))
		}},
		{"change its event", forbidden, func(ctx context.Context) error {
			return errOf(wicd.EventsV1().Events("default").Patch(ctx, "win-1.known", types.MergePatchType, []byte(`{"note":"y"}`), metav1.PatchOptions{}))
		}},
		{"delete its event", forbidden, func(ctx context.Context) error {
			return wicd.EventsV1().Events("default").Delete(ctx, "win-1.known", metav1.DeleteOptions{})
		}},
		{"list events", forbidden, func(ctx context.Context) error {
			return errOf(wicd.EventsV1().Events("default").List(ctx, metav1.ListOptions{}))
		}},
	})
}

// testPoliciesAreTypeChecked checks that the API server reports no type errors for the policies: an expression with a misspelled field
// would reject everything, or nothing.
func (c *cluster) testPoliciesAreTypeChecked(t *testing.T) {
	objects, err := manifest.Render(deployDir)
	must(t, err)
	var want int
	for _, o := range objects {
		if o.GetKind() == "ValidatingAdmissionPolicy" {
			want++
		}
	}
	eventually(t, "", func(ctx context.Context) error {
		policies, err := c.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(policies.Items) != want {
			return fmt.Errorf("got %d policies, want %d", len(policies.Items), want)
		}
		for _, p := range policies.Items {
			if p.Status.TypeChecking == nil || len(p.Status.TypeChecking.ExpressionWarnings) > 0 {
				return fmt.Errorf("policy %s: got type checking %+v, want no warnings", p.Name, p.Status.TypeChecking)
			}
		}
		return nil
	})
}
