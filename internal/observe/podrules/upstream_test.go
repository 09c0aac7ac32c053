package podrules_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/observe/podrules"
	"github.com/windows-machine-config/wmco/payload/payloadtest"
)

// upstreamTable has a line for each rejection on Windows in Kubernetes: location, a bar, message, a bar, and either the paths of the rules that
// cover it or a dash and the reason why no rule does.
const upstreamTable = "testdata/upstream.txt"

// TestRulesKnowWhatKubernetesRefuses reads the pod validation and the kubelet of each minor version in the payload. It fails if Kubernetes
// rejects something on Windows that is not in upstreamTable, or if a line of the table is not in any version.
func TestRulesKnowWhatKubernetesRefuses(t *testing.T) {
	known, used := readUpstreamTable(t), map[string]bool{}
	for minor, dir := range payloadtest.Kubernetes(t, "../../..") {
		for _, refusal := range slices.Concat(validation(t, dir), kubelet(t, dir)) {
			if used[refusal] = true; !slices.Contains(known, refusal) {
				t.Errorf("Kubernetes %s refuses on Windows: %s\nAdd a line to %s, and a rule if it is about a field of pods", minor, refusal, upstreamTable)
			}
		}
	}
	for _, refusal := range known {
		if !used[refusal] {
			t.Errorf("no version has this any more, remove it from %s: %s", upstreamTable, refusal)
		}
	}
}

// readUpstreamTable returns the rejections of the table, and checks that the rules it names exist.
func readUpstreamTable(t *testing.T) (refusals []string) {
	t.Helper()
	content, err := os.ReadFile(upstreamTable)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, r := range podrules.Rules() {
		paths = append(paths, r.Path)
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Split(strings.TrimSpace(line), " | ")
		if len(fields) != 3 {
			t.Fatalf("%s: %q has not three fields", upstreamTable, line)
		}
		refusals = append(refusals, fields[0]+" | "+fields[1])
		if strings.HasPrefix(fields[2], "- ") {
			continue
		}
		for _, name := range strings.Split(fields[2], ", ") {
			if !slices.Contains(paths, name) {
				t.Errorf("%s: there is no rule %s", upstreamTable, name)
			}
		}
	}
	return refusals
}

// validation returns the API server's field errors that apply to pods for Windows only: those in functions with Windows in their name, and those
// under conditions that mention it.
func validation(t *testing.T, dir string) (found []string) {
	const name = "pkg/apis/core/validation/validation.go"
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, filepath.Join(dir, name), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	text := func(n ast.Node) string {
		var b bytes.Buffer
		_ = printer.Fprint(&b, files, n)
		return b.String()
	}
	isRefusal := regexp.MustCompile(`^field\.(Forbidden|NotSupported)$`)
	child := regexp.MustCompile(`Child\(([^()]*)\)`)
	refusals := func(below ast.Node) {
		ast.Inspect(below, func(n ast.Node) bool {
			call, isCall := n.(*ast.CallExpr)
			if !isCall || !isRefusal.MatchString(text(call.Fun)) {
				return true
			}
			var names []string
			for _, m := range child.FindAllStringSubmatch(text(call.Args[0]), -1) {
				names = append(names, strings.ReplaceAll(strings.ReplaceAll(m[1], `"`, ""), ", ", "."))
			}
			says := text(call.Args[len(call.Args)-1])
			if s, err := strconv.Unquote(says); err == nil {
				says = s
			}
			found = append(found, "validation of "+strings.Join(names, ".")+" | "+says)
			return true
		})
	}
	for _, d := range parsed.Decls {
		f, isFunc := d.(*ast.FuncDecl)
		if !isFunc || strings.Contains(f.Name.Name, "Linux") {
			continue
		}
		if strings.Contains(f.Name.Name, "Windows") {
			refusals(f)
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.IfStmt:
				if strings.Contains(text(n.Cond), "== core.Windows") {
					refusals(n.Body)
					return false
				}
			case *ast.CaseClause:
				for _, e := range n.List {
					if strings.Contains(text(e), "core.Windows") {
						refusals(n)
						return false
					}
				}
			}
			return true
		})
	}
	return compact(found)
}

// kubelet returns the kubelet's messages that Windows lacks something, and all errors of its Windows-specific code that starts containers.
func kubelet(t *testing.T, dir string) (found []string) {
	says := regexp.MustCompile(`(?i)windows.*(not support|unsupported|not available|cannot|must not|not allowed|no effect)|(not supported|unsupported|not available|not allowed|no effect|does not exist).*windows`)
	root := filepath.Join(dir, "pkg/kubelet")
	err := filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(bytes.ToLower(content), []byte("windows")) {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, content, 0)
		if err != nil {
			return err
		}
		in, _ := filepath.Rel(root, filepath.Dir(name))
		startsContainers := strings.HasSuffix(name, "_windows.go") && slices.Contains([]string{"allocation", "kuberuntime", "lifecycle"}, in)
		var errorTexts []ast.Expr
		ast.Inspect(parsed, func(n ast.Node) bool {
			if call, isCall := n.(*ast.CallExpr); isCall && startsContainers && len(call.Args) > 0 {
				if f, isMember := call.Fun.(*ast.SelectorExpr); isMember && (f.Sel.Name == "Errorf" || f.Sel.Name == "New") {
					errorTexts = append(errorTexts, call.Args[0])
				}
			}
			literal, isLiteral := n.(*ast.BasicLit)
			if !isLiteral || literal.Kind != token.STRING {
				return true
			}
			if text, err := strconv.Unquote(literal.Value); err == nil && (says.MatchString(text) || slices.Contains(errorTexts, ast.Expr(literal))) {
				found = append(found, "kubelet/"+filepath.ToSlash(in)+" | "+text)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return compact(found)
}

func compact(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}
