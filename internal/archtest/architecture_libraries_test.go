package archtest

import (
	"strings"
	"testing"
)

// TestProgramsOnHostsHaveNoClientGo: it would be a quarter of WICD (decision 48). Tests may use it.
func TestProgramsOnHostsHaveNoClientGo(t *testing.T) {
	inRoot(t)
	_, packages := sources(t)
	for _, p := range packages {
		if !strings.HasPrefix(p.dir, "internal/node/") && !strings.HasPrefix(p.dir, "internal/shared/") && p.dir != "cmd/wicd" {
			continue
		}
		for name, file := range p.files {
			for _, i := range file.Imports {
				if strings.HasPrefix(strings.Trim(i.Path.Value, `"`), "k8s.io/client-go/") {
					t.Errorf("%s imports %s; use internal/node/kubeapi", name, i.Path.Value)
				}
			}
		}
	}
}

// TestLibrariesOfTheCommandLineStayThere keeps libraries for terminals and command lines out of the operator.
func TestLibrariesOfTheCommandLineStayThere(t *testing.T) {
	inRoot(t)
	_, packages := sources(t)
	for _, p := range packages {
		if p.dir == "cmd/kubectl-windows" || p.dir == "hack/generate" || p.dir == "internal/cli" || strings.HasPrefix(p.dir, "internal/cli/") {
			continue
		}
		for name, file := range p.files {
			for _, i := range file.Imports {
				for _, library := range []string{"charm.land/", "github.com/charmbracelet/", "github.com/spf13/", "k8s.io/cli-runtime/"} {
					if strings.HasPrefix(strings.Trim(i.Path.Value, `"`), library) {
						t.Errorf("%s imports %s; only kubectl windows may", name, i.Path.Value)
					}
				}
			}
		}
	}
}
