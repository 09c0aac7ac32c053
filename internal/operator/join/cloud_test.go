package join_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
)

// uninitialized returns a working node, registered the given time ago, that its cloud has not initialized.
func uninitialized(since time.Duration) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "win-1", Annotations: map[string]string{api.AnnotationVersion: "v"}, CreationTimestamp: metav1.NewTime(time.Now().Add(-since)),
		},
		Spec:   corev1.NodeSpec{Taints: []corev1.Taint{{Key: api.TaintUninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func configured() v1alpha1.WindowsInstanceStatus {
	var st v1alpha1.WindowsInstanceStatus
	join.Report(&st, 1, true, nil)
	st.BootstrapCredentialID = "jti"
	return st
}

func TestNodeIsNotReadyUntilCloudInitializesIt(t *testing.T) {
	tests := map[string]struct {
		node     *corev1.Node
		change   func(*corev1.Node)
		reason   string
		parts    []string
		requeues bool
	}{
		"just now":       {uninitialized(time.Minute), nil, api.ReasonWaitingForCloud, []string{"no pods", api.TaintUninitialized}, true},
		"for too long":   {uninitialized(6 * time.Minute), nil, api.ReasonCloudNotInitialized, []string{"cloud-controller-manager", "providerID (not set)", "None"}, false}, // https://github.com/kubernetes/cloud-provider-aws/issues/799
		"with an ID":     {uninitialized(6 * time.Minute), func(n *corev1.Node) { n.Spec.ProviderID = "x://1" }, api.ReasonCloudNotInitialized, []string{`"x://1"`}, false},
		"without a CNI":  {uninitialized(time.Minute), kubeletIs(corev1.ConditionFalse, "no CIDR"), api.ReasonWaitingForCloud, []string{"no CIDR"}, true},
		"silent":         {uninitialized(time.Minute), kubeletIs(corev1.ConditionUnknown, "gone"), api.ReasonNodeNotReady, []string{"gone"}, false},
		"no report":      {uninitialized(time.Minute), func(n *corev1.Node) { n.Status.Conditions = nil }, api.ReasonWaitingForCloud, []string{"not reported yet"}, true},
		"no version yet": {uninitialized(time.Minute), func(n *corev1.Node) { n.Annotations = nil }, api.ReasonWaitingForCloud, nil, true},
		"initialized":    {uninitialized(time.Hour), func(n *corev1.Node) { n.Spec.Taints = nil }, api.ReasonReady, nil, false},
	}
	for name, test := range tests {
		if test.change != nil {
			test.change(test.node)
		}
		st := configured()
		requeueAfter := join.Observe(&st, 1, test.node, "v", time.Now())
		c := meta.FindStatusCondition(st.Conditions, api.ConditionReady)
		if c.Reason != test.reason || requeueAfter > 0 != test.requeues || requeueAfter > join.CloudTimeout {
			t.Errorf("%s: Ready is %s (%s), again in %s", name, c.Reason, c.Message, requeueAfter)
		}
		for _, part := range test.parts {
			if !strings.Contains(c.Message, part) {
				t.Errorf("%s: the message %q does not contain %q", name, c.Message, part)
			}
		}
	}
}

func kubeletIs(status corev1.ConditionStatus, message string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Conditions[0].Status, n.Status.Conditions[0].Message = status, message }
}

// TestCloudWaitBeginsWhenTaintIsAdded covers an administrator who adds the taint to a node in service.
func TestCloudWaitBeginsWhenTaintIsAdded(t *testing.T) {
	node, st := uninitialized(24*time.Hour), configured()
	tainted := node.Spec.Taints
	node.Spec.Taints = nil
	join.Observe(&st, 1, node, "v", time.Now())
	node.Spec.Taints = tainted
	now := time.Now()
	for range 2 {
		requeueAfter := join.Observe(&st, 1, node, "v", now)
		if got := reasonOf(st, api.ConditionReady); got != api.ReasonWaitingForCloud || requeueAfter <= 0 {
			t.Errorf("Ready has reason %s, again in %s", got, requeueAfter)
		}
		now = now.Add(time.Minute)
	}
	join.Observe(&st, 1, node, "v", now.Add(join.CloudTimeout))
	if got := reasonOf(st, api.ConditionReady); got != api.ReasonCloudNotInitialized {
		t.Errorf("Ready has reason %s", got)
	}
}

// TestNodeWaitingForCloudIsNotRepaired: its network may need what the cloud sets on the Node. A silent one is repaired.
func TestNodeWaitingForCloudIsNotRepaired(t *testing.T) {
	for status, want := range map[corev1.ConditionStatus]bool{corev1.ConditionFalse: false, corev1.ConditionUnknown: true} {
		node := uninitialized(time.Hour)
		node.Status.Conditions[0].Status = status
		if _, ok := (join.Observed{Node: node, Version: "v"}).BrokenSince(); ok != want {
			t.Errorf("with a kubelet that is %s: broken is %v", status, ok)
		}
	}
}
