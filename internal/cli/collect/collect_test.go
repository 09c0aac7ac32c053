package collect_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/clitest"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/shared/supportbundle"
)

const instances = api.GroupName + "/v1alpha1/windowsinstances"

// wicd simulates the operator and WICD of a host: it writes an archive when the annotation is set.
type wicd struct {
	name    string
	archive []byte
	// report modifies the reported status. The kubelet serves logs.
	report func(*supportbundle.Status)
	logs   map[string]string
	// cutAt interrupts the first download after this many bytes.
	cutAt int

	mu  sync.Mutex
	cut bool
}

func zipOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, content := range files {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(f, content)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// ServeHTTP implements http.Handler, as the kubelet behind the API server.
func (h *wicd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, file, _ := strings.Cut(r.URL.Path, "/proxy/logs/")
	h.mu.Lock()
	defer h.mu.Unlock()
	if strings.HasPrefix(file, "collect/") && h.archive != nil {
		if h.cutAt > 0 && !h.cut {
			h.cut = true
			w.Header().Set("Content-Range", "bytes 0-9/10")
			w.Header().Set("Content-Length", "1000000")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(h.archive[:h.cutAt])
			panic(http.ErrAbortHandler)
		}
		http.ServeContent(w, r, "x.zip", time.Time{}, bytes.NewReader(h.archive))
		return
	}
	if text, found := h.logs[file]; found {
		http.ServeContent(w, r, "x.log", time.Time{}, strings.NewReader(text))
		return
	}
	http.NotFound(w, r)
}

// add adds a host to a cluster. The host responds until the test ends.
func (h *wicd) add(t *testing.T, c *clitest.Cluster) {
	t.Helper()
	i := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Name: h.name, Namespace: api.DefaultNamespace}}
	i.Spec.Address, i.Status.Hostname = "10.0.0.1", h.name
	i.Status.NodeRef = &v1alpha1.NodeReference{Name: h.name}
	c.Add(instances, i)
	h.annotate(c, "")
	c.Handle("/api/v1/nodes/"+h.name+"/proxy/", h)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			o := c.Object("/apis/" + api.GroupName + "/v1alpha1/namespaces/" + api.DefaultNamespace + "/windowsinstances/" + h.name)
			id := o.GetAnnotations()[api.AnnotationCollect]
			if id == "" || h.report == nil && h.archive == nil {
				continue
			}
			sum := sha256.Sum256(h.archive)
			s := supportbundle.Status{ID: id, State: supportbundle.Done, Time: time.Now(), Bytes: int64(len(h.archive)), SHA256: hex.EncodeToString(sum[:])}
			if h.report != nil {
				h.report(&s)
			}
			h.annotate(c, s.Annotation())
		}
	}()
}

func (h *wicd) annotate(c *clitest.Cluster, collected string) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.name, Labels: map[string]string{corev1.LabelOSStable: "windows"}}}
	if collected != "" {
		n.Annotations = map[string]string{api.AnnotationCollected: collected}
	}
	c.Add("v1/nodes", n)
}

func newCluster(t *testing.T, hosts ...*wicd) *clitest.Cluster {
	t.Helper()
	c := clitest.New(t, "/apis/"+instances, "/apis/"+api.GroupName+"/v1alpha1/windowsconfigs", "/api/v1/nodes", "/api/v1/pods", "/api/v1/events", "/api/v1/configmaps",
		"/apis/apps/v1/deployments", "/apis/certificates.k8s.io/v1/certificatesigningrequests")
	for _, h := range hosts {
		h.add(t, c)
	}
	return c
}

// unzip returns the files of the archive that was written.
func unzip(t *testing.T, file string) map[string]string {
	t.Helper()
	r, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	files := map[string]string{}
	for _, f := range r.File {
		content, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(content)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		files[f.Name] = string(text)
	}
	return files
}

