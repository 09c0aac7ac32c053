package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/cli/clitest"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/observe/generations"
)

// generationRegistry serves indexes with the builds in their tags, separated by hyphens. Repository private requires user u with password secret.
func generationRegistry(t *testing.T) (host string, requests func() []string) {
	t.Helper()
	var lock sync.Mutex
	var all []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		all = append(all, r.URL.Path)
		lock.Unlock()
		_, password, _ := r.BasicAuth()
		if strings.HasPrefix(r.URL.Path, "/v2/private/") && password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var entries []string
		for build := range strings.SplitSeq(filepath.Base(r.URL.Path), "-") {
			entries = append(entries, fmt.Sprintf(`{"platform": {"os": "windows", "os.version": "10.0.%s.1", "architecture": "amd64"}}`, build))
		}
		fmt.Fprintf(w, `{"manifests": [%s]}`, strings.Join(entries, ","))
	}))
	t.Cleanup(server.Close)
	t.Setenv("REGISTRY_AUTH_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	return strings.TrimPrefix(server.URL, "http://"), func() []string {
		lock.Lock()
		defer lock.Unlock()
		return slices.Clone(all)
	}
}

func windowsNode(name, version string) *corev1.Node {
	n := node(name)
	build, _, _ := strings.Cut(strings.TrimPrefix(version, "10.0."), ".")
	n.Labels[corev1.LabelWindowsBuild], n.Labels[corev1.LabelHostname], n.Labels[api.LabelBYOH] = "10.0."+build, name, "true"
	n.Status.NodeInfo.KernelVersion = version
	return n
}

// windowsTemplate returns a template for Windows with a class, if it is not empty.
func windowsTemplate(class string, images ...string) corev1.PodTemplateSpec {
	spec := corev1.PodSpec{OS: &corev1.PodOS{Name: corev1.Windows}}
	if class != "" {
		spec.RuntimeClassName = &class
	}
	for _, image := range images {
		spec.Containers = append(spec.Containers, corev1.Container{Name: "main", Image: image})
	}
	return corev1.PodTemplateSpec{Spec: spec}
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}
}

func owned(m metav1.ObjectMeta, kind, owner string) metav1.ObjectMeta {
	m.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: owner, UID: types.UID(owner), Controller: new(true)}}
	return m
}

// generationsCluster returns a cluster that moves from Windows Server 2019 and 2022 to 2025.
func generationsCluster(t *testing.T, registry string) *clitest.Cluster {
	c := clitest.New(t, "/api/v1/nodes", "/api/v1/pods", "/api/v1/secrets", "/api/v1/serviceaccounts", "/apis/apps/v1/deployments", "/apis/apps/v1/replicasets", "/apis/apps/v1/statefulsets",
		"/apis/apps/v1/daemonsets", "/apis/batch/v1/jobs", "/apis/batch/v1/cronjobs", "/apis/node.k8s.io/v1/runtimeclasses")
	for name, version := range map[string]string{"old-1": "10.0.17763.8000", "old-2": "10.0.17763.8000", "mid-1": "10.0.20348.4000", "mid-2": "10.0.20348.3000"} {
		c.Add("v1/nodes", windowsNode(name, version))
	}
	for class, build := range map[string]string{"windows2019": "10.0.17763", "windows2022": "10.0.20348"} {
		o := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: class, Labels: map[string]string{api.LabelManagedBy: api.ManagedBy}}}
		o.Scheduling = &nodev1.Scheduling{NodeSelector: map[string]string{corev1.LabelOSStable: "windows", corev1.LabelWindowsBuild: build}}
		c.Add("node.k8s.io/v1/runtimeclasses", o)
	}
	for name, template := range map[string]corev1.PodTemplateSpec{
		"web": windowsTemplate("windows2022", registry+"/web:20348"), "legacy": windowsTemplate("windows2019", registry+"/legacy:17763"),
		"api": windowsTemplate("", registry+"/api:17763-20348"), "private": windowsTemplate("", registry+"/private/a:20348"),
		"linux": {Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: registry + "/linux:1"}}}},
	} {
		c.Add("apps/v1/deployments", &appsv1.Deployment{ObjectMeta: meta(name), Spec: appsv1.DeploymentSpec{Template: template}})
		c.Add("apps/v1/replicasets", &appsv1.ReplicaSet{ObjectMeta: owned(meta(name+"-1"), "Deployment", name), Spec: appsv1.ReplicaSetSpec{Template: template}})
	}
	c.Add("batch/v1/cronjobs", &batchv1.CronJob{ObjectMeta: meta("nightly"), Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{
		Spec: batchv1.JobSpec{Template: windowsTemplate("", registry+"/api:17763-20348")},
	}}})
	for pod, node := range map[string]string{"web": "mid-1", "legacy": "old-1", "api": "mid-2"} {
		image := map[string]string{"web": "web:20348", "legacy": "legacy:17763", "api": "api:17763-20348"}[pod]
		p := &corev1.Pod{ObjectMeta: owned(meta(pod+"-1-x"), "ReplicaSet", pod+"-1"), Spec: windowsTemplate("", registry+"/"+image).Spec}
		p.Spec.NodeName = node
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		c.Add("v1/pods", p)
	}
	c.Add("v1/pods", &corev1.Pod{ObjectMeta: meta("bare\x1b"), Spec: corev1.PodSpec{NodeName: "mid-1", Containers: []corev1.Container{{Image: registry + "/api:17763-20348"}}}})
	return c
}

