package desired_test

import (
	"testing"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// TestUpdatePolicyFollowsWindowsConfig also expects that the default changes no published settings, and that a change interrupts nothing.
func TestUpdatePolicyFollowsWindowsConfig(t *testing.T) {
	in := inputs()
	for policy, want := range map[v1alpha1.WindowsUpdatePolicy]desired.UpdatePolicy{
		"": "", v1alpha1.UpdatesNotify: "", v1alpha1.UpdatesUnmanaged: desired.UpdatesUnmanaged, "Install": "",
	} {
		in.Config.WindowsUpdates.Policy = policy
		rendered, err := desired.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := rendered.Node.WindowsUpdates; got != want {
			t.Errorf("policy %q is %q for nodes, want %q", policy, got, want)
		}
		changed := rendered.Node
		changed.WindowsUpdates = desired.UpdatesUnmanaged
		if got := desired.DisruptionOf(rendered.Node, changed); got != v1alpha1.DisruptionNone {
			t.Errorf("the change has effect %q", got)
		}
	}
}
