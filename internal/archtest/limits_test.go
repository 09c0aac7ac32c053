package archtest

import (
	"bytes"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	maxFunctionLines = 60
	maxFileLines     = 400
	maxParameters    = 5
	maxPortMethods   = 5
)

// TestTestFilesAreNotTooLong applies the file limit to tests, including those of the lab.
func TestTestFilesAreNotTooLong(t *testing.T) {
	inRoot(t)
	eachGoFile(t, ".", func(name string, text []byte) {
		if lines := bytes.Count(text, []byte("\n")); strings.HasSuffix(name, "_test.go") && lines > maxFileLines {
			t.Errorf("%s has %d lines, more than %d; divide it by subject", name, lines, maxFileLines)
		}
	})
}

// eachGoFile reads all Go files of a folder, including tests, except those in testdata and hidden folders.
func eachGoFile(t *testing.T, folder string, each func(name string, text []byte)) {
	t.Helper()
	err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && d.Name() != "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err == nil {
			each(filepath.ToSlash(name), text)
		}
		return err
	})
	must(t, err)
}

func TestFilesFunctionsAndInterfacesAreShort(t *testing.T) {
	inRoot(t)
	fset, packages := sources(t)
	for _, p := range packages {
		for name, file := range p.files {
			if strings.HasPrefix(filepath.Base(name), "zz_generated") {
				continue
			}
			if lines := fset.Position(file.End()).Line; lines > maxFileLines {
				t.Errorf("%s has %d lines, more than %d", name, lines, maxFileLines)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				checkLength(t, fset, n)
				return true
			})
		}
	}
}

func checkLength(t *testing.T, fset *token.FileSet, n ast.Node) {
	switch n := n.(type) {
	case *ast.FuncDecl:
		if lines := fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1; lines > maxFunctionLines {
			t.Errorf("%s: function %s has %d lines, more than %d", fset.Position(n.Pos()), n.Name.Name, lines, maxFunctionLines)
		}
		isOthers := n.Doc != nil && strings.Contains(n.Doc.Text(), " implements ") // the interface determines the parameters
		if parameters := countParameters(n.Type.Params); parameters > maxParameters && !isOthers {
			t.Errorf("%s: function %s has %d parameters, more than %d", fset.Position(n.Pos()), n.Name.Name, parameters, maxParameters)
		}
	case *ast.InterfaceType:
		if n.Methods.NumFields() > maxPortMethods {
			t.Errorf("%s: interface with %d methods, more than %d", fset.Position(n.Pos()), n.Methods.NumFields(), maxPortMethods)
		}
	}
}

// countParameters counts all but a leading context.
func countParameters(list *ast.FieldList) int {
	n := list.NumFields()
	if n > 0 {
		if s, ok := list.List[0].Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Context" {
			n--
		}
	}
	return n
}