func TestGenerations(t *testing.T) {
	registry, requests := generationRegistry(t)
	for name, args := range map[string][]string{
		"generations": {"--registry", registry}, "generations-yaml": {"--registry", registry, "-o", "yaml"}, "generations-offline": {"--images=false", "--to", "2022"},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(requests())
			r := generationsCluster(t, registry).Run(t, "", append([]string{"generations"}, args...)...)
			if r.Code != session.CodeOK || r.Err != "" {
				t.Fatalf("exit code %d: %s", r.Code, r.Err)
			}
			if strings.Contains(r.Out, "\x1b") {
				t.Error("the output has control characters")
			}
			golden(t, name+".golden", strings.ReplaceAll(r.Out, registry, "r.test"))
			read := requests()[before:]
			slices.Sort(read)
			want := []string{"/v2/api/manifests/17763-20348", "/v2/legacy/manifests/17763", "/v2/private/a/manifests/20348", "/v2/web/manifests/20348"}
			if name == "generations-offline" {
				want = nil
			}
			if !slices.Equal(read, want) {
				t.Errorf("the registry received %q, want each image once", read)
			}
		})
	}
}

// TestGenerationsUsePullSecretsOnlyOnRequest expects a Secret of the workload's namespace to be read with the flag only, and its password to be used.
func TestGenerationsUsePullSecretsOnlyOnRequest(t *testing.T) {
	registry, _ := generationRegistry(t)
	stateOf := func(r clitest.Result) generations.State {
		var report generations.Report
		if err := json.Unmarshal([]byte(r.Out), &report); err != nil {
			t.Fatal(err, r.Out, r.Err)
		}
		i := slices.IndexFunc(report.Workloads, func(w generations.Assessment) bool { return w.Name == "private" })
		return report.Workloads[i].State
	}
	for name, test := range map[string]struct {
		kind corev1.SecretType
		key  string
		text string
		want generations.State
	}{
		"of today":     {corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `{"auths": {%q: {"username": "u", "password": "secret"}}}`, generations.Movable},
		"legacy":       {corev1.SecretTypeDockercfg, corev1.DockerConfigKey, `{%q: {"username": "u", "password": "secret"}}`, generations.Movable},
		"of no type":   {corev1.SecretTypeOpaque, corev1.DockerConfigJsonKey, `{"auths": {%q: {"username": "u", "password": "secret"}}}`, generations.Undetermined},
		"that is none": {corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `%q`, generations.Undetermined},
	} {
		t.Run(name, func(t *testing.T) {
			c := generationsCluster(t, registry)
			c.Add("v1/serviceaccounts", &corev1.ServiceAccount{ObjectMeta: meta("default"), ImagePullSecrets: []corev1.LocalObjectReference{{Name: "gone"}, {Name: "pull"}}})
			c.Add("v1/secrets", &corev1.Secret{ObjectMeta: meta("pull"), Type: test.kind, Data: map[string][]byte{test.key: fmt.Appendf(nil, test.text, registry)}})
			r := c.Run(t, "", "generations", "--registry", registry, "-o", "json")
			isSecret := func(request string) bool {
				return strings.Contains(request, "/secrets") || strings.Contains(request, "/serviceaccounts")
			}
			if got := stateOf(r); got != generations.Undetermined || slices.ContainsFunc(c.Requests(), isSecret) {
				t.Errorf("without the flag, the state is %s after %q", got, c.Requests())
			}
			r = c.Run(t, "", "generations", "--registry", registry, "-o", "json", "--use-pull-secrets")
			if got := stateOf(r); got != test.want || strings.Contains(r.Out+r.Err, `"secret"`) {
				t.Errorf("with the flag, the state is %s: %s%s", got, r.Out, r.Err)
			}
		})
	}
	t.Run("forbidden", func(t *testing.T) {
		c := generationsCluster(t, registry)
		c.Deny("GET /api/v1/namespaces/shop/serviceaccounts")
		r := c.Run(t, "", "generations", "--registry", registry, "--use-pull-secrets")
		if r.Code != session.CodeOK || !strings.Contains(r.Out, "serviceaccount shop/default: reading ServiceAccount shop/default: missing permission") {
			t.Errorf("exit code %d: %s%s", r.Code, r.Out, r.Err)
		}
	})
}

