//go:build unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMutantsMatchCode finds mutants that no longer match the code, without running them.
func TestMutantsMatchCode(t *testing.T) {
	root := filepath.Join("..", "..")
	mutants, err := load(filepath.Join(root, "hack", "mutants"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		text, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if _, err := m.apply(string(text)); err != nil {
			t.Error(err)
		}
		if !hasTest(t, filepath.Join(root, m.module, m.pkg), m.test) {
			t.Errorf("%s: no test in %s %s matches %s", m.name, m.module, m.pkg, m.test)
		}
	}
}

// hasTest reports whether the first part of the pattern, before its subtests, selects a test of the package.
func hasTest(t *testing.T, dir, pattern string) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(pattern, "/")
	selected, err := regexp.Compile(first)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			if selected.MatchString(name[1]) {
				return true
			}
		}
	}
	return false
}

func TestParse(t *testing.T) {
	const head = "# Anybody may.\nfile: a/b.go\ntest: . ./a TestB\n"
	for name, c := range map[string]struct{ text, want string }{
		"whole":       {head + "--- old\n\tif refused {\n--- new\n\tif false {\n", ""},
		"takes away":  {head + "--- old\nx\n--- new\n", ""},
		"no change":   {head + "--- old\nx\n--- new\nx\n", "--- new"},
		"no old":      {head + "--- new\nx\n", "--- old"},
		"no test":     {"# Anybody may.\nfile: a/b.go\n--- old\nx\n--- new\n", "test: is missing"},
		"short test":  {"# Anybody may.\nfile: a/b.go\ntest: TestB\n--- old\nx\n--- new\n", "the module's folder"},
		"another key": {head + "files: c\n--- old\nx\n--- new\n", "files: c"},
	} {
		_, err := parse(name, c.text)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestApply(t *testing.T) {
	m := mutant{name: "m", file: "f", old: "b\n", replacement: "c\n"}
	for text, want := range map[string]string{"a\nb\n": "a\nc\n", "b\na\n": "c\na\n", "ab\n": "", "b\nb\n": "", "": ""} {
		got, err := m.apply(text)
		if got != want || (want == "") != (err != nil) {
			t.Errorf("%q becomes %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		events string
		want   outcome
	}{
		"passes":   {`{"Action":"pass","Test":"TestA"}` + "\n" + `{"Action":"pass"}`, passed},
		"fails":    {`{"Action":"fail","Test":"TestA"}` + "\n" + `{"Action":"fail"}`, failed},
		"panics":   {`{"Action":"run","Test":"TestA"}` + "\n" + `{"Action":"fail","Test":"TestA"}`, failed},
		"unbuilt":  {`{"Action":"build-fail","ImportPath":"a"}` + "\n" + `{"Action":"fail"}`, unbuilt},
		"skipped":  {`{"Action":"skip","Test":"TestA"}` + "\n" + `{"Action":"pass"}`, notRun},
		"killed":   {`{"Action":"run","Test":"TestA"}` + "\n" + `{"Action":"fail"}`, failed},
		"no tests": {`{"Action":"pass"}`, notRun},
	} {
		if got := read([]byte(c.events)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
