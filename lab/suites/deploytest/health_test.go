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

// healthy is WICD's condition with a message.
func healthy(message string) corev1.NodeCondition {
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
	return drop(as.CoreV1().Nodes().Patch(ctx, node, kind, raw, metav1.PatchOptions{}, "status"))
}

// fullStatus has something in every field that a kubelet writes.
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

// newNode makes a node with a full status.
func (c *cluster) newNode(t *testing.T, name string) {
	t.Helper()
	err := drop(c.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"kubernetes.io/os": "windows"}, Annotations: map[string]string{group + "/version": "1"},
	}}, metav1.CreateOptions{}))
	must(t, err)
	must(t, patchStatus(t.Context(), c.admin, name, types.StrategicMergePatchType, map[string]any{"status": fullStatus()}))
}

func (c *cluster) testWICDOnItsCondition(t *testing.T) {
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
		"WindowsUpdateNeeded", "WindowsAddressesHidden", "WindowsKubeletSettingsHeld", "WindowsGMSACapable", "WindowsHyperVCapable",
	} {
		problems = append(problems, corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "x"})
	}
	try(t, []attempt{
		{"sets its condition", "", set(healthy("first"))},
		{"changes its condition", "", set(healthy("second"))},
		{"tells of an update that failed", "", set(corev1.NodeCondition{Type: "WindowsUpdated", Status: corev1.ConditionFalse, Reason: "UpdateFailed"})},
		{"tells that Windows waits for a restart", "", set(corev1.NodeCondition{Type: "WindowsRebootRequired", Status: corev1.ConditionTrue, Reason: "RebootPending"})},
		{"tells of problems of Windows", "", set(problems...)},
		{"says that the node is ready", policy, set(ready)},
		{"hides that behind its condition", policy, set(healthy("third"), ready)},
		{"adds a condition of others", policy, set(corev1.NodeCondition{Type: "NetworkUnavailable", Status: corev1.ConditionTrue})},
		{"takes the conditions of others away", policy, status("conditions", []corev1.NodeCondition{healthy("alone")})},
		{"takes all conditions away", policy, status("conditions", nil)},
		{"changes its capacity", policy, status("capacity", map[string]any{"cpu": "400"})},
		{"takes its allocatable away", policy, status("allocatable", nil)},
		{"changes its addresses", policy, status("addresses", []map[string]any{{"type": "InternalIP", "address": "192.0.2.66"}})},
		{"changes its kubelet's port", policy, status("daemonEndpoints", map[string]any{"kubeletEndpoint": map[string]any{"Port": 66}})},
		{"changes its operating system", policy, status("nodeInfo", map[string]any{"operatingSystem": "linux"})},
		{"changes its images", policy, status("images", nil)},
		{"changes its runtimes", policy, status("runtimeHandlers", nil)},
		{"adds a field", policy, status("phase", "Running")},
		{"adds volumes", policy, status("volumesInUse", []string{"x"})},
		{"changes an annotation on the way", policy, merge(annotate(group+"/version", "2"))},
		{"adds a label on the way", policy, merge(metadata("labels", map[string]any{"a": "b"}))},
		{"adds a finalizer on the way", policy, merge(metadata("finalizers", []string{"example.com/stay"}))},
		{"sets the condition of another node", "is not the node of user system:wicd-node:win-ill", func(ctx context.Context) error {
			return setCondition(ctx, wicd, "win-2", healthy("x"))
		}},
		{"member of the group with another name sets it", "is not the node of user alice", func(ctx context.Context) error {
			return setCondition(ctx, c.as(t, "alice", "system:wicd-nodes"), "win-ill", healthy("x"))
		}},
		{"sets the condition of a node without a status", "", func(ctx context.Context) error {
			return setCondition(ctx, c.asWICD(t, "win-bare"), "win-bare", healthy("x"))
		}},
		{"taints its node on the way, which is ignored", "", merge(map[string]any{"spec": map[string]any{"unschedulable": true}})},
	})
	node, err := c.admin.CoreV1().Nodes().Get(t.Context(), "win-ill", metav1.GetOptions{})
	isOurs := func(c corev1.NodeCondition) bool { return c.Type == "WindowsServicesHealthy" && c.Message == "second" }
	if err != nil || node.Spec.Unschedulable || len(node.Status.Conditions) != 5+len(problems) || !slices.ContainsFunc(node.Status.Conditions, isOurs) {
		t.Errorf("the node has spec %+v and conditions %+v, %v", node.Spec, node.Status.Conditions, err)
	}
}

