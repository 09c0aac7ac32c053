package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// reasonsOfAPI returns the values of the constants in api that are reasons of conditions and events, each with the name of one
// constant.
func reasonsOfAPI(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("api/*.go")
	must(t, err)
	reasons := map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !isReason(spec.Names[0].Name) {
				return true
			}
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
				value, _ := strconv.Unquote(literal.Value)
				reasons[value] = spec.Names[0].Name
			}
			return true
		})
	}
	if len(reasons) < 100 {
		t.Fatalf("api has only %d reasons", len(reasons))
	}
	return reasons
}

// isReason reports whether a constant of api is a reason.
func isReason(name string) bool {
	return strings.HasPrefix(name, "Reason") || strings.HasPrefix(name, "Event") || name == "ApprovalReason"
}

// TestReasonsAreStable: programs compare the reasons of conditions and events, and documents have a section for each. Each reason is
// therefore a word in CamelCase, and is written only in api.
func TestReasonsAreStable(t *testing.T) {
	inRoot(t)
	reasons := reasonsOfAPI(t)
	for value, name := range reasons {
		if !regexp.MustCompile(`^[A-Z][A-Za-z0-9]{2,39}$`).MatchString(value) {
			t.Errorf("%s is %q; a reason is one word in CamelCase of at most 40 characters", name, value)
		}
	}
	fset, packages := sources(t)
	for _, p := range packages {
		if !hasReasons(p.dir) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(p.files)) {
			ast.Inspect(p.files[name], func(n ast.Node) bool {
				if at, text := literalReason(n); text != "" {
					t.Errorf("%s: reason %s is written as text; declare it in api/conditions.go or api/events.go", fset.Position(at), text)
				}
				return true
			})
		}
	}
}

// hasReasons reports whether the reasons in a package are those of conditions or events. In other packages, a reason is a
// sentence, or the answer of a third-party server.
func hasReasons(dir string) bool {
	for _, prefix := range []string{"internal/operator/lease", "internal/operator/controllers", "internal/node/daemon", "internal/operator/join", "internal/operator/kube"} {
		if dir == prefix || strings.HasPrefix(dir, prefix+"/") {
			return dir != "internal/operator/controllers/controllertest"
		}
	}
	return false
}

// literalReason returns a literal used as the reason of an event, a condition or an error with a reason. The reason of join.Rebooting
// is a sentence.
func literalReason(n ast.Node) (at token.Pos, text string) {
	composite, ok := n.(*ast.CompositeLit)
	if !ok {
		return token.NoPos, ""
	}
	if name, ok := composite.Type.(*ast.Ident); ok && name.Name == "Rebooting" {
		return token.NoPos, ""
	}
	if name, ok := composite.Type.(*ast.SelectorExpr); ok && name.Sel.Name == "Rebooting" {
		return token.NoPos, ""
	}
	for _, element := range composite.Elts {
		field, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, ok := field.Key.(*ast.Ident)
		if !ok || key.Name != "Reason" {
			continue
		}
		if literal, ok := field.Value.(*ast.BasicLit); ok {
			return literal.Pos(), literal.Value
		}
	}
	return token.NoPos, ""
}

// TestEventsAreDeclared checks the reason of every event where it is created: the reason is a constant of api, or that of a
// condition, which TestReasonsAreStable checks.
func TestEventsAreDeclared(t *testing.T) {
	inRoot(t)
	fset, packages := sources(t)
	found := 0
	for _, p := range packages {
		if !hasReasons(p.dir) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(p.files)) {
			ast.Inspect(p.files[name], func(n ast.Node) bool {
				reason, ok := eventReason(n)
				if !ok {
					return true
				}
				found++
				switch e := reason.(type) {
				case *ast.SelectorExpr:
					from, _ := e.X.(*ast.Ident)
					if from != nil && from.Name == "api" && isReason(e.Sel.Name) || strings.EqualFold(e.Sel.Name, "reason") {
						return true
					}
				case *ast.Ident:
					if e.Name == "reason" {
						return true
					}
				}
				t.Errorf("%s: the reason of this event is not a constant of api", fset.Position(n.Pos()))
				return true
			})
		}
	}
	if found < 30 {
		t.Errorf("only %d events were found", found)
	}
}

// eventReason returns the reason of a kube.Event or a nodestatus.Problem.
func eventReason(n ast.Node) (ast.Expr, bool) {
	composite, ok := n.(*ast.CompositeLit)
	if !ok {
		return nil, false
	}
	kind := ""
	switch t := composite.Type.(type) {
	case *ast.Ident:
		kind = t.Name
	case *ast.SelectorExpr:
		kind = t.Sel.Name
	}
	if kind != "Event" && kind != "Problem" {
		return nil, false
	}
	for _, element := range composite.Elts {
		if field, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := field.Key.(*ast.Ident); ok && key.Name == "Reason" {
				return field.Value, true
			}
		}
	}
	return nil, false
}