func expectAnnotationsRemoved(t *testing.T, c *clitest.Cluster, hosts ...string) {
	t.Helper()
	for _, name := range hosts {
		o := c.Object("/apis/" + api.GroupName + "/v1alpha1/namespaces/" + api.DefaultNamespace + "/windowsinstances/" + name)
		if id := o.GetAnnotations()[api.AnnotationCollect]; id != "" {
			t.Errorf("%s still has collect annotation %q", name, id)
		}
	}
}

func TestCollectingFromSeveralHosts(t *testing.T) {
	one := &wicd{name: "win-1", archive: zipOf(t, map[string]string{"manifest.json": "{}", "logs/kubelet/kubelet.log": "of win-1"}), cutAt: 20}
	two := &wicd{name: "win-2", archive: zipOf(t, map[string]string{"manifest.json": "{}", "host.json": "of win-2"})}
	c := newCluster(t, one, two)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "wmco-1", Namespace: api.DefaultNamespace}}
	pod.Spec.Containers = []corev1.Container{{Name: "manager", Env: []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://me:hunter2@proxy:3128"}, {Name: "API_TOKEN", Value: "hunter2"}}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "manager"}}
	c.Add("v1/pods", pod)
	c.Add("v1/secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cloud-private-key", Namespace: api.DefaultNamespace}, Data: map[string][]byte{"x": []byte("hunter2")}})
	c.Handle("/api/v1/namespaces/"+api.DefaultNamespace+"/pods/wmco-1/log", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "operator started\npassword=hunter2\n")
	}))
	file := filepath.Join(t.TempDir(), "case.zip")
	r := c.Run(t, "", "collect", "--all", "-o", file)
	if r.Code != session.CodeOK || !strings.Contains(r.Out, "from 2 of 2 hosts") {
		t.Fatalf("exit code %d, %q, %q", r.Code, r.Out, r.Err)
	}
	files := unzip(t, file)
	for name, want := range map[string]string{
		"hosts/win-1/logs/kubelet/kubelet.log": "of win-1", "hosts/win-2/host.json": "of win-2", "cluster/logs/wmco-1-manager.log": "operator started",
		"cluster/windowsinstances.json": "win-2", "cluster/pods.json": "proxy:3128", "manifest.json": `"files": 2`, "cluster/status.json": "win-1",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s is %q, want %q", name, files[name], want)
		}
	}
	for name, content := range files {
		if strings.Contains(content, "hunter2") {
			t.Errorf("%s has a secret: %s", name, content)
		}
	}
	if slices.ContainsFunc(c.Requests(), func(r string) bool { return strings.Contains(r, "secrets") }) {
		t.Error("Secrets were read")
	}
	expectAnnotationsRemoved(t, c, "win-1", "win-2")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others can read the archive: %v, %v", info, err)
	}
}

func TestFailedHostArchivesAreReported(t *testing.T) {
	bomb := zipOf(t, map[string]string{"../../etc/passwd": "x"})
	for name, test := range map[string]struct {
		host          *wicd
		printProgress string
	}{
		"a full disk": {&wicd{report: func(s *supportbundle.Status) {
			*s = supportbundle.Status{ID: s.ID, State: supportbundle.Failed, Message: "drive C: is full"}
		}}, "drive C: is full"},
		"silence":     {&wicd{}, "WICD did not respond within 1s"},
		"timeout":     {&wicd{report: func(s *supportbundle.Status) { *s = supportbundle.Status{ID: s.ID, State: supportbundle.Collecting} }}, "did not finish its archive within 1s"},
		"wrong size":  {&wicd{archive: []byte("x"), report: func(s *supportbundle.Status) { s.Bytes = 1 << 40 }}, "at most 256.0 MiB are allowed"},
		"another sum": {&wicd{archive: zipOf(t, nil), report: func(s *supportbundle.Status) { s.SHA256 = strings.Repeat("0", 64) }}, "is not the one that WICD reported"},
		"no zip":      {&wicd{archive: []byte("not a zip file")}, "reading the archive of the host"},
		"hostile":     {&wicd{archive: bomb}, "has unexpected file"},
	} {
		t.Run(name, func(t *testing.T) {
			test.host.name = "win-1"
			test.host.logs = map[string]string{"kubelet/kubelet.log": "the end\ntoken=hunter2\n"}
			c := newCluster(t, test.host)
			file := filepath.Join(t.TempDir(), "case.zip")
			r := c.Run(t, "", "collect", "win-1", "-o", file, "--timeout", "1s")
			if r.Code != session.CodeFindings || !strings.Contains(r.Err, test.printProgress) {
				t.Fatalf("exit code %d, %q", r.Code, r.Err)
			}
			files := unzip(t, file)
			var m struct{ Hosts []struct{ Error string } }
			if err := json.Unmarshal([]byte(files["manifest.json"]), &m); err != nil || len(m.Hosts) != 1 || !strings.Contains(m.Hosts[0].Error, test.printProgress) {
				t.Errorf("the manifest is %s", files["manifest.json"])
			}
			if got := files["hosts/win-1/logs/kubelet/kubelet.log"]; got != "the end\ntoken=***\n" {
				t.Errorf("the log of the kubelet is %q", got)
			}
			expectAnnotationsRemoved(t, c, "win-1")
		})
	}
}