// testConditionBesideTheKubelet makes both write as fast as they can: neither loses a write or is rejected.
func (c *cluster) testConditionBesideTheKubelet(t *testing.T) {
	c.newNode(t, "win-busy")
	kubelet, wicd := c.as(t, "system:node:win-busy", "system:nodes"), c.asWICD(t, "win-busy")
	const writes = 50
	var work sync.WaitGroup
	for _, writer := range []func(ctx context.Context, n string) error{
		func(ctx context.Context, n string) error { return setCondition(ctx, wicd, "win-busy", healthy(n)) },
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
		work.Go(func() {
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
	work.Wait()
	node, err := c.admin.CoreV1().Nodes().Get(t.Context(), "win-busy", metav1.GetOptions{})
	must(t, err)
	last := fmt.Sprint(writes - 1)
	messages := map[corev1.NodeConditionType]string{}
	for _, condition := range node.Status.Conditions {
		messages[condition.Type] = condition.Message
	}
	if len(messages) != 3 || messages["Ready"] != last || messages["WindowsServicesHealthy"] != last || node.Status.Images[0].Names[0] != "example.com/image:"+last {
		t.Errorf("the node has the conditions %v and images %v", messages, node.Status.Images)
	}
}

// eventOf is an event by WICD about a node.
func eventOf(node string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: node + "-", Namespace: "default"},
		EventTime:  metav1.NowMicro(), ReportingController: "windows-instance-config-daemon", ReportingInstance: node,
		Action: "KeepServices", Reason: "ServiceCrashLoop", Type: "Warning", Note: "x",
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)},
	}
}

func createEvent(ctx context.Context, as clients, e *eventsv1.Event) error {
	return drop(as.EventsV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{}))
}

func (c *cluster) testWICDOnEvents(t *testing.T) {
	wicd := c.asWICD(t, "win-1")
	tell := func(change func(e *eventsv1.Event)) func(context.Context) error {
		return func(ctx context.Context) error {
			e := eventOf("win-1")
			change(e)
			return createEvent(ctx, wicd, e)
		}
	}
	const policy = "ValidatingAdmissionPolicy 'windows-instance-config-daemon-events'"
	try(t, []attempt{
		{"tells of its node", "", tell(func(e *eventsv1.Event) { e.Name = "win-1.known" })},
		{"tells of another node", policy, tell(func(e *eventsv1.Event) { e.Regarding.Name = "win-2" })},
		{"tells of a pod with its name", policy, tell(func(e *eventsv1.Event) {
			e.Regarding.Kind, e.Regarding.Namespace = "Pod", "default"
		})},
		{"tells of nothing", policy, tell(func(e *eventsv1.Event) { e.Regarding = corev1.ObjectReference{} })},
		{"tells elsewhere", policy, tell(func(e *eventsv1.Event) { e.Namespace = "kube-system" })},
		{"tells in the operator's namespace", policy, tell(func(e *eventsv1.Event) { e.Namespace, e.Regarding.Namespace = namespace, namespace })},
		{"tells of another one besides", policy, tell(func(e *eventsv1.Event) { e.Related = &corev1.ObjectReference{Kind: "Node", Name: "win-2"} })},
		{"tells in another's name", policy, tell(func(e *eventsv1.Event) { e.ReportingController = "kubelet" })},
		{"tells by the older kind", forbidden, func(ctx context.Context) error {
			return drop(wicd.CoreV1().Events("default").Create(ctx, &corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{Name: "older", Namespace: "default"},
				InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "win-1"},
			}, metav1.CreateOptions{}))
		}},
		{"changes its event", forbidden, func(ctx context.Context) error {
			return drop(wicd.EventsV1().Events("default").Patch(ctx, "win-1.known", types.MergePatchType, []byte(`{"note":"y"}`), metav1.PatchOptions{}))
		}},
		{"deletes its event", forbidden, func(ctx context.Context) error {
			return wicd.EventsV1().Events("default").Delete(ctx, "win-1.known", metav1.DeleteOptions{})
		}},
		{"lists events", forbidden, func(ctx context.Context) error {
			return drop(wicd.EventsV1().Events("default").List(ctx, metav1.ListOptions{}))
		}},
	})
}

// testPoliciesAreTypeChecked reads the API server's check of the policies: an expression with a misspelled field would reject
// everything, or nothing.
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
			return fmt.Errorf("there are %d policies, want %d", len(policies.Items), want)
		}
		for _, p := range policies.Items {
			if p.Status.TypeChecking == nil || len(p.Status.TypeChecking.ExpressionWarnings) > 0 {
				return fmt.Errorf("policy %s: %+v", p.Name, p.Status.TypeChecking)
			}
		}
		return nil
	})
}
