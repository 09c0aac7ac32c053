//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/image"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestLintReadsImages checks that kubectl windows lint queries a real registry, which requires a password, for the builds of images.
func TestLintReadsImages(t *testing.T) {
	needs(t, lab.CanRunLinuxNodes(), lab.CanRunRegistries())
	l := lab.Start(t, lab.Options{LinuxNode: true, WithoutControlPlane: true})
	r, err := l.StartRegistry(t.Context(), lab.RegistryOptions{Listen: "127.0.0.1", Name: "localhost"})
	must(t, err)
	for _, build := range []string{"10.0.17763.3287", "10.0.20348.2402"} {
		i, err := image.New(build, map[string]string{"a.txt": build})
		must(t, err)
		must(t, r.Push(t.Context(), "shop/single", build, i))
		windows := v1.Platform{OS: "windows", Architecture: "amd64", OSVersion: build}
		must(t, r.PushIndex(t.Context(), "shop/index", build, i, v1.Platform{OS: "linux", Architecture: "amd64"}, windows))
	}
	program, dir := filepath.Join(t.TempDir(), "kubectl-windows"), t.TempDir()
	root, err := testenv.Repository(t.Context())
	must(t, err)
	must(t, lab.BuildProgram(t.Context(), root, "./cmd/kubectl-windows", program, lab.BuildOptions{}, nil))
	auth := fmt.Sprintf(`{"auths": {%q: {"username": %q, "password": %q}}}`, r.Host, r.User, r.Password)
	must(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(auth), 0o600))
	t.Setenv("DOCKER_CONFIG", dir)
	for _, repository := range []string{"single", "index"} {
		for build, code := range map[string]int{"10.0.17763.3287": session.CodeFindings, "10.0.20348.2402": session.CodeOK} {
			pod := fmt.Sprintf("kind: Pod\nmetadata: {name: a}\nspec: {os: {name: windows}, runtimeClassName: windows2022, containers: [{name: a, image: %q}]}\n",
				r.Host+"/shop/"+repository+":"+build)
			file := filepath.Join(dir, "pod.yaml")
			must(t, os.WriteFile(file, []byte(pod), 0o600))
			result, err := testenv.Plugin{Program: program}.Run(t.Context(), "lint", "-f", file, "--images", "--registry", r.Host)
			must(t, err)
			if mismatch := strings.Contains(result.Out, "(Windows Server 2019), which does not run on Windows Server 2022"); result.Code != code ||
				mismatch != (code != session.CodeOK) || strings.Contains(result.All(), "could not be read") {
				t.Errorf("%s:%s: exit code %d: %s", repository, build, result.Code, result.All())
			}
		}
	}
}
