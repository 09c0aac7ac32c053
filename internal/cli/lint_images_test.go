package cli_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/windows-machine-config/wmco/internal/cli/clitest"
	"github.com/windows-machine-config/wmco/internal/cli/session"
)

// windowsRegistry serves images whose tags are builds. It requires a password.
func windowsRegistry(t *testing.T) (host string, requests *atomic.Int64) {
	t.Helper()
	requests = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if _, password, _ := r.BasicAuth(); password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		tag := filepath.Base(r.URL.Path)
		system, version := "windows", "10.0."+tag+".1"
		if tag == "linux" {
			system, version = "linux", ""
		}
		fmt.Fprintf(w, `{"manifests": [{"platform": {"os": %q, "os.version": %q, "architecture": "amd64"}}]}`, system, version)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), requests
}

func TestLintQueriesRegistriesForBuilds(t *testing.T) {
	registry, requests := windowsRegistry(t)
	auth := filepath.Join(t.TempDir(), "auth.json")
	text := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, registry, base64.StdEncoding.EncodeToString([]byte("u:secret")))
	if err := os.WriteFile(auth, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("REGISTRY_AUTH_FILE", auth)
	pod := func(spec string, images ...string) string {
		y := "kind: Pod\nmetadata: {name: a}\nspec:\n  os: {name: windows}\n  " + spec + "\n  containers:\n"
		for i, image := range images {
			y += fmt.Sprintf("  - {name: c%d, image: %q, resources: {limits: {memory: 1Gi}}}\n", i, registry+"/"+image)
		}
		return y
	}
	for name, test := range map[string]struct {
		pod     string
		code    int
		wantOut []string
	}{
		"the class's build": {pod("runtimeClassName: windows2022", "a:20348"), session.CodeOK, []string{"0 errors, 0 warnings"}},
		"another build": {pod("runtimeClassName: windows2022", "a:17763"), session.CodeFindings,
			[]string{"spec.containers[0].image", "is for 10.0.17763 (Windows Server 2019), which does not run on Windows Server 2022", "RuntimeClass windows2019"}},
		"Hyper-V isolation": {pod("runtimeClassName: windows2022-hyperv", "a:20348"), session.CodeOK, []string{"0 errors, 0 warnings"}},
		"another build, with Hyper-V isolation": {pod("runtimeClassName: windows2022-hyperv", "a:17763"), session.CodeFindings,
			[]string{"which does not run on Windows Server 2022", "containerd pulls images for the build of the node", "RuntimeClass windows2019-hyperv"}},
		"a newer one":     {pod("runtimeClassName: windows2022", "a:26100"), session.CodeFindings, []string{"does not run on Windows Server 2022"}},
		"an older one":    {pod("runtimeClassName: windows2025", "a:20348"), session.CodeOK, []string{"0 errors"}},
		"two in common":   {pod("runtimeClassName: w", "a:20348", "a:26100"), session.CodeOK, []string{"0 errors"}},
		"two without":     {pod("runtimeClassName: w", "a:17763", "a:26100"), session.CodeFindings, []string{"containers[1].image", "nodes that run the preceding images"}},
		"no such Windows": {pod("runtimeClassName: w", "a:14393"), session.CodeFindings, []string{"does not run on any supported Windows Server"}},
		"not for Windows": {pod("runtimeClassName: w", "a:linux"), session.CodeFindings, []string{"is not for Windows"}},
		"a node's build":  {pod("nodeSelector: {node.kubernetes.io/windows-build: 10.0.17763}\n  runtimeClassName: w", "a:20348"), session.CodeFindings, []string{"nodes with 10.0.17763"}},
		"host process":    {pod("runtimeClassName: windows2022\n  hostNetwork: true\n  securityContext: {windowsOptions: {hostProcess: true, runAsUserName: a}}", "a:17763"), session.CodeOK, []string{"0 errors"}},
		"a registry on this machine": {strings.ReplaceAll(pod("runtimeClassName: w", "a:20348"), registry, "localhost:1"), session.CodeOK,
			[]string{"could not be read", "is not an address of a registry", "use --registry"}},
		"a cloud's metadata": {strings.ReplaceAll(pod("runtimeClassName: w", "a:20348"), registry, "169.254.169.254"), session.CodeOK, []string{"not an address of a registry"}},
		"no registry":        {strings.ReplaceAll(pod("runtimeClassName: w", "a:20348"), registry, "127.0.0.1:1"), session.CodeOK, []string{"could not be read", "1 warning."}},
		"a name that is no":  {pod("runtimeClassName: w", "A B"), session.CodeOK, []string{"could not be read", "1 warning."}},
	} {
		t.Run(name, func(t *testing.T) {
			r := clitest.New(t).Run(t, test.pod, "lint", "-f", "-", "--images", "--registry", registry, "--registry", "127.0.0.1:1")
			if r.Code != test.code {
				t.Errorf("exit code %d, want %d", r.Code, test.code)
			}
			for _, text := range test.wantOut {
				if !strings.Contains(r.Out, text) {
					t.Errorf("missing in the output: %q", text)
				}
			}
			if t.Failed() {
				t.Log(r.Out, r.Err)
			}
		})
	}
	t.Run("each image once", func(t *testing.T) {
		requests.Store(0)
		several := strings.Repeat(pod("runtimeClassName: windows2022", "b:20348", "b:20348")+"---\n", 20)
		if r := clitest.New(t).Run(t, several, "lint", "-f", "-", "--images", "--registry", registry); r.Code != session.CodeOK || requests.Load() != 2 { // one without the password
			t.Errorf("exit code %d, %d requests: %s", r.Code, requests.Load(), r.Out)
		}
	})
	t.Run("without the password", func(t *testing.T) {
		t.Setenv("REGISTRY_AUTH_FILE", filepath.Join(t.TempDir(), "none"))
		t.Setenv("DOCKER_CONFIG", t.TempDir())
		r := clitest.New(t).Run(t, pod("runtimeClassName: w", "a:20348"), "lint", "-f", "-", "--images", "--registry", registry)
		if r.Code != session.CodeOK || !strings.Contains(r.Out, "could not be read") || strings.Contains(r.Out+r.Err, "secret") {
			t.Errorf("exit code %d: %s%s", r.Code, r.Out, r.Err)
		}
	})
}
