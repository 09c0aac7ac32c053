package podnetwork

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// TestNetworkIsNotReportedBeforeFirstCheck: each session begins with a Node on which the previous one may have reported a problem. The writer
// has no client, so that any write would panic.
func TestNetworkIsNotReportedBeforeFirstCheck(t *testing.T) {
	node := &corev1.Node{}
	node.Status.Conditions = []corev1.NodeCondition{{Type: api.ConditionWindowsNetworkUnavailable, Status: corev1.ConditionTrue}}
	for name, wanted := range map[string]desired.Node{
		"a network of the user": {UserNetwork: &desired.UserNetwork{ConfigDir: `C:\etc\cni\net.d`}},
		"a managed network":     {Network: &desired.Network{}},
	} {
		u := NewUserNetwork(state.Session{Wanted: wanted}, state.NewSignal(), nil)
		if err := u.ReportTo(t.Context(), &nodestatus.Writer{}, node); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