// TestCollectDoesNotFollowLinks expects the archive to replace a link with its name, which other users may place in a shared folder, and the link's
// target to stay unchanged.
func TestCollectDoesNotFollowLinks(t *testing.T) {
	c := newCluster(t)
	folder := t.TempDir()
	precious, file := filepath.Join(folder, "precious"), filepath.Join(folder, "case.zip")
	if err := errors.Join(os.WriteFile(precious, []byte("precious"), 0o600), os.Symlink(precious, file), os.Symlink(precious, file+".part")); err != nil {
		t.Fatal(err)
	}
	if r := c.Run(t, "", "collect", "-o", file); r.Code != session.CodeOK {
		t.Fatalf("exit code %d, %q", r.Code, r.Err)
	}
	if text, err := os.ReadFile(precious); err != nil || string(text) != "precious" {
		t.Errorf("the file behind the link has %q, %v", text, err)
	}
	if files := unzip(t, file); files["manifest.json"] == "" {
		t.Error("the archive has no manifest")
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*")); len(left) != 3 {
		t.Errorf("the folder has %q", left)
	}
}

func TestConcurrentCollectionIsReported(t *testing.T) {
	h := &wicd{name: "win-1", archive: zipOf(t, map[string]string{"manifest.json": "{}"})}
	c := newCluster(t, h)
	i := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Name: "win-1", Namespace: api.DefaultNamespace, Annotations: map[string]string{api.AnnotationCollect: "theirs"}}}
	i.Status.NodeRef = &v1alpha1.NodeReference{Name: "win-1"}
	c.Add(instances, i)
	file := filepath.Join(t.TempDir(), "case.zip")
	if r := c.Run(t, "", "collect", "win-1", "-o", file); r.Code != session.CodeFindings || !strings.Contains(r.Err, "another collection is in progress (theirs)") {
		t.Errorf("exit code %d, %q", r.Code, r.Err)
	}
	if r := c.Run(t, "", "collect", "win-1", "-o", file, "--force"); r.Code != session.CodeOK {
		t.Errorf("with --force: exit code %d, %q", r.Code, r.Err)
	}
}

func TestMissingPermissionsAreReported(t *testing.T) {
	h := &wicd{name: "win-1", archive: zipOf(t, nil)}
	c := newCluster(t, h)
	c.Deny("PATCH /apis/" + api.GroupName)
	r := c.Run(t, "", "collect", "win-1", "-o", filepath.Join(t.TempDir(), "case.zip"))
	if r.Code != session.CodeFindings || !strings.Contains(r.Err, "missing permission: patch") {
		t.Errorf("exit code %d, %q", r.Code, r.Err)
	}
	for _, args := range [][]string{{"collect", "win-9"}, {"collect", "win-1", "--all"}, {"collect", "--timeout", "0s"}} {
		if r := c.Run(t, "", args...); r.Code != session.CodeNotFound && r.Code != session.CodeUsage || r.Err == "" {
			t.Errorf("%q: exit code %d, %q", args, r.Code, r.Err)
		}
	}
}
