package cli_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/cli/clitest"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/payload"
)

func sha(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// content returns a payload with programs of the given versions.
func content(versions map[string]string) payload.Manifest {
	var files []payload.File
	for _, f := range []struct{ path, group string }{
		{"containerd/containerd.exe", payload.Base}, {"windows-exporter.exe", payload.Base},
		{"kubelet.exe", payload.Kubernetes("1.36")}, {"kubelet.exe", payload.Kubernetes("1.35")}, {"flanneld.exe", payload.Flannel},
	} {
		version := "v1.0.0"
		if f.path == "kubelet.exe" {
			version = "v" + strings.TrimPrefix(f.group, "kubernetes-") + ".1"
		}
		if v := versions[f.path]; v != "" {
			version = v
		}
		component := strings.TrimSuffix(filepath.Base(f.path), ".exe")
		sum := sha(f.path + version)
		files = append(files, payload.File{
			Path: f.path, Component: component, Version: version, Group: f.group, SHA256: sum, Size: 1, Compressed: payload.Blob{SHA256: sum, Size: 1},
		})
	}
	return payload.New(files, payload.File{})
}

// operatorRegistry serves the operator's image, as an index, with labels.
func operatorRegistry(t *testing.T, labels map[string]string) (host string) {
	t.Helper()
	config, err := json.Marshal(map[string]any{"os": "linux", "config": map[string]any{"Labels": labels}})
	if err != nil {
		t.Fatal(err)
	}
	manifest := fmt.Sprintf(`{"config": {"digest": "sha256:%s"}}`, sha(string(config)))
	index := fmt.Sprintf(`{"manifests": [{"digest": "sha256:%s", "platform": {"os": "linux", "architecture": "arm64"}}, {"digest": "sha256:%s", "platform": {"os": "linux", "architecture": "amd64"}}]}`,
		strings.Repeat("0", 64), sha(manifest))
	answers := map[string]string{
		"/v2/wmco/manifests/1.3.0": index, "/v2/wmco/manifests/sha256:" + sha(manifest): manifest, "/v2/wmco/blobs/sha256:" + sha(string(config)): string(config),
		"/v2/wmco/manifests/nested": strings.ReplaceAll(index, sha(manifest), sha(index)), "/v2/wmco/manifests/sha256:" + sha(index): index,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, found := answers[r.URL.Path]
		if !found {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// published returns the cluster upgrading with the nodes' current settings, on an API server of a version.
func published(t *testing.T, server string) *clitest.Cluster {
	c := upgrading(t)
	before := content(nil).Select(payload.Base, payload.Kubernetes("1.36"))
	n := desired.Node{Version: "1.0.0-3f9a2c1", Digest: before.Digest}
	for _, f := range before.Files {
		path := strings.ReplaceAll(f.Path, "/", `\`)
		n.Payload = append(n.Payload, desired.PayloadFile{Path: path, SHA256: f.SHA256, Size: f.Size})
		n.Services = append(n.Services, desired.Service{Name: f.Component, Command: desired.VersionFolder(n.Digest) + `\` + path})
	}
	data, err := n.Data()
	if err != nil {
		t.Fatal(err)
	}
	c.Add("v1/configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.ServicesConfigMapPrefix + n.Version}, Data: data})
	c.Handle("/version", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"gitVersion": %q}`, server) }))
	return c
}

func labelWith(t *testing.T, m payload.Manifest) map[string]string {
	t.Helper()
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{api.ImageLabelPayload: string(text), "org.opencontainers.image.version": "1.3.0"}
}

// TestPlanComparesImageContent compares the content of nodes with that of another operator's image.
func TestPlanComparesImageContent(t *testing.T) {
	t.Setenv("REGISTRY_AUTH_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	for name, test := range map[string]struct {
		versions   map[string]string
		server     string
		disruption string
	}{
		"another containerd":      {map[string]string{"containerd/containerd.exe": "v2"}, "v1.36.2", "Drain"},
		"another exporter":        {map[string]string{"windows-exporter.exe": "v2"}, "v1.36.2", "Restart"},
		"what the node lacks":     {map[string]string{"flanneld.exe": "v2"}, "v1.36.2", "Restart"}, // all programs run from another folder
		"another kubelet":         {map[string]string{"kubelet.exe": "v1.36.2"}, "v1.37.0", "Drain"},
		"the kubelet of a server": {nil, "v1.35.4", "Drain"},
	} {
		t.Run(name, func(t *testing.T) {
			registry := operatorRegistry(t, labelWith(t, content(test.versions)))
			r := published(t, test.server).Run(t, "", "plan", "--upgrade", "--image", registry+"/wmco:1.3.0", "-o", "json")
			var got struct {
				Version string
				Steps   []struct{ Host, Action, Disruption string }
				Notes   []string
			}
			if err := json.Unmarshal([]byte(r.Out), &got); err != nil {
				t.Fatal(err, r.Err)
			}
			minor := strings.Join(strings.Split(test.server, ".")[:2], ".")[1:]
			if minor == "1.37" {
				minor = "1.36"
			}
			upgrades := 0
			for _, s := range got.Steps {
				if s.Action == "Upgrade" && s.Host != "win-2" { // win-2 is being upgraded
					upgrades++
					if s.Disruption != test.disruption {
						t.Errorf("%s: %s", s.Host, s.Disruption)
					}
				}
			}
			if upgrades == 0 || !strings.HasPrefix(got.Version, "1.3.0-k"+minor+"-") || len(got.Notes) == 0 {
				t.Errorf("version %s, %d upgrades, notes %q", got.Version, upgrades, got.Notes)
			}
		})
	}
}

// chart returns a packaged chart with a file.
func chart(t *testing.T, name, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for file, content := range map[string]string{"wmco/charts/x/values.yaml": "image: {repository: wrong}", name: text} {
		if err := w.WriteHeader(&tar.Header{Name: file, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte(content))
	}
	if w.Close() != nil || z.Close() != nil {
		t.Fatal("writing the chart")
	}
	file := filepath.Join(t.TempDir(), "wmco.tgz")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestPlanRejectsNonOperatorImage(t *testing.T) {
	t.Setenv("REGISTRY_AUTH_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	good := operatorRegistry(t, labelWith(t, content(nil)))
	other := operatorRegistry(t, map[string]string{"a": "b"})
	broken := operatorRegistry(t, map[string]string{api.ImageLabelPayload: `{"files": [{"path": "../../x"}]}`})
	repository := func(registry string) string { return "image: {repository: " + registry + "/wmco, tag: 1.3.0}" }
	for name, test := range map[string]struct {
		args    []string
		server  string
		code    int
		wantErr string
	}{
		"a chart":              {[]string{"--upgrade", "--chart", chart(t, "wmco/values.yaml", repository(good))}, "v1.36.1", session.CodeOK, ""},
		"a chart without":      {[]string{"--upgrade", "--chart", chart(t, "wmco/x.yaml", "")}, "v1.36.1", session.CodeUsage, "has no values.yaml"},
		"values without":       {[]string{"--upgrade", "--chart", chart(t, "wmco/values.yaml", "a: b")}, "v1.36.1", session.CodeUsage, "has no image.repository"},
		"no chart":             {[]string{"--upgrade", "--chart", "plan_image_test.go"}, "v1.36.1", session.CodeUsage, "is not a packaged chart"},
		"both":                 {[]string{"--upgrade", "--chart", "a", "--image", "b"}, "v1.36.1", session.CodeUsage, "are mutually exclusive"},
		"without --upgrade":    {[]string{"--image", "b"}, "v1.36.1", session.CodeUsage, "require --upgrade"},
		"another image":        {[]string{"--upgrade", "--image", other + "/wmco:1.3.0"}, "v1.36.1", session.CodeUsage, "has no label"},
		"a broken label":       {[]string{"--upgrade", "--image", broken + "/wmco:1.3.0"}, "v1.36.1", session.CodeFailed, "files[0]"},
		"an index in an index": {[]string{"--upgrade", "--image", good + "/wmco:nested"}, "v1.36.1", session.CodeFailed, "not an image manifest"},
		"no such tag":          {[]string{"--upgrade", "--image", good + "/wmco:2"}, "v1.36.1", session.CodeFailed, "not found"},
		"an old API server":    {[]string{"--upgrade", "--image", good + "/wmco:1.3.0"}, "v1.34.1", session.CodeFindings, "oldest kubelet of this operator"},
		"a new API server":     {[]string{"--upgrade", "--image", good + "/wmco:1.3.0"}, "v1.40.0", session.CodeFindings, "install an operator with a later kubelet"},
	} {
		t.Run(name, func(t *testing.T) {
			r := published(t, test.server).Run(t, "", append([]string{"plan"}, test.args...)...)
			if r.Code != test.code || !strings.Contains(r.Err, test.wantErr) {
				t.Errorf("exit code %d, want %d: %s, want ...%s...", r.Code, test.code, r.Err, test.wantErr)
			}
		})
	}
}
