package instance

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
)

// TestCapabilityLabelFollowsCondition expects a label that a user has set to stay if the condition is missing.
func TestCapabilityLabelFollowsCondition(t *testing.T) {
	for _, test := range []struct {
		status    corev1.ConditionStatus
		was, want string
	}{
		{"", "", ""}, {"", "true", "true"}, {corev1.ConditionTrue, "", "true"}, {corev1.ConditionTrue, "mine", "true"}, {corev1.ConditionFalse, "true", ""},
		{corev1.ConditionUnknown, "true", ""},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
		if test.was != "" {
			node.Labels[api.LabelGMSA] = test.was
		}
		if test.status != "" {
			node.Status.Conditions = []corev1.NodeCondition{{Type: api.ConditionGMSACapable, Status: test.status}}
		}
		if labelCapability(node, api.ConditionGMSACapable, api.LabelGMSA); node.Labels[api.LabelGMSA] != test.want {
			t.Errorf("with status %q and label %q, the label becomes %q, want %q", test.status, test.was, node.Labels[api.LabelGMSA], test.want)
		}
	}
}
