package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// retiredWords returns words that administrators and developers do not search for, with their replacements. docs/glossary.md has
// this project's own terms.
func retiredWords() map[string]string {
	return map[string]string{
		"adorn":    "sync the metadata of a node",
		"career":   "restart history",
		"carefree": "what it ignores",
		"eager":    "read ahead",
		"forgive":  "clear a failure",
		"gift":     "reservation",
		"keeper":   "what it manages, such as reconciler or supervisor",
		"luck":     "chance",
		"mend":     "repair",
		"obstacle": "start blocker",
		"outlook":  "cache",
		"poke":     "wake",
		"poked":    "woken",
		"tend":     "reconcile",
		"untold":   "unreported",
		"wish":     "desired",
		"wishes":   "desired",
	}
}

// TestIdentifiersUseStandardTerms rejects retired words in the names that programs declare.
func TestIdentifiersUseStandardTerms(t *testing.T) {
	inRoot(t)
	word := regexp.MustCompile(`[A-Z]+(?:[^a-z]|$)|[A-Z]?[a-z]+`)
	instead := retiredWords()
	fset, packages := sources(t)
	for _, p := range packages {
		for _, name := range slices.Sorted(maps.Keys(p.files)) {
			declared(p.files[name], func(id *ast.Ident) {
				for _, w := range word.FindAllString(id.Name, -1) {
					if better, retired := instead[strings.ToLower(w)]; retired {
						t.Errorf("%s: %s contains the retired word %q; use %s", fset.Position(id.Pos()), id.Name, strings.ToLower(w), better)
					}
				}
			})
		}
	}
}

// declared visits the names that a file declares: types, functions, fields, constants, variables and parameters.
func declared(file *ast.File, visit func(*ast.Ident)) {
	ast.Inspect(file, func(n ast.Node) bool {
		var names []*ast.Ident
		switch n := n.(type) {
		case *ast.TypeSpec:
			names = []*ast.Ident{n.Name}
		case *ast.FuncDecl:
			names = []*ast.Ident{n.Name}
		case *ast.Field:
			names = n.Names
		case *ast.ValueSpec:
			names = n.Names
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, e := range n.Lhs {
					if id, ok := e.(*ast.Ident); ok {
						names = append(names, id)
					}
				}
			}
		}
		for _, id := range names {
			visit(id)
		}
		return true
	})
}

// TestLabAndPayloadUseStandardTerms rejects words in code, comments and messages of the lab, its tests, and packages that no
// longer have such words; and in the comments of deploy/, which administrators read.
func TestLabAndPayloadUseStandardTerms(t *testing.T) {
	inRoot(t)
	retired := regexp.MustCompile(`(?i)\b(anew|mend|mends|mended|mending|whoever|in vain|carriers?|keepers?|luck|unlucky|looks at|looked at|is asked for|was asked for|the world)\b`)
	unspecific := regexp.MustCompile(`(?i)\b(somebody|nobody|shall|wish(es)?|pokes?|poked|career|trouble)\b`)
	check := func(name string, text []byte) {
		isTest := strings.HasSuffix(name, "_test.go")
		for n, line := range strings.Split(string(text), "\n") {
			word := retired.FindString(line)
			if word == "" && !isTest {
				word = unspecific.FindString(line)
			}
			if word != "" {
				t.Errorf("%s:%d contains %q; use the terms of docs/glossary.md, of Kubernetes and of Windows", name, n+1, word)
			}
		}
	}
	for _, folder := range []string{"lab", "payload", "internal/node/overlay", "internal/testing/sim", "internal/testing/sshserver", "internal/node/win", "internal/shared/hns", "cmd/wicd-setup", "cmd/hybrid-overlay-node"} {
		eachGoFile(t, folder, check)
	}
	manifests, err := filepath.Glob("deploy/*.yaml")
	if err != nil || len(manifests) == 0 {
		t.Fatalf("deploy/ has %d manifests: %v", len(manifests), err)
	}
	for _, name := range append(manifests, "Makefile") {
		check(name, []byte(read(t, name)))
	}
}

// TestCommentsAreInPlainEnglish rejects unusual words in comments, unless they are names in the file.
func TestCommentsAreInPlainEnglish(t *testing.T) {
	inRoot(t)
	unusual := unusualWords()
	inComments := regexp.MustCompile(`(?i)\b(told|tells?|telling|somebody|looked at|looks at|goes on|of ours|by itself|by themselves|sees to it|besides|says whether)\b`)
	eachGoFile(t, ".", func(name string, text []byte) {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
		must(t, err)
		names := map[string]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				names[id.Name] = true
			}
			return true
		})
		for _, group := range file.Comments {
			for _, comment := range group.List {
				for _, word := range append(unusual.FindAllString(comment.Text, -1), inComments.FindAllString(comment.Text, -1)...) {
					if !names[word] {
						t.Errorf("%s: the comment contains %q; use the terms of docs/glossary.md, of Kubernetes and of Windows", fset.Position(comment.Pos()), word)
					}
				}
			}
		}
	})
}

// unusualWords returns an expression that matches words that administrators do not search for, in the output of
// programs and in documents.
func unusualWords() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(anew|mend|mends|mended|mending|shall|whoever|nobody|in vain|come to|wishes)\b`)
}

// TestOutputUsesStandardTerms rejects words in the output of programs: logs, events, conditions, errors and help.
func TestOutputUsesStandardTerms(t *testing.T) {
	inRoot(t)
	unusual := unusualWords()
	fset, packages := sources(t)
	for _, p := range packages {
		if strings.HasPrefix(p.dir, "internal/testing/sim") {
			continue // the messages of a simulated Windows are for tests
		}
		for _, name := range slices.Sorted(maps.Keys(p.files)) {
			ast.Inspect(p.files[name], func(n ast.Node) bool {
				if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
					if w := unusual.FindString(text.Value); w != "" {
						t.Errorf("%s: %s contains %q; use the terms of docs/glossary.md and of Kubernetes", fset.Position(text.Pos()), text.Value, w)
					}
				}
				return true
			})
		}
	}
}
