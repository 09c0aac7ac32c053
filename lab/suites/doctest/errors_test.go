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

// mistake is a mistake with which the operator does not start, and the message in its pod's log. docs/troubleshooting.md has the same message.
type mistake struct {
	name string
	do   func(context.Context) error
	says string
}

// mistakes makes one mistake after the other in the installation in namespace windows.
func (i *installation) mistakes(t *testing.T) {
	registry := i.env.Pod.Registry()
	use := func(name string) func(context.Context) error {
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
		{"no such image", use(testenv.OperatorRepository + ":v9.9.9"), "not found"},
		{"an image for other processors", use(testenv.OperatorRepository + ":riscv64"), "no match for platform in manifest"},
		{"a registry that does not answer", i.all(func(context.Context) error { registry.Stop(); return nil }, use(testenv.OperatorRepository+":v9.9.8")), "connection refused"},
		{"no kinds", i.all(registry.Start, i.do("kubectl delete -f deploy/crds"), use(testenv.OperatorRepository+":v0.1.0")), "the API server does not serve"},
	} {
		t.Run(m.name, func(t *testing.T) { i.expectTold(t, m) })
	}
}

func (i *installation) expectTold(t *testing.T, m mistake) {
	text, err := os.ReadFile(i.root + "/docs/troubleshooting.md")
	if err == nil {
		err = m.do(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## The operator does not start\n")
	if section, _, _ = strings.Cut(section, "\n## "); !strings.Contains(section, "`"+m.says) {
		t.Errorf("docs/troubleshooting.md does not tell of %q", m.says)
	}
	testenv.Eventually(t, patience, "the pod says "+m.says, func(ctx context.Context) string {
		const states = `{range .items[*].status.containerStatuses[*]}{.state.waiting.message}{.state.terminated.message}{.lastState.terminated.message}{"\n"}{end}`
		reported, err := i.shell.Output(ctx, i.dir, "kubectl get pods -n windows -o jsonpath='"+states+"'")
		if err != nil || !strings.Contains(reported, m.says) {
			return fmt.Sprintf("it says %q (%v)", reported, err)
		}
		return ""
	})
}
