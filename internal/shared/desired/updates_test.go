package desired_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// TestUpdatePolicyFollowsWindowsConfig also expects that the default changes no published settings, and that a change interrupts nothing.
func TestUpdatePolicyFollowsWindowsConfig(t *testing.T) {
	in := inputs()
	for policy, want := range map[v1alpha1.WindowsUpdatePolicy]desired.UpdatePolicy{
		"": "", v1alpha1.UpdatesNotify: "", v1alpha1.UpdatesUnmanaged: desired.UpdatesUnmanaged, v1alpha1.UpdatesInstall: "",
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

func TestUpdatesToInstallFollowWindowsConfig(t *testing.T) {
	both := []windowsupdate.Class{windowsupdate.Critical, windowsupdate.Security}
	defective := windowsbuild.DefectiveUpdates()
	for name, c := range map[string]struct {
		spec v1alpha1.WindowsUpdatesSpec
		want *windowsupdate.Selection
	}{
		"default":   {v1alpha1.WindowsUpdatesSpec{}, nil},
		"notify":    {v1alpha1.WindowsUpdatesSpec{Policy: v1alpha1.UpdatesNotify, Classes: []v1alpha1.WindowsUpdateClass{v1alpha1.UpdatesSecurity}}, nil},
		"unmanaged": {v1alpha1.WindowsUpdatesSpec{Policy: v1alpha1.UpdatesUnmanaged}, nil},
		"install":   {v1alpha1.WindowsUpdatesSpec{Policy: v1alpha1.UpdatesInstall}, &windowsupdate.Selection{Classes: both, Blocked: defective}},
		"accepted defects": {
			v1alpha1.WindowsUpdatesSpec{Policy: v1alpha1.UpdatesInstall, AcceptDefects: append([]string{"KB5068787"}, defective[1:]...)},
			&windowsupdate.Selection{Classes: both, Blocked: defective[:1]},
		},
		"blocked in spite of accepted defects": {
			v1alpha1.WindowsUpdatesSpec{Policy: v1alpha1.UpdatesInstall, AcceptDefects: defective, Blocked: defective[:2]},
			&windowsupdate.Selection{Classes: both, Blocked: defective[:2]},
		},
		"approved": {
			v1alpha1.WindowsUpdatesSpec{Policy: v1alpha1.UpdatesInstall, Approved: []string{"KB5068788", "KB5068787"}},
			&windowsupdate.Selection{Classes: both, Approved: []string{"KB5068787", "KB5068788"}, Blocked: defective},
		},
		"one class": {
			v1alpha1.WindowsUpdatesSpec{
				Policy: v1alpha1.UpdatesInstall, Classes: []v1alpha1.WindowsUpdateClass{v1alpha1.UpdatesSecurity}, Blocked: []string{"KB5068788", "KB5068787"},
			},
			&windowsupdate.Selection{Classes: []windowsupdate.Class{windowsupdate.Security}, Blocked: slices.Sorted(slices.Values(append([]string{"KB5068787", "KB5068788"}, defective...)))},
		},
	} {
		in := inputs()
		in.Config.WindowsUpdates = c.spec
		rendered, err := desired.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		got := rendered.Node
		if diff := cmp.Diff(c.want, got.UpdatesToInstall); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if err := got.CheckBounds(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		changed := got
		changed.UpdatesToInstall = &windowsupdate.Selection{Classes: both[:1]}
		if got := desired.DisruptionOf(got, changed); got != v1alpha1.DisruptionNone {
			t.Errorf("%s: the change has effect %q", name, got)
		}
	}
}

func TestUpdateGoalFollowsWindowsConfig(t *testing.T) {
	classes := []windowsupdate.Class{windowsupdate.Critical, windowsupdate.Security}
	for name, c := range map[string]struct {
		spec v1alpha1.WindowsUpdatesSpec
		want windowsupdate.Goal
	}{
		"default": {v1alpha1.WindowsUpdatesSpec{Blocked: []string{"KB5068787"}}, windowsupdate.Goal{}},
		"revisions": {
			v1alpha1.WindowsUpdatesSpec{MinimumRevisions: []v1alpha1.WindowsRevision{{Build: 20348, Revision: 4405}}},
			windowsupdate.Goal{Revisions: map[string]int{"20348": 4405}},
		},
		"deadline": {
			v1alpha1.WindowsUpdatesSpec{DeadlineDays: 21},
			windowsupdate.Goal{Days: 21, Of: windowsupdate.Selection{Classes: classes, Blocked: windowsbuild.DefectiveUpdates()}},
		},
	} {
		in := inputs()
		in.Config.WindowsUpdates = c.spec
		rendered, err := desired.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, rendered.Node.UpdateGoal); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		changed := rendered.Node
		changed.UpdateGoal = windowsupdate.Goal{Days: 1}
		if got := desired.DisruptionOf(rendered.Node, changed); got != v1alpha1.DisruptionNone {
			t.Errorf("%s: the change has effect %q", name, got)
		}
	}
}
