package join_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/join"
)

// WICD of a host that is adopted, or repaired, requests its certificate while the Node from before the join is Ready.
func TestTokenIsKeptUntilWICDReports(t *testing.T) {
	node := func(version, boot string, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationVersion: version, api.AnnotationBootID: boot, api.AnnotationSettings: "s"}},
			Status: corev1.NodeStatus{
				NodeInfo: corev1.NodeSystemInfo{BootID: "2"}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
			},
		}
	}
	for name, test := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"joined":                {node("1", "2", corev1.ConditionTrue), true},
		"not registered":        {nil, false},
		"new":                   {node("", "", corev1.ConditionTrue), false},
		"adopted":               {node("10.20.1-0a1b2c3", "", corev1.ConditionTrue), false},
		"not Ready":             {node("1", "2", corev1.ConditionFalse), false},
		"repaired, WICD silent": {node("1", "1", corev1.ConditionTrue), false},
	} {
		if got := (join.Observed{Node: test.node, Version: "1", Settings: "s"}).HasJoined(); got != test.want {
			t.Errorf("%s: HasJoined() = %v, want %v", name, got, test.want)
		}
	}
	if (join.Observed{Node: node("1", "2", corev1.ConditionTrue), Version: "1", Settings: "t"}).HasJoined() {
		t.Error("a node that has not applied its settings has joined")
	}
}
