//go:build linux

package doctest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/windows-machine-config/wmco/lab/image"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// mistake is a mistake with which the operator does not start. The pod reports message, which docs/troubleshooting.md explains.
type mistake struct {
	name    string
	apply   func(context.Context) error
	message string
}

// testMistakes makes one mistake after the other in the installation in namespace windows.
func (i *installation) testMistakes(t *testing.T) {
	registry := i.env.Pod.Registry()
	setImage := func(name string) func(context.Context) error {
		return i.do("kubectl set image deployment/windows-machine-config-operator -n windows manager=" + name)
	}
	const repository = "windows-machine-config/wmco"
	other, err := image.NewLinux("riscv64", []byte("a program"))
	if err == nil {
		err = registry.PushIndex(t.Context(), repository, "riscv64", other, v1.Platform{OS: "linux", Architecture: "riscv64"})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []mistake{
		{"missing image", setImage(testenv.OperatorRepository + ":v9.9.9"), "not found"},
		{"image for another architecture", setImage(testenv.OperatorRepository + ":riscv64"), "no match for platform in manifest"},
		{"unreachable registry", i.all(func(context.Context) error { registry.Stop(); return nil }, setImage(testenv.OperatorRepository+":v9.9.8")), "connection refused"},
		{"missing CRDs", i.all(registry.Start, i.do("kubectl delete -f deploy/crds"), setImage(testenv.OperatorRepository+":v0.1.0")), "the API server does not serve"},
	} {
		t.Run(m.name, func(t *testing.T) { i.expectReported(t, m) })
	}
}

// expectReported makes a mistake, and expects that the pod reports its message and that docs/troubleshooting.md has it.
func (i *installation) expectReported(t *testing.T, m mistake) {
	text, err := os.ReadFile(i.root + "/docs/troubleshooting.md")
	if err == nil {
		err = m.apply(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## The operator does not start\n")
	if section, _, _ = strings.Cut(section, "\n## "); !strings.Contains(section, "`"+m.message) {
		t.Errorf("docs/troubleshooting.md does not have message %q", m.message)
	}
	testenv.Eventually(t, waitTimeout, "the pod reports "+m.message, func(ctx context.Context) string {
		const states = `{range .items[*].status.containerStatuses[*]}{.state.waiting.message}{.state.terminated.message}{.lastState.terminated.message}{"\n"}{end}`
		got, err := i.shell.Output(ctx, i.dir, "kubectl get pods -n windows -o jsonpath='"+states+"'")
		if err != nil || !strings.Contains(got, m.message) {
			return fmt.Sprintf("got messages %q (error %v)", got, err)
		}
		return ""
	})
}