func TestGenerationsReportFailures(t *testing.T) {
	for name, test := range map[string]struct {
		args    []string
		denied  string
		code    int
		wantErr string
		wantOut string
	}{
		"another version":       {[]string{"--to", "2016"}, "", session.CodeUsage, `--to is "2016"; nodes can run 2019, 2022, 2025`, ""},
		"no time":               {[]string{"--timeout", "0s"}, "", session.CodeUsage, "a positive duration", ""},
		"secrets and no images": {[]string{"--images=false", "--use-pull-secrets"}, "", session.CodeUsage, "have no effect", ""},
		"an argument":           {[]string{"web"}, "", session.CodeUsage, "takes no arguments", ""},
		"no nodes":              {[]string{"--images=false"}, "GET /api/v1/nodes", session.CodeForbidden, "missing permission: list nodes", ""},
		"no pods":               {[]string{"--images=false"}, "GET /api/v1/pods", session.CodeForbidden, "missing permission: list pods", ""},
		"no deployments":        {[]string{"--images=false"}, "GET /apis/apps/v1/deployments", session.CodeOK, "", "! deployments: listing deployments: missing permission"},
		"no classes":            {[]string{"--images=false"}, "GET /apis/node.k8s.io", session.CodeOK, "", "! runtimeclasses: listing runtimeclasses: missing permission"},
		"not all move":          {[]string{"--images=false", "--check"}, "", session.CodeFindings, "not all workloads can move to 10.0.26100 (Windows Server 2025)", "Workloads"},
	} {
		t.Run(name, func(t *testing.T) {
			c := generationsCluster(t, "r.test")
			if test.denied != "" {
				c.Deny(test.denied)
			}
			r := c.Run(t, "", append([]string{"generations"}, test.args...)...)
			if r.Code != test.code || !strings.Contains(r.Err, test.wantErr) || !strings.Contains(r.Out, test.wantOut) {
				t.Errorf("exit code %d, want %d: %s%s", r.Code, test.code, r.Out, r.Err)
			}
		})
	}
}

// TestGenerationsCheckNeedsAllObjects expects --check to fail if workloads may be missing, even if all others can move.
func TestGenerationsCheckNeedsAllObjects(t *testing.T) {
	for denied, code := range map[string]int{"": session.CodeOK, "GET /apis/apps/v1/statefulsets": session.CodeFindings} {
		c := clitest.New(t, "/api/v1/pods", "/apis/apps/v1/deployments", "/apis/apps/v1/replicasets", "/apis/apps/v1/statefulsets", "/apis/apps/v1/daemonsets", "/apis/batch/v1/jobs",
			"/apis/batch/v1/cronjobs", "/apis/node.k8s.io/v1/runtimeclasses")
		c.Add("v1/nodes", windowsNode("mid-1", "10.0.20348.4000"))
		if denied != "" {
			c.Deny(denied)
		}
		if r := c.Run(t, "", "generations", "--check"); r.Code != code {
			t.Errorf("exit code %d, want %d: %s%s", r.Code, code, r.Out, r.Err)
		}
	}
}

// TestGenerationsReadAllPages lists pods that the API server returns in two pages.
func TestGenerationsReadAllPages(t *testing.T) {
	c := generationsCluster(t, "r.test")
	page := func(name, next string) string {
		return fmt.Sprintf(`{"kind": "PodList", "apiVersion": "v1", "metadata": {"continue": %q}, "items": [{"metadata": {"namespace": "shop", "name": %q, "uid": %q}, "spec": {"nodeName": "mid-1"}}]}`, next, name, name)
	}
	c.Handle("/api/v1/pods", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		text := page("first", "next")
		if r.URL.Query().Get("continue") == "next" {
			text = page("second", "")
		}
		fmt.Fprint(w, text)
	}))
	r := c.Run(t, "", "generations", "--images=false")
	for _, want := range []string{"Pod/first", "Pod/second"} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("%s is missing: %s%s", want, r.Out, r.Err)
		}
	}
}
