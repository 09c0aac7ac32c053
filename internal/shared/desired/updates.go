package desired

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// UpdatePolicy is what WICD does about Windows updates. The default, v1alpha1.UpdatesNotify, is empty, so that it changes no published settings.
type UpdatePolicy string

// UpdatesUnmanaged means that WICD neither asks Windows about updates nor reports any.
const UpdatesUnmanaged UpdatePolicy = UpdatePolicy(v1alpha1.UpdatesUnmanaged)

func updatePolicy(spec v1alpha1.WindowsUpdatesSpec) UpdatePolicy {
	if spec.Policy == v1alpha1.UpdatesUnmanaged {
		return UpdatesUnmanaged
	}
	return ""
}

// UpdatesToInstall returns which updates nodes install; nil if they install none.
func UpdatesToInstall(spec v1alpha1.WindowsUpdatesSpec) *windowsupdate.Selection {
	if spec.Policy != v1alpha1.UpdatesInstall {
		return nil
	}
	s := selectUpdates(spec)
	return &s
}

// UpdateGoal returns what hosts should have.
func UpdateGoal(spec v1alpha1.WindowsUpdatesSpec) (goal windowsupdate.Goal) {
	for _, r := range spec.MinimumRevisions {
		if goal.Revisions == nil {
			goal.Revisions = map[string]int{}
		}
		goal.Revisions[strconv.Itoa(int(r.Build))] = int(r.Revision)
	}
	if spec.DeadlineDays > 0 {
		goal.Days, goal.Of = int(spec.DeadlineDays), selectUpdates(spec)
	}
	return goal
}

// selectUpdates returns the selection of updates. Those with a known defect are blocked unless the defect is accepted.
func selectUpdates(spec v1alpha1.WindowsUpdatesSpec) windowsupdate.Selection {
	s := windowsupdate.Selection{Approved: slices.Sorted(slices.Values(spec.Approved)), Blocked: slices.Clone(spec.Blocked)}
	for _, kb := range windowsbuild.DefectiveUpdates() {
		if !slices.Contains(spec.AcceptDefects, kb) {
			s.Blocked = append(s.Blocked, kb)
		}
	}
	slices.Sort(s.Blocked)
	s.Blocked = slices.Compact(s.Blocked)
	for _, class := range spec.Classes {
		s.Classes = append(s.Classes, windowsupdate.Class(strings.ToLower(string(class))))
	}
	slices.Sort(s.Classes)
	if len(s.Classes) == 0 {
		s.Classes = []windowsupdate.Class{windowsupdate.Critical, windowsupdate.Security}
	}
	return s
}

// maxArticles limits the articles of each list in a selection of updates: 64 of a user, and those with known defects.
const maxArticles = 128

func (n Node) checkUpdates() error {
	selections := []windowsupdate.Selection{n.UpdateGoal.Of}
	if n.UpdatesToInstall != nil {
		selections = append(selections, *n.UpdatesToInstall)
	}
	for _, s := range selections {
		if len(s.Classes) > 2 || len(s.Approved) > maxArticles || len(s.Blocked) > maxArticles {
			return fmt.Errorf("%d classes of updates, %d approved and %d blocked updates; at most 2, %d and %d are allowed",
				len(s.Classes), len(s.Approved), len(s.Blocked), maxArticles, maxArticles)
		}
		if err := s.Validate(); err != nil {
			return err
		}
	}
	if n.WindowsUpdates != "" && n.WindowsUpdates != UpdatesUnmanaged {
		return fmt.Errorf("the policy of Windows updates is %.64q; allowed: %s and none", n.WindowsUpdates, UpdatesUnmanaged)
	}
	return nil
}
