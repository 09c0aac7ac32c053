package wmco_test

import (
	"go/ast"
	"strings"
	"testing"
)

// TestProgramsThatEndedAreNotWaitedFor: a program whose output another holds, such as one that it started, has a pipe that never ends. Whoever
// reads it waits for ever, whatever deadline the program had, unless WaitDelay is set.
func TestProgramsThatEndedAreNotWaitedFor(t *testing.T) {
	fset, packages := sources(t)
	for _, p := range packages {
		if !strings.HasPrefix(p.dir, "internal/") && !strings.HasPrefix(p.dir, "cmd/") {
			continue // it is not on a host
		}
		for _, file := range p.files {
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				if starts, limits := startsPrograms(f); starts && !limits {
					t.Errorf("%s: %s starts a program and can wait for ever for those that hold its output; set WaitDelay", fset.Position(f.Pos()), f.Name.Name)
				}
			}
		}
	}
}

// startsPrograms says whether a function starts a program with a deadline, and whether it limits how long it waits for its output.
func startsPrograms(f *ast.FuncDecl) (starts, limits bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			starts = starts || selector(n) == "exec.CommandContext"
			limits = limits || n.Sel.Name == "WaitDelay" || n.Sel.Name == "Start" // which reads nothing
		case *ast.Ident:
			limits = limits || n.Name == "outputOf"
		}
		return true
	})
	return starts, limits
}
