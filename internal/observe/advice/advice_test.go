package advice_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/observe/advice"
)

func TestEveryReasonHasAdvice(t *testing.T) {
	table := advice.All()
	declared := reasons(t)
	if len(declared) < 100 {
		t.Fatalf("only %d reasons were found in package api", len(declared))
	}
	for name, reason := range declared {
		a, known := table[reason]
		switch {
		case !known:
			t.Errorf("reason %s (api.%s) has no advice", reason, name)
		case a.Severity == advice.OK:
			if a.Remedy != "" || a.Page != "" {
				t.Errorf("reason %s is good, and has a remedy", reason)
			}
		case a.Remedy == "" || a.Page == "":
			t.Errorf("reason %s has no remedy, or names no page", reason)
		}
	}
}

func TestRemediesAreOneSentence(t *testing.T) {
	for reason, a := range advice.All() {
		if a.Severity == advice.OK {
			continue
		}
		if !strings.HasSuffix(a.Remedy, ".") || len(a.Remedy) > 300 || strings.ContainsAny(a.Remedy, "\n\t") {
			t.Errorf("the remedy of %s is not a short sentence: %q", reason, a.Remedy)
		}
		if !slices.Contains([]advice.Severity{advice.Error, advice.Warning, advice.Info}, a.Severity) {
			t.Errorf("reason %s has severity %q", reason, a.Severity)
		}
	}
}

// TestPagesExist expects the heading of each page in docs/, and the reason itself in that document.
func TestPagesExist(t *testing.T) {
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for reason, a := range advice.All() {
		if a.Page == "" {
			continue
		}
		document, heading, _ := strings.Cut(a.Page, "#")
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", document+".md"))
		if err != nil {
			t.Errorf("the page of %s: %v", reason, err)
			continue
		}
		found := heading == ""
		for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(text), -1) {
			found = found || strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-") == heading
		}
		if !found {
			t.Errorf("the page of %s, docs/%s.md, has no heading %q", reason, document, heading)
		}
	}
}

func TestPageURLs(t *testing.T) {
	if got := advice.URL("fleet#drain"); !strings.HasPrefix(got, "https://") || !strings.HasSuffix(got, "/fleet.md#drain") {
		t.Errorf("the address is %s", got)
	}
	if got := (advice.Advice{}).URL(); got != "" {
		t.Errorf("no page has address %s", got)
	}
	if a := (advice.Table{}).For("SomethingNew"); a.Severity != advice.Warning || a.Remedy == "" {
		t.Errorf("an unknown reason gets %+v", a)
	}
}

// reasons returns the constants of package api that name reasons of conditions and events.
func reasons(t *testing.T) map[string]string {
	t.Helper()
	found, aliases := map[string]string{}, map[string]string{}
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "api", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(v.Names[0].Name, "Reason") && !strings.HasPrefix(v.Names[0].Name, "Event") {
				return true
			}
			switch value := v.Values[0].(type) {
			case *ast.BasicLit:
				found[v.Names[0].Name], _ = strconv.Unquote(value.Value)
			case *ast.Ident:
				aliases[v.Names[0].Name] = value.Name
			}
			return true
		})
	}
	for name, of := range aliases {
		found[name] = found[of]
	}
	return found
}
