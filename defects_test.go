package wmco_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDefectsHaveTheirTests looks for each test that docs/defects.md and docs/security.md name, as in internal/daemon.TestX, in its package;
// wmco is this one.
func TestDefectsHaveTheirTests(t *testing.T) {
	for _, document := range []string{"docs/defects.md", "docs/security.md"} {
		t.Run(document, func(t *testing.T) { checkTestsNamed(t, document) })
	}
}

// TestDocumentOfNetworksNamesTests looks for the tests in the table about OpenShift's objects.
func TestDocumentOfNetworksNamesTests(t *testing.T) {
	text, err := os.ReadFile("docs/network.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testsNamed().FindAllStringSubmatch(string(text), -1)
	if len(tests) < 8 {
		t.Errorf("docs/network.md names %d tests", len(tests))
	}
	for _, test := range tests {
		if !hasFunction(t, test[1], test[2]) {
			t.Errorf("docs/network.md names %s, which does not exist in %s", test[2], test[1])
		}
	}
}

// testsNamed finds tests as in `internal/daemon.TestX`.
func testsNamed() *regexp.Regexp {
	return regexp.MustCompile("`([a-z0-9/-]+)\\.([Tt]est[A-Z][A-Za-z0-9]*)`")
}

func checkTestsNamed(t *testing.T, document string) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	named := testsNamed()
	rows := 0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| the original") || strings.HasPrefix(line, "| who, ") || strings.HasPrefix(line, "| ---") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		tests := named.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(cells) != 3 || len(tests) == 0 || len(tests) != strings.Count(cells[2], "`")/2 {
			t.Errorf("this row of %s does not have three cells, the last of which names tests as in `internal/daemon.TestX`: %s", document, line)
		}
		for _, test := range tests {
			if !hasFunction(t, test[1], test[2]) {
				t.Errorf("%s names %s, which does not exist in %s", document, test[2], test[1])
			}
		}
	}
	if rows == 0 {
		t.Errorf("%s names no test", document)
	}
}

// hasFunction tells whether the tests of a package have a function, or a method, of that name.
func hasFunction(t *testing.T, folder, name string) bool {
	t.Helper()
	if folder == "wmco" {
		folder = "."
	}
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == name {
				return true
			}
		}
	}
	return false
}
