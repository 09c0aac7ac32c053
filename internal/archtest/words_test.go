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
		"adder":      "the function it is, such as addFunc",
		"adorn":      "sync the metadata of a node",
		"career":     "restart history",
		"carefree":   "what it ignores",
		"cargo":      "payload",
		"culprit":    "failing",
		"deaths":     "exits",
		"eager":      "read ahead",
		"everybodys": "of everyone",
		"forgive":    "clear a failure",
		"gift":       "reservation",
		"habit":      "tactic",
		"hider":      "redactor",
		"hopeless":   "needs an administrator",
		"impatient":  "without pauses",
		"judgement":  "evaluation or comparison",
		"keeper":     "what it manages, such as reconciler or supervisor",
		"leaver":     "leaving computer",
		"luck":       "chance",
		"mend":       "repair",
		"mood":       "fault",
		"nobodys":    "unassigned",
		"obstacle":   "start blocker",
		"outlook":    "cache",
		"patience":   "timeout",
		"poke":       "wake",
		"poked":      "woken",
		"seldom":     "the interval, such as idle interval",
		"shelf":      "fake registry",
		"spoil":      "corrupt or damage",
		"strangers":  "unproven or foreign",
		"stubborn":   "repeated",
		"tend":       "reconcile",
		"troubles":   "disruptions",
		"unkind":     "quirky",
		"unlucky":    "failing",
		"unrun":      "not run",
		"untold":     "unreported",
		"wish":       "desired",
		"wishes":     "desired",
	}
}

// TestIdentifiersUseStandardTerms rejects retired words in the names that the repository declares, with those of tests and of the lab.
func TestIdentifiersUseStandardTerms(t *testing.T) {
	inRoot(t)
	word := regexp.MustCompile(`[A-Z]+(?:[^a-z]|$)|[A-Z]?[a-z]+`)
	phrase := regexp.MustCompile(`(?i)bychance|underway`)
	instead := retiredWords()
	eachGoFile(t, ".", func(name string, text []byte) {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, 0)
		must(t, err)
		declared(file, func(id *ast.Ident) {
			if retired := phrase.FindString(id.Name); retired != "" {
				t.Errorf("%s: %s contains %q; use random or in progress", fset.Position(id.Pos()), id.Name, retired)
			}
			for _, w := range word.FindAllString(id.Name, -1) {
				if better, retired := instead[strings.ToLower(w)]; retired {
					t.Errorf("%s: %s contains the retired word %q; use %s", fset.Position(id.Pos()), id.Name, strings.ToLower(w), better)
				}
			}
		})
	})
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
// longer have such words; and in manifests, scripts and workflows, which users, administrators and contributors read.
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
	for _, pattern := range []string{
		"deploy/*.yaml", "Makefile", ".ci/run", ".github/workflows/*.yaml", ".github/*.yml", "hack/*.sh", "internal/operator/userdata/*.ps1",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s matches %d files: %v", pattern, len(files), err)
		}
		for _, name := range files {
			check(name, []byte(read(t, name)))
		}
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
