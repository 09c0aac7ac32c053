package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestExportedNamesAreUsed finds exported names that no program uses. golangci-lint finds the others. The original has
// functions, annotations and variables that nothing reads, and that mislead readers.
func TestExportedNamesAreUsed(t *testing.T) {
	inRoot(t)
	fset := token.NewFileSet()
	declared, used := map[string]token.Pos{}, map[string]int{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(filepath.Base(name), "zz_generated"):
			return nil
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				used[id.Name]++
			}
			return true
		})
		for _, id := range exported(file) {
			used[id.Name]-- // the declaration itself
			if mustBeUsed(filepath.ToSlash(name), id.Name) {
				declared[id.Name] = id.Pos()
			}
		}
		return nil
	})
	must(t, err)
	if len(declared) < 300 {
		t.Fatalf("found only %d names", len(declared))
	}
	for name, at := range declared {
		if used[name] == 0 {
			t.Errorf("%s: no program uses %s", fset.Position(at), name)
		}
	}
}

// mustBeUsed reports whether programs must use a name of a file. Simulations of Windows and shared test code are for tests; in the API, users also
// set values that code never mentions, and use events that are reasons.
func mustBeUsed(file, name string) bool {
	switch {
	case strings.HasPrefix(file, "internal/testing/sim/"), strings.HasPrefix(file, "internal/testing/sshserver/"),
		strings.HasPrefix(file, "internal/operator/controllers/controllertest/"), strings.HasPrefix(file, "internal/node/daemon/daemontest/"),
		strings.HasPrefix(file, "internal/observe/podrules/podrulestest/"),
		strings.HasPrefix(file, "internal/testing/documents/"),
		name == "Reconcile", name == "Describe": // controller-runtime and Prometheus call these
		return false
	case strings.HasPrefix(file, "api/"):
		return strings.HasPrefix(name, "Annotation") || strings.HasPrefix(name, "Label") || strings.HasPrefix(name, "Condition")
	}
	return strings.HasPrefix(file, "internal/")
}

// exported returns the names that a file declares for other packages: functions, methods, types, constants and
// variables. A method whose comment names what it implements is called through that interface.
func exported(file *ast.File) (names []*ast.Ident) {
	add := func(ids ...*ast.Ident) {
		for _, id := range ids {
			if id.IsExported() {
				names = append(names, id)
			}
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || !strings.Contains(d.Doc.Text(), " implements ") && !strings.Contains(d.Doc.Text(), " an error") {
				add(d.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					add(s.Name)
				case *ast.ValueSpec:
					add(s.Names...)
				}
			}
		}
	}
	return names
}
