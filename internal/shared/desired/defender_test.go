package desired_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// TestContainerdIsExcludedFromScans expects the program that runs and its folders, where only administrators can write.
func TestContainerdIsExcludedFromScans(t *testing.T) {
	for setting, want := range map[v1alpha1.DefenderExclusions]bool{
		"": true, v1alpha1.DefenderExclusionsManaged: true, v1alpha1.DefenderExclusionsNone: false,
	} {
		in := inputs()
		in.Config.Runtime.DefenderExclusions = setting
		rendered, err := desired.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		excluded := rendered.Node.Exclusions
		if !want {
			if !excluded.IsEmpty() {
				t.Errorf("%s excludes %q", setting, excluded.List())
			}
			continue
		}
		if !slices.Equal(excluded.Paths, []string{desired.ContainerdRoot, desired.ContainerdState}) || len(excluded.Processes) != 1 {
			t.Fatalf("%q excludes %q", setting, excluded.List())
		}
		for _, s := range rendered.Node.Services {
			if runs := strings.HasPrefix(s.Command, excluded.Processes[0]+" "); runs != (s.Name == desired.ContainerdService) {
				t.Errorf("service %s runs %s; excluded is process %s", s.Name, s.Command, excluded.Processes[0])
			}
		}
	}
}

func TestExclusionsAreComparedAsWindowsDoes(t *testing.T) {
	a := desired.Exclusions{Processes: []string{`C:\a.exe`}, Paths: []string{`C:\Data`, `C:\more`}}
	b := desired.Exclusions{Processes: []string{`c:\A.EXE`}, Paths: []string{`C:\data\`, `C:\Data\below`, `C:\a.exe`}}
	if diff := cmp.Diff(desired.Exclusions{Paths: []string{`C:\more`}}, a.Without(b), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("a without b (-want +got):\n%s", diff)
	}
	for other, want := range map[string]int{
		`c:\data`: 1, `C:\`: 0, `C:`: 0, `C:\mo`: 2, `C:\more\below`: 2, `C:\*`: 2, "": 2,
	} {
		if beyond := (desired.Exclusions{Paths: a.Paths}).Beyond(desired.Exclusions{Paths: []string{other}}); len(beyond.Paths) != want {
			t.Errorf("beyond path %q are %q, want %d", other, beyond.Paths, want)
		}
	}
	for other, want := range map[string]int{`A.exe`: 0, `C:\A.exe`: 0, `C:\`: 1, `C:\*`: 1, "exe": 1, "": 1} {
		if beyond := (desired.Exclusions{Processes: a.Processes}).Beyond(desired.Exclusions{Processes: []string{other}}); len(beyond.Processes) != want {
			t.Errorf("beyond process %q are %q, want %d", other, beyond.Processes, want)
		}
	}
	both := desired.Exclusions{Processes: a.Processes, Paths: []string{`C:\Data`, `C:\more`, `C:\Data\below`, `C:\a.exe`}}
	if diff := cmp.Diff(both, a.And(b)); diff != "" {
		t.Errorf("a and b (-want +got):\n%s", diff)
	}
	if none := a.Without(a); !none.IsEmpty() || len(none.List()) > 0 || a.IsEmpty() {
		t.Errorf("a without a is %q", none.List())
	}
}
