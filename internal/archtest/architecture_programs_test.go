package archtest

import (
	"bufio"
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgramsOnHostsAreLinkedWithoutUnusedMethods: a call of reflect's Method or MethodByName with a name that the linker cannot know keeps all
// exported methods of a program. text/template has such a call.
func TestProgramsOnHostsAreLinkedWithoutUnusedMethods(t *testing.T) {
	inRoot(t)
	for _, program := range []string{"./cmd/wicd", "./cmd/hybrid-overlay-node", "./cmd/wicd-cni", "./cmd/wicd-setup"} {
		build := exec.Command("go", "build", "-ldflags=-dumpdep", "-o", filepath.Join(t.TempDir(), "program"), program)
		build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64")
		out, err := build.StderrPipe()
		must(t, err)
		must(t, build.Start())
		lines, found := 0, ""
		for scanner := bufio.NewScanner(out); scanner.Scan(); lines++ {
			if strings.Contains(scanner.Text(), "<ReflectMethod>") && found == "" {
				found = scanner.Text()
			}
		}
		if err := build.Wait(); err != nil || lines == 0 {
			t.Errorf("building %s: %v, %d dependencies", program, err, lines)
		}
		if found != "" {
			t.Errorf("%s has all exported methods of its libraries, because of %s", program, found)
		}
	}
}

// TestProgramOutputHasWaitDelay: if another process, such as a child, holds the output pipe of a program, the pipe never ends. Unless
// WaitDelay is set, its reader waits forever, whatever deadline the program had.
func TestProgramOutputHasWaitDelay(t *testing.T) {
	inRoot(t)
	fset, packages := sources(t)
	for _, p := range packages {
		if !strings.HasPrefix(p.dir, "internal/") && !strings.HasPrefix(p.dir, "cmd/") {
			continue // does not run on a host
		}
		for _, file := range p.files {
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				if starts, limits := startsPrograms(f); starts && !limits {
					t.Errorf("%s: %s starts a program and can wait forever for other processes that hold its output; set WaitDelay", fset.Position(f.Pos()), f.Name.Name)
				}
			}
		}
	}
}

// startsPrograms reports whether a function starts a program with a deadline, and whether it limits the wait for its output.
func startsPrograms(f *ast.FuncDecl) (starts, limits bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			starts = starts || selector(n) == "exec.CommandContext"
			limits = limits || n.Sel.Name == "WaitDelay" || n.Sel.Name == "Start" // Start reads nothing
		case *ast.Ident:
			limits = limits || n.Name == "outputOf"
		}
		return true
	})
	return starts, limits
}
