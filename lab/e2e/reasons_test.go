//go:build linux

package e2e

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// expectDeclaredReasons reads the events that the operator and WICD reported in a test: each reason must be declared in api, so that programs and
// documents can rely on it.
func expectDeclaredReasons(t *testing.T, env *testenv.Env) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var events eventsv1.EventList
	if err := env.Client.List(ctx, &events); err != nil {
		t.Logf("listing events: %v", err) // tests may stop the API server
		return
	}
	declared := declaredReasons(t)
	for _, e := range events.Items {
		ours := e.ReportingController == api.WICDService || e.ReportingController == testenv.OperatorAccount
		if ours && !slices.Contains(declared, e.Reason) {
			t.Errorf("event %q of %s %s has reason %s, which api does not declare", e.Note, e.Regarding.Kind, e.Regarding.Name, e.Reason)
		}
	}
}

// declaredReasons returns the values of all constants of api.
func declaredReasons(t *testing.T) (all []string) {
	t.Helper()
	files, err := filepath.Glob("../../api/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Reason") && !strings.HasPrefix(spec.Names[0].Name, "Event") {
				return true
			}
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
				value, _ := strconv.Unquote(literal.Value)
				all = append(all, value)
			}
			return true
		})
	}
	return all
}
