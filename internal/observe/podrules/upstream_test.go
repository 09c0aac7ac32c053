package podrules_test

import (
	"bytes"
	"cmp"
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

// TestRulesCoverKubernetesValidation reads the pod validation and the kubelet of each minor version in the payload. It fails if Kubernetes
// rejects something on Windows that is not in upstreamTable, or if a line of the table is not in any version.
func TestRulesCoverKubernetesValidation(t *testing.T) {
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
			t.Errorf("no version has this, so remove it from %s: %s", upstreamTable, refusal)
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
				t.Errorf("%s: no rule %s", upstreamTable, name)
			}
		}
	}
	return refusals
}

// validation returns the API server's field errors that apply to pods for Windows only: those in functions with Windows in their name, and those
// under conditions that mention it.
func validation(t *testing.T, dir string) (found []string) {
	v := validationSource{token.NewFileSet()}
	parsed, err := parser.ParseFile(v.files, filepath.Join(dir, "pkg/apis/core/validation/validation.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		f, isFunc := d.(*ast.FuncDecl)
		if !isFunc || strings.Contains(f.Name.Name, "Linux") {
			continue
		}
		if strings.Contains(f.Name.Name, "Windows") {
			found = append(found, v.refusals(f)...)
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.IfStmt:
				if strings.Contains(v.text(n.Cond), "== core.Windows") {
					found = append(found, v.refusals(n.Body)...)
					return false
				}
			case *ast.CaseClause:
				for _, e := range n.List {
					if strings.Contains(v.text(e), "core.Windows") {
						found = append(found, v.refusals(n)...)
						return false
					}
				}
			}
			return true
		})
	}
	return compact(found)
}

// validationSource is the source of the API server's validation.
type validationSource struct{ files *token.FileSet }

func (v validationSource) text(n ast.Node) string {
	var b bytes.Buffer
	_ = printer.Fprint(&b, v.files, n)
	return b.String()
}

// refusals returns the field errors below a node, each with the path of its field, or the variable that has the path, and its message.
func (v validationSource) refusals(below ast.Node) (found []string) {
	isRefusal, child := regexp.MustCompile(`^field\.[A-Z]\w*$`), regexp.MustCompile(`Child\(([^()]*)\)`)
	messages := map[string]string{} // of variables
	ast.Inspect(below, func(n ast.Node) bool {
		if a, isAssignment := n.(*ast.AssignStmt); isAssignment && len(a.Lhs) == 1 && len(a.Rhs) == 1 {
			messages[v.text(a.Lhs[0])] = v.message(a.Rhs[0])
		}
		call, isCall := n.(*ast.CallExpr)
		if !isCall || !isRefusal.MatchString(v.text(call.Fun)) || v.text(call.Fun) == "field.NewPath" {
			return true
		}
		path := v.text(call.Args[0])
		if all := child.FindAllStringSubmatch(path, -1); len(all) > 0 {
			var names []string
			for _, m := range all {
				names = append(names, strings.NewReplacer(`"`, "", ", ", ".").Replace(m[1]))
			}
			path = strings.Join(names, ".")
		}
		message := v.message(call.Args[len(call.Args)-1])
		found = append(found, "validation of "+path+" | "+cmp.Or(messages[message], message))
		return true
	})
	return found
}

// message returns the text of a message, or the format with which it is made.
func (v validationSource) message(e ast.Expr) string {
	if call, isCall := e.(*ast.CallExpr); isCall && v.text(call.Fun) == "fmt.Sprintf" {
		e = call.Args[0]
	}
	message := v.text(e)
	if s, err := strconv.Unquote(message); err == nil {
		return s
	}
	return message
}

// kubelet returns the kubelet's messages that Windows lacks something, and all errors of its Windows-specific code that starts containers.
func kubelet(t *testing.T, dir string) (found []string) {
	message := regexp.MustCompile(`(?i)windows.*(not support|unsupported|not available|cannot|must not|not allowed|no effect)|(not supported|unsupported|not available|not allowed|no effect|does not exist).*windows`)
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
			if text, err := strconv.Unquote(literal.Value); err == nil && (message.MatchString(text) || slices.Contains(errorTexts, ast.Expr(literal))) {
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
