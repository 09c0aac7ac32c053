package rollout_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
)

// TestForeignNodeIsIgnored matters because planned actions drain and delete the Node.
func TestForeignNodeIsIgnored(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "pool-7", UID: "u1", Labels: map[string]string{corev1.LabelOSStable: "windows"}}}
	i := &v1alpha1.WindowsInstance{}
	i.Status.Hostname, i.Status.NodeIP = "pool-7", "10.0.0.1"
	if h := rollout.HostOf(i, node); h.Node != nil {
		t.Errorf("the Node of another machine is planned for: %+v", h.Node)
	}
	i.Status.NodeRef = &v1alpha1.NodeReference{Name: "pool-7", UID: "u1"}
	if h := rollout.HostOf(i, node); h.Node == nil {
		t.Error("the host's own Node is not planned for")
	}
}
