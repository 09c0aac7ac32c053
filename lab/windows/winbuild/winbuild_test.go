package winbuild

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/payload/build"
)

// components returns the modules whose programs run on the lab's hosts.
func components() []string {
	modules := []string{"../../../payload/containerd", "../../../payload/hcsshim", "../../../payload/windows-exporter"}
	for _, minor := range build.Minors() {
		modules = append(modules, "../../../payload/kubernetes/"+minor)
	}
	return modules
}

func TestEveryComponentCanBePatched(t *testing.T) {
	for _, dir := range components() {
		if _, err := os.Stat(dir); err != nil {
			t.Fatal(err)
		}
		work := t.TempDir()
		flags, err := Flags(t.Context(), dir, work)
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		mod := filepath.Dir(strings.TrimPrefix(flags[1], "-modfile="))
		raw, err := os.ReadFile(filepath.Join(mod, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		module, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range modulePatches() {
			wanted := strings.Contains(string(module), p.module+" v") && (!p.programs || strings.Contains(string(module), "tool "+p.module+"/"))
			if replaced := strings.Contains(string(raw), p.module+" => "+work); replaced != wanted {
				t.Errorf("%s: replacement of %s: got %v, want %v", dir, p.module, replaced, wanted)
			}
		}
		original, err := os.ReadFile(filepath.Join(dir, "go.sum"))
		if err != nil {
			t.Fatal(err)
		}
		sums, err := os.ReadFile(filepath.Join(mod, "go.sum"))
		if diff := cmp.Diff(string(original), string(sums)); err != nil || diff != "" {
			t.Errorf("%s: go.sum: error %v, %s", dir, err, diff)
		}
	}
}

func TestFlagsAreStableUnderConcurrency(t *testing.T) {
	work := t.TempDir()
	results := make([][]string, 4)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			var err error
			if results[i], err = Flags(t.Context(), components()[0], work); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, r := range results[1:] {
		if diff := cmp.Diff(results[0], r); diff != "" {
			t.Error(diff)
		}
	}
	left, err := filepath.Glob(filepath.Join(work, "tmp-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary folders remain: %v (%v)", left, err)
	}
}

func TestPatchReportsMissingText(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("one two two"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		edit edit
		want string // content, or part of the error
	}{
		{"replaced", edit{file: "a.go", find: "one", replace: "1"}, "1 two two"},
		{"added", edit{file: "a.go", find: "one", add: "!"}, "one! two two"},
		{"as often as expected", edit{file: "a.go", find: "two", replace: "2", times: 2}, "one 2 2"},
		{"missing", edit{file: "a.go", find: "three"}, "found the text to replace 0 times, want 1"},
		{"too often", edit{file: "a.go", find: "two"}, "found the text to replace 2 times, want 1"},
		{"missing file", edit{file: "b.go", find: "one"}, "reading the file to patch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files, err := patch{edits: []edit{c.edit}}.files(dir)
			got := files["a.go"]
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestReplacedModuleIsRejected(t *testing.T) {
	dir := t.TempDir()
	mod := "module example.com/m\n\ngo 1.26.0\n\nrequire golang.org/x/sys v0.40.0\n\nreplace golang.org/x/sys => ./sys\n"
	for name, text := range map[string]string{"go.mod": mod, "go.sum": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Flags(t.Context(), dir, t.TempDir()); err == nil || !strings.Contains(err.Error(), "replaces it") {
		t.Errorf("error %v, want one that names the replacement", err)
	}
}
