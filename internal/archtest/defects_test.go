package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocumentsReferToExistingTests checks each test that a document names, as in internal/node/daemon.TestX.
func TestDocumentsReferToExistingTests(t *testing.T) {
	inRoot(t)
	for _, document := range checkedDocuments(t) {
		for _, test := range testReferences().FindAllStringSubmatch(read(t, document), -1) {
			if !hasFunction(t, test[1], test[2]) {
				t.Errorf("%s names %s, which does not exist in %s", document, test[2], test[1])
			}
		}
	}
}

// testReferences returns an expression that matches tests as in `internal/node/daemon.TestX`.
func testReferences() *regexp.Regexp {
	return regexp.MustCompile("`([a-z0-9/-]+)\\.([Tt]est[A-Z][A-Za-z0-9]*)`")
}

// TestDefectsHaveTests expects each row of docs/defects.md and docs/security.md to name its tests in the last cell.
func TestDefectsHaveTests(t *testing.T) {
	inRoot(t)
	for _, document := range []string{"docs/defects.md", "docs/security.md"} {
		lines := rows(read(t, document))
		for _, line := range lines {
			cells := strings.Split(strings.Trim(line, "| \n"), " | ")
			tests := testReferences().FindAllString(cells[len(cells)-1], -1)
			if len(cells) != 3 || len(tests) == 0 || len(tests) != strings.Count(cells[2], "`")/2 {
				t.Errorf("this row of %s does not have three cells, the last of which names tests as in `internal/node/daemon.TestX`: %s", document, line)
			}
		}
		if len(lines) == 0 {
			t.Errorf("%s names no test", document)
		}
	}
}

// rows returns the rows of a document's tables, without their headers.
func rows(text string) (all []string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| the original") && !strings.HasPrefix(line, "| who, ") && !strings.HasPrefix(line, "| ---") {
			all = append(all, line)
		}
	}
	return all
}

// TestEveryThreatHasMutant expects, for each row of docs/security.md, a file in hack/mutants that removes its safeguard and makes one of
// the row's tests fail.
func TestEveryThreatHasMutant(t *testing.T) {
	inRoot(t)
	mutants := testsOfMutants(t)
	for _, row := range rows(read(t, "docs/security.md")) {
		isTried := func(named []string) bool {
			return slices.ContainsFunc(mutants, func(m mutantTest) bool { return m.selects(t, named[1], named[2]) })
		}
		if !slices.ContainsFunc(testReferences().FindAllStringSubmatch(row, -1), isTried) {
			t.Errorf("no file in hack/mutants removes the safeguard of this row and names one of its tests: %s", row)
		}
	}
}

// mutantTest is the test of a file in hack/mutants: a folder relative to the root, and the argument for -run of go
// test.
type mutantTest struct {
	folder, run string
}

func testsOfMutants(t *testing.T) (all []mutantTest) {
	t.Helper()
	files, err := filepath.Glob("hack/mutants/*.txt")
	must(t, err)
	for _, file := range files {
		for _, found := range regexp.MustCompile(`(?m)^test: (\S+) (\S+) (\S+)$`).FindAllStringSubmatch(read(t, file), -1) {
			all = append(all, mutantTest{path.Join(found[1], found[2]), found[3]})
		}
	}
	return all
}

// selects reports whether a test of a folder runs with the mutant: as a function, or as a subtest that is a method
// (lab/suites/deploytest).
func (m mutantTest) selects(t *testing.T, folder, test string) bool {
	t.Helper()
	if m.folder != folder {
		return false
	}
	first, second, isSubtest := strings.Cut(m.run, "/")
	if !isSubtest || strings.HasPrefix(test, "Test") {
		return regexp.MustCompile(first).MatchString(test)
	}
	title := titleOf(t, folder, test)
	return title != "" && regexp.MustCompile(second).MatchString(title)
}

// titleOf returns the name for -run of the subtest that is the method with that name; empty if there is none.
func titleOf(t *testing.T, folder, method string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	must(t, err)
	for _, file := range files {
		if found := regexp.MustCompile(`t\.Run\("([^"]+)", \w+\.` + method + `\)`).FindStringSubmatch(read(t, file)); found != nil {
			return strings.ReplaceAll(found[1], " ", "_")
		}
	}
	return ""
}

// hasFunction reports whether the tests of a package have a function or method with that name.
func hasFunction(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	must(t, err)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		must(t, err)
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == name {
				return true
			}
		}
	}
	return false
}
