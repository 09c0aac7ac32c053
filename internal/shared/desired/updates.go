package desired

import (
	"fmt"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// UpdatePolicy is what WICD does about updates of Windows. The default, v1alpha1.UpdatesNotify, is empty, so that it changes no published settings.
type UpdatePolicy string

// UpdatesUnmanaged means that WICD neither asks Windows about updates nor reports any.
const UpdatesUnmanaged UpdatePolicy = UpdatePolicy(v1alpha1.UpdatesUnmanaged)

func updatePolicy(spec v1alpha1.WindowsUpdatesSpec) UpdatePolicy {
	if spec.Policy == v1alpha1.UpdatesUnmanaged {
		return UpdatesUnmanaged
	}
	return ""
}

func (n Node) checkUpdates() error {
	if n.WindowsUpdates != "" && n.WindowsUpdates != UpdatesUnmanaged {
		return fmt.Errorf("the policy of Windows updates is %.64q; allowed are %s and none", n.WindowsUpdates, UpdatesUnmanaged)
	}
	return nil
}
