package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/windows-machine-config/wmco/"

// source is one package of the tree: its parsed files, without tests.
type source struct {
	dir   string
	files map[string]*ast.File
}

func sources(t *testing.T) (*token.FileSet, []source) {
	t.Helper()
	fset := token.NewFileSet()
	byDir := map[string]source{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "lab" || name == "docs" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		dir := path.Dir(filepath.ToSlash(name))
		if byDir[dir].files == nil {
			byDir[dir] = source{dir: dir, files: map[string]*ast.File{}}
		}
		byDir[dir].files[name] = file
		return nil
	})
	must(t, err)
	return fset, slices.SortedFunc(maps.Values(byDir), func(a, b source) int { return strings.Compare(a.dir, b.dir) })
}

// must ends a test that cannot continue after an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestImportsPointFromEdgesToCore(t *testing.T) {
	inRoot(t)
	allowed := mayImport()
	_, packages := sources(t)
	for _, p := range packages {
		may, known := allowed[p.dir]
		if !known {
			t.Errorf("package %s is not in mayImport, which lists every package", p.dir)
		}
		delete(allowed, p.dir)
		for name, file := range p.files {
			for _, i := range file.Imports {
				imported, _ := strconv.Unquote(i.Path.Value)
				ours, isOurs := strings.CutPrefix(imported, module)
				if isOurs && !slices.Contains(may, ours) {
					t.Errorf("%s imports %s, which mayImport does not allow %s", name, ours, p.dir)
				}
			}
		}
	}
	for dir := range allowed {
		t.Errorf("mayImport lists %s, which does not exist", dir)
	}
}

// TestInternalFoldersLimitImports checks the folders of internal: operator runs in the cluster, node on a Windows host, shared in both, observe wherever
// people look at nodes and pods. Code of operator and node never runs in the same program, except in tests and in the acceptance program.
func TestInternalFoldersLimitImports(t *testing.T) {
	inRoot(t)
	mayUse := map[string][]string{
		"shared":   {"shared"},
		"node":     {"node", "shared"},
		"observe":  {"observe", "shared"},
		"operator": {"observe", "operator", "shared"},
		"cli":      {"cli", "observe", "operator", "shared"},
		"testing":  {"node", "observe", "operator", "shared", "testing"},
		"archtest": nil,
	}
	folder := func(dir string) string {
		inside, isInternal := strings.CutPrefix(dir, "internal/")
		if !isInternal {
			return ""
		}
		first, _, _ := strings.Cut(inside, "/")
		return first
	}
	for dir, imports := range mayImport() {
		from := folder(dir)
		if from == "" {
			continue
		}
		may, known := mayUse[from]
		if !known {
			t.Errorf("%s is in folder internal/%s, which has no rule", dir, from)
		}
		if strings.HasSuffix(dir, "test") { // only for tests
			may = slices.Concat(may, mayUse["testing"])
		}
		for _, imported := range imports {
			if to := folder(imported); to != "" && !slices.Contains(may, to) {
				t.Errorf("mayImport allows %s to import %s; folder internal/%s may import %s", dir, imported, from, strings.Join(may, ", "))
			}
		}
	}
}

// TestLibrariesAreImportedOnlyWhereAllowed checks imports of other modules. Tests may use all of them.
func TestLibrariesAreImportedOnlyWhereAllowed(t *testing.T) {
	inRoot(t)
	isBelow := func(dir string, folders ...string) bool {
		return slices.ContainsFunc(folders, func(f string) bool { return dir == f || strings.HasPrefix(dir, f+"/") })
	}
	_, packages := sources(t)
	for _, rule := range []struct {
		libraries []string
		forbidden func(dir string) bool
		why       string
	}{
		{
			[]string{"os", "os/exec", "net", "net/http", "path/filepath", "k8s.io/client-go", "sigs.k8s.io/controller-runtime", "golang.org/x/sys"},
			func(dir string) bool { return slices.Contains(purePackages(), dir) }, "its package is pure",
		},
		{
			[]string{"golang.org/x/sys/windows"},
			func(dir string) bool { return !isBelow(dir, "internal/node/win") }, "only internal/node/win may: all other packages build and are tested on Linux",
		},
		{
			[]string{"k8s.io/client-go"},
			func(dir string) bool { return isBelow(dir, "internal/node", "internal/shared", "cmd/wicd") },
			"it would make up a quarter of WICD (decision 48); use internal/node/kubeapi",
		},
		{
			[]string{"charm.land", "github.com/charmbracelet", "github.com/spf13", "k8s.io/cli-runtime"},
			func(dir string) bool { return !isBelow(dir, "cmd/kubectl-windows", "hack/generate", "internal/cli") }, "only kubectl windows may",
		},
	} {
		for _, p := range packages {
			if !rule.forbidden(p.dir) {
				continue
			}
			for name, file := range p.files {
				for _, i := range file.Imports {
					imported, _ := strconv.Unquote(i.Path.Value)
					for _, library := range rule.libraries {
						if imported == library || strings.Contains(library, ".") && strings.HasPrefix(imported, library+"/") {
							t.Errorf("%s imports %s: %s", name, imported, rule.why)
						}
					}
				}
			}
		}
	}
}

