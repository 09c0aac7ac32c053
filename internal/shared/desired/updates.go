package desired

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
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

func updatesToInstall(spec v1alpha1.WindowsUpdatesSpec) *windowsupdate.Selection {
	if spec.Policy != v1alpha1.UpdatesInstall {
		return nil
	}
	s := &windowsupdate.Selection{Blocked: slices.Sorted(slices.Values(spec.Blocked))}
	for _, class := range spec.Classes {
		s.Classes = append(s.Classes, windowsupdate.Class(strings.ToLower(string(class))))
	}
	slices.Sort(s.Classes)
	if len(s.Classes) == 0 {
		s.Classes = []windowsupdate.Class{windowsupdate.Critical, windowsupdate.Security}
	}
	return s
}

// maxBlockedUpdates limits the articles that are not installed.
const maxBlockedUpdates = 64

func (n Node) checkUpdates() error {
	if s := n.UpdatesToInstall; s != nil {
		if len(s.Blocked) > maxBlockedUpdates || len(s.Classes) > 2 {
			return fmt.Errorf("%d classes of updates and %d blocked ones; at most 2 and %d are allowed", len(s.Classes), len(s.Blocked), maxBlockedUpdates)
		}
		if err := s.Validate(); err != nil {
			return err
		}
	}
	if n.WindowsUpdates != "" && n.WindowsUpdates != UpdatesUnmanaged {
		return fmt.Errorf("the policy of Windows updates is %.64q; allowed are %s and none", n.WindowsUpdates, UpdatesUnmanaged)
	}
	return nil
}
