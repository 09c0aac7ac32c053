package instance

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// TestStatusChangeTriggersReconcile: a Node may change twice within milliseconds, and the second pass may read the status from a
// cache that lags behind the first one's write.
func TestStatusChangeTriggersReconcile(t *testing.T) {
	ready := func(status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: api.ConditionReady, Status: status, Reason: "x"}}
	}
	for name, test := range map[string]struct {
		was, is v1alpha1.WindowsInstanceStatus
		want    bool
	}{
		"another condition": {
			v1alpha1.WindowsInstanceStatus{Conditions: ready(metav1.ConditionTrue)}, v1alpha1.WindowsInstanceStatus{Conditions: ready(metav1.ConditionFalse)}, true,
		},
		"the node": {v1alpha1.WindowsInstanceStatus{}, v1alpha1.WindowsInstanceStatus{NodeRef: &v1alpha1.NodeReference{Name: "win-1"}}, true},
		"progress": {v1alpha1.WindowsInstanceStatus{}, v1alpha1.WindowsInstanceStatus{Steps: []v1alpha1.StepStatus{{Name: "Transfer"}}}, false},
		"nothing":  {v1alpha1.WindowsInstanceStatus{Conditions: ready(metav1.ConditionTrue)}, v1alpha1.WindowsInstanceStatus{Conditions: ready(metav1.ConditionTrue)}, false},
	} {
		e := ctrlevent.UpdateEvent{ObjectOld: &v1alpha1.WindowsInstance{Status: test.was}, ObjectNew: &v1alpha1.WindowsInstance{Status: test.is}}
		if got := statusWritten().Update(e); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
