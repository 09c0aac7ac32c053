package join_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
)

// TestUnsupportedWindowsIsReported also expects the node to stay in service.
func TestUnsupportedWindowsIsReported(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", Annotations: map[string]string{api.AnnotationVersion: "v"}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	var st v1alpha1.WindowsInstanceStatus
	join.Report(&st, 1, true, nil)
	for _, test := range []struct{ kernel, day, want string }{
		{"10.0.17763.8000", "2029-01-09", ""},
		{"10.0.17763.8000", "2029-01-10", "Windows Server 2019 of node win-1 has had no security updates since 2029-01-09 (https://learn.microsoft.com/lifecycle/products/windows-server-2019); " +
			"add a host with a later Windows Server and name it in spec.replaceWith of this one, or replace its MachineSet"},
		{"10.0.20348.2402", "2026-10-14", ""}, // mainstream support has ended, security updates continue
		{"10.0.25398.1", "2040-01-01", ""},
		{"", "2040-01-01", ""},
	} {
		now, err := time.Parse(time.DateOnly, test.day)
		if err != nil {
			t.Fatal(err)
		}
		node.Status.NodeInfo.KernelVersion = test.kernel
		join.Observe(&st, 1, node, "v", now)
		got := meta.FindStatusCondition(st.Conditions, api.ConditionWindowsUnsupported)
		if (got != nil) != (test.want != "") || got != nil && (got.Message != test.want || got.Status != metav1.ConditionTrue || got.Reason != api.ReasonWindowsEndOfSupport) {
			t.Errorf("%s on %s: condition %+v, want %q", test.kernel, test.day, got, test.want)
		}
		if !meta.IsStatusConditionTrue(st.Conditions, api.ConditionReady) {
			t.Errorf("%s on %s: the instance is not Ready", test.kernel, test.day)
		}
	}
}
