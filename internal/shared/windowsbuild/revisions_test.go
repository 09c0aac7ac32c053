package windowsbuild_test

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// TestRevisions covers the limits of each row of the two tables.
func TestRevisions(t *testing.T) {
	for _, test := range []struct {
		build    windowsbuild.Build
		revision int
		missing  string
		fault    string
	}{
		{17763, 0, "", ""}, // could not be read
		{17763, 1, "KB4489899", ""},
		{17763, 347, "KB4489899", ""},
		{17763, 348, "KB4489899", ""},
		{17763, 378, "KB4489899", ""},
		{17763, 379, "", ""},
		{17763, 1816, "", ""}, // pods without a group Managed Service Account run
		{17763, 1431, "", ""},
		{17763, 1432, "", "KB4580390"},
		{17763, 1553, "", "KB4580390"},
		{17763, 1554, "", ""},
		{17763, 2452, "", "KB5010791"},
		{17763, 2458, "", ""},
		{17763, 8000, "", ""},
		{20348, 0, "", ""},
		{20348, 587, "KB5012637", ""}, // the evaluation version
		{20348, 680, "KB5012637", ""},
		{20348, 681, "", ""},
		{20348, 2581, "", ""},
		{20348, 2582, "", "KB5044281"},
		{20348, 2761, "", "KB5044281"},
		{20348, 2762, "", ""},
		{26100, 0, "", ""},
		{26100, 1742, "", "KB5066835"},
		{26100, 6898, "", "KB5066835"},
		{26100, 6899, "", ""},
		{25398, 1, "", ""},
		{0, -1, "", ""},
	} {
		missing, isMissing := windowsbuild.Missing(test.build, test.revision)
		if missing.KB != test.missing || isMissing != (test.missing != "") {
			t.Errorf("10.0.%d.%d lacks %q, %v, want %q", test.build, test.revision, missing.KB, isMissing, test.missing)
		}
		fault, hasFault := windowsbuild.FaultOf(test.build, test.revision)
		if fault.Fixed != test.fault || hasFault != (test.fault != "") {
			t.Errorf("10.0.%d.%d has the fault that %q fixes, %v, want %q", test.build, test.revision, fault.Fixed, hasFault, test.fault)
		}
	}
}

func TestRevisionTablesAreComplete(t *testing.T) {
	kb := regexp.MustCompile(`^KB[0-9]{7}$`)
	isLink := func(text string) bool {
		u, err := url.Parse(text)
		return err == nil && u.Scheme == "https" && u.Host != ""
	}
	for _, u := range windowsbuild.Updates() {
		if _, known := windowsbuild.ReleaseOf(u.Build); !known || u.Revision < 1 || !kb.MatchString(u.KB) || u.For == "" || !isLink(u.Source) {
			t.Errorf("update %+v is incomplete", u)
		}
		text := u.Without(7)
		for _, part := range []string{u.KB, u.Build.String(), "revision 7;", "restart the host"} {
			if !strings.Contains(text, part) {
				t.Errorf("%q does not contain %q", text, part)
			}
		}
	}
	for _, f := range windowsbuild.Faults() {
		_, known := windowsbuild.ReleaseOf(f.Build)
		if !known || f.From < 0 || f.Before <= f.From || (f.From > 0) != kb.MatchString(f.Since) || (f.From > 0) != slices.Contains(f.Updates, f.Since) || !kb.MatchString(f.Fixed) || f.What == "" || !isLink(f.Source) {
			t.Errorf("fault %+v is incomplete", f)
		}
		text := f.At(7)
		for _, part := range []string{f.Fixed, f.Source, f.Build.String(), "revision 7,"} {
			if !strings.Contains(text, part) {
				t.Errorf("%q does not contain %q", text, part)
			}
		}
		if missing, isMissing := windowsbuild.Missing(f.Build, f.Before); isMissing {
			t.Errorf("the fix of %+v does not permit the host to become a node: %+v", f, missing)
		}
	}
}

func TestDefectOfUpdate(t *testing.T) {
	all := windowsbuild.DefectiveUpdates()
	for _, kb := range all {
		if f, known := windowsbuild.DefectOf(kb); !known || f.Fixed == kb || slices.Contains(all, f.Fixed) {
			t.Errorf("the defect of %s is %+v, %v", kb, f, known)
		}
	}
	if f, known := windowsbuild.DefectOf("KB5044281"); known || !slices.Contains(all, "KB5041160") || !slices.IsSorted(all) {
		t.Errorf("KB5044281, a fix, has defect %+v; the updates with defects are %v", f, all)
	}
}