func TestEveryPackageIsDocumented(t *testing.T) {
	inRoot(t)
	_, packages := sources(t)
	for _, p := range packages {
		var docs []string
		for name, file := range p.files {
			if file.Doc != nil && len(strings.Fields(file.Doc.Text())) > 8 {
				docs = append(docs, name)
			}
		}
		if len(docs) != 1 {
			t.Errorf("package %s has %d package comments (%v), want one", p.dir, len(docs), docs)
		}
	}
}

func TestNoInitFunctionsOrGlobals(t *testing.T) {
	inRoot(t)
	fset, packages := sources(t)
	for _, p := range packages {
		for name, file := range p.files {
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
					t.Errorf("%s has an init function; wire things where they are used", name)
				}
				checkVariables(t, fset, decl)
			}
		}
	}
}

// checkVariables allows package variables that never change: errors, regular expressions and embedded files.
func checkVariables(t *testing.T, fset *token.FileSet, decl ast.Decl) {
	d, ok := decl.(*ast.GenDecl)
	if !ok || d.Tok != token.VAR || d.Doc != nil && strings.Contains(d.Doc.Text(), "go:embed") {
		return
	}
	for _, spec := range d.Specs {
		v := spec.(*ast.ValueSpec)
		for i, name := range v.Names {
			isConstant := i < len(v.Values) && (isErrorValue(v.Values[i]) || isRegexp(v.Values[i]))
			isAssertion := name.Name == "_"
			isSystemCall := strings.HasPrefix(fset.Position(name.Pos()).Filename, "internal/node/win/")
			embedded := v.Doc != nil || d.Doc != nil && len(d.Doc.List) > 0 && strings.HasPrefix(d.Doc.List[len(d.Doc.List)-1].Text, "//go:embed")
			if !isConstant && !isAssertion && !isSystemCall && !embedded {
				t.Errorf("%s: package variable %s; pass values instead", fset.Position(name.Pos()), name.Name)
			}
		}
	}
}

func isRegexp(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && fmt.Sprint(call.Fun) == "&{regexp MustCompile}"
}

func isErrorValue(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CallExpr:
		s, ok := e.Fun.(*ast.SelectorExpr)
		return ok && (s.Sel.Name == "New" || s.Sel.Name == "Errorf") && fmt.Sprint(s.X) == "errors" || fmt.Sprint(e.Fun) == "&{fmt Errorf}"
	case *ast.SelectorExpr:
		return strings.HasPrefix(e.Sel.Name, "Err")
	}
	return false
}

// TestUserVisibleNamesAreInAPI keeps every label, annotation and object name in one documented place.
func TestUserVisibleNamesAreInAPI(t *testing.T) {
	inRoot(t)
	ours := regexp.MustCompile(`windowsmachineconfig\.openshift\.io|node\.openshift\.io/`)
	fset, packages := sources(t)
	for _, p := range packages {
		if strings.HasPrefix(p.dir, "api") {
			continue
		}
		for _, file := range p.files {
			ast.Inspect(file, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING && ours.MatchString(l.Value) {
					t.Errorf("%s: %s is a name that users see; declare it in api", fset.Position(l.Pos()), l.Value)
				}
				return true
			})
		}
	}
}
