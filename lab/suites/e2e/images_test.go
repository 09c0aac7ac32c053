//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/image"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestImages makes the real containerd.exe pull and unpack images according to the settings, and checks the requests in the logs of
// real registries and a real proxy.
func TestImages(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newHarness(t, testenv.Options{WineHosts: 1})
	must(t, p.Announce(t.Context(), p.Hosts()...))
	s := newImagesTest(p)
	p.expectReady(operatorObject(p.Hosts()[0].Address))
	// The proxy comes first, because containerd restarts for it: a program on Wine that has verified a certificate ignores CAs that are trusted
	// later.
	t.Run("ThroughProxy", func(t *testing.T) { s.withT(t).throughProxy() })
	t.Run("FromMirrors", func(t *testing.T) { s.withT(t).fromMirrors() })
	t.Run("LogHasNoSecrets", func(t *testing.T) { s.withT(t).expectNoSecretInLog() })
}

// imagesTest is a harness with a Windows host and registries.
type imagesTest struct {
	harness
	host *lab.Host
	// source is the registry in the names of images; first and second are its mirrors. Hosts can reach all three. remote is outside of the hosts'
	// network, and only the proxy resolves its name.
	source, first, second, remote *lab.Registry
}

// beyond is a name that hosts cannot resolve.
const beyond = "beyond.test"

func newImagesTest(p harness) imagesTest {
	p.t.Helper()
	s := imagesTest{harness: p, host: p.Lab.Hosts()[0]}
	remote := lab.RegistryOptions{Listen: "127.0.0.1", Name: beyond}
	for at, options := range map[**lab.Registry]lab.RegistryOptions{&s.source: {}, &s.first: {}, &s.second: {}, &s.remote: remote} {
		var err error
		if *at, err = p.Lab.StartRegistry(p.t.Context(), options); err != nil {
			p.t.Fatal(err)
		}
	}
	s.setPullSecret(api.DefaultNamespace, s.source, s.first, s.second, s.remote)
	return s
}

func (s imagesTest) withT(t *testing.T) imagesTest {
	s.harness = s.harness.withT(t)
	return s
}

// setPullSecret writes the credentials of registries to the Secret in a namespace, which OpenShift's installer has created there.
func (p harness) setPullSecret(namespace string, registries ...*lab.Registry) {
	p.t.Helper()
	auths := map[string]map[string]string{}
	for _, r := range registries {
		auths[r.Host] = map[string]string{"username": r.User, "password": r.Password}
	}
	text, err := json.Marshal(map[string]any{"auths": auths})
	must(p.t, err)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: api.PullSecret},
		Type:       corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: text},
	}
	err = p.Client.Create(p.t.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		err = p.Client.Update(p.t.Context(), secret)
	}
	must(p.t, err)
}

// expectSettings waits until the host has the current settings.
func (s imagesTest) expectSettings() {
	s.t.Helper()
	s.expectArrived([]joiningHost{{at: s.Hosts()[0]}})
}

// An app is an image of two layers, each with a file that no other image has.
type app struct {
	image.Image
	name string
}

// push creates an app, and pushes it to repository team/<name> below a path of registries, with tag 1.
func (s imagesTest) push(name, path string, registries ...*lab.Registry) app {
	s.t.Helper()
	i, err := image.New(fmt.Sprintf("10.0.%d.%d", lab.Build, lab.Revision),
		map[string]string{name + "/base.txt": "the base of " + name}, map[string]string{name + "/app.txt": name})
	must(s.t, err)
	for _, r := range registries {
		must(s.t, r.Push(s.t.Context(), path+"team/"+name, "1", i))
	}
	return app{i, name}
}

// byTag and byDigest return the names of an app's image in pods.
func (a app) byTag(r *lab.Registry) string { return r.Host + "/team/" + a.name + ":1" }

func (a app) byDigest(r *lab.Registry) string {
	return r.Host + "/team/" + a.name + "@" + a.Digest().String()
}

// expectPulled pulls an image, and checks its files on the host's disk.
func (s imagesTest) expectPulled(image string, a app) {
	s.t.Helper()
	id, err := s.host.Pull(s.t.Context(), image)
	must(s.t, err)
	if id != a.ID.String() {
		s.t.Errorf("ID of image %s: got %s, want %s", image, id, a.ID)
	}
	for file, want := range map[string]string{"base.txt": "the base of " + a.name, "app.txt": a.name} {
		found := s.unpacked(a, file)
		if len(found) != 1 {
			s.t.Fatalf("%s of image %s was unpacked to %q, want one file", file, image, found)
		}
		if text, err := os.ReadFile(found[0]); err != nil || string(text) != want {
			s.t.Errorf("%s of image %s: got %q (%v), want %q", file, image, text, err, want)
		}
	}
}

// unpacked finds a file of an app on the host's disk.
func (s imagesTest) unpacked(a app, file string) []string {
	s.t.Helper()
	snapshots, err := s.host.Path(`C:\ProgramData\containerd\root\io.containerd.snapshotter.v1.windows\snapshots`)
	must(s.t, err)
	found, err := filepath.Glob(filepath.Join(snapshots, "*", "Files", a.name, file))
	must(s.t, err)
	return found
}

// expectRemoved removes an image, and waits until its layers are removed.
func (s imagesTest) expectRemoved(image string, a app) {
	s.t.Helper()
	must(s.t, s.host.RemoveImage(s.t.Context(), image))
	s.eventually("the layers of "+image+" are removed", func(context.Context) string {
		if left := append(s.unpacked(a, "base.txt"), s.unpacked(a, "app.txt")...); len(left) > 0 {
			return fmt.Sprintf("%q remain", left)
		}
		return ""
	})
}

// expectNotPulled pulls an image, and expects an error that contains the reason.
func (s imagesTest) expectNotPulled(image, reason string) {
	s.t.Helper()
	if _, err := s.host.Pull(s.t.Context(), image); err == nil || !strings.Contains(err.Error(), reason) {
		s.t.Errorf("pulling %s: got error %v, want %q in it", image, err, reason)
	}
}

// requests returns the host's requests for an app in a registry's log.
func (s imagesTest) requests(r *lab.Registry, a app) []lab.RegistryRequest {
	s.t.Helper()
	all, err := r.Requests()
	must(s.t, err)
	return slices.DeleteFunc(all, func(q lab.RegistryRequest) bool { return !strings.Contains(q.Path, "/team/"+a.name+"/") })
}

// expectServed checks that a registry resolved a reference (a tag or a digest), and sent all content.
func (s imagesTest) expectServed(r *lab.Registry, a app, reference string) {
	s.t.Helper()
	s.expectResolved(r, a, reference)
	s.expectSent(r, a)
}

func (s imagesTest) expectResolved(r *lab.Registry, a app, reference string) {
	s.t.Helper()
	s.expectResponse(r, a, http.MethodHead, "manifests/"+reference, http.StatusOK)
}

func (s imagesTest) expectSent(r *lab.Registry, a app) {
	s.t.Helper()
	s.expectResponse(r, a, http.MethodGet, "manifests/"+a.Digest().String(), http.StatusOK)
	for blob := range a.Blobs {
		s.expectResponse(r, a, http.MethodGet, "blobs/"+blob.String(), http.StatusOK)
	}
}

func (s imagesTest) expectResponse(r *lab.Registry, a app, method, what string, status int) {
	s.t.Helper()
	requested := s.requests(r, a)
	if !slices.ContainsFunc(requested, func(q lab.RegistryRequest) bool {
		path, _, _ := strings.Cut(q.Path, "?")
		return q.Method == method && strings.HasSuffix(path, "/team/"+a.name+"/"+what) && q.Status == status
	}) {
		s.t.Errorf("%s has no request %s for %s of %s with status %d; its requests:\n%+v", s.nameOf(r), method, what, a.name, status, requested)
	}
}

func (s imagesTest) expectNoRequest(r *lab.Registry, a app) {
	s.t.Helper()
	if requested := s.requests(r, a); len(requested) > 0 {
		s.t.Errorf("%s received requests for %s, want none: %+v", s.nameOf(r), a.name, requested)
	}
}

func (s imagesTest) nameOf(r *lab.Registry) string {
	return map[*lab.Registry]string{s.source: "the source", s.first: "the first mirror", s.second: "the second mirror", s.remote: "the remote registry"}[r]
}

// throughProxy pulls from a registry that only the proxy can reach, with a proxy password that only services may know.
func (s imagesTest) throughProxy() {
	needs(s.t, lab.CanRunForwardProxy())
	proxy, err := s.Lab.StartForwardProxy(s.t.Context(), map[string]string{beyond: "127.0.0.1"})
	must(s.t, err)
	far, near, late := s.push("far", "", s.remote), s.push("near", "", s.first), s.push("late", "", s.remote)
	s.expectNotPulled(far.byTag(s.remote), beyond)
	s.expectNotPulled(near.byTag(s.first), "x509")

	s.configure(func(c *v1alpha1.WindowsConfigSpec) {
		c.Proxy = v1alpha1.ProxySpec{HTTPSProxy: proxy.URL(), NoProxy: lab.MachineName}
		c.Logs.Verbosity = map[string]v1alpha1.LogVerbosity{"containerd": v1alpha1.LogTrace}
	})
	s.trustRegistries()
	s.expectSettings()
	s.expectPulled(far.byTag(s.remote), far)
	s.expectServed(s.remote, far, "1")
	s.expectPulled(near.byTag(s.first), near)
	s.expectServed(s.first, near, "1")
	s.expectPasswordOnlyWithServices(proxy.Password)
	if strings.Contains(s.fileOf(containerdLog), proxy.Password) {
		s.t.Error("containerd's log contains the password of the proxy")
	}

	s.configure(func(c *v1alpha1.WindowsConfigSpec) { c.Proxy = v1alpha1.ProxySpec{} })
	s.expectSettings()
	s.expectNotPulled(late.byTag(s.remote), beyond)
	s.expectNoRequest(s.remote, late)
	s.expectPassed(proxy, lab.ProxyRequest{
		From: s.host.Address(), User: proxy.User, Method: http.MethodConnect, Target: s.remote.Host, Status: http.StatusOK,
	})
}

// trustRegistries adds the CA of the registries to the cluster's trusted CAs. The ConfigMap may exist.
func (p harness) trustRegistries() {
	p.t.Helper()
	err := p.Client.Create(p.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.TrustedCAConfigMap},
		Data:       map[string]string{api.TrustedCAKey: string(p.Lab.RegistryCA())},
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		p.t.Fatal(err)
	}
}

// expectPassed checks that the proxy has logged only one kind of request. It logs a tunnel when that is closed.
func (s imagesTest) expectPassed(proxy *lab.ForwardProxy, want lab.ProxyRequest) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("the proxy has logged %+v", want), func(context.Context) string {
		all, err := proxy.Requests()
		if err != nil || len(all) == 0 {
			return fmt.Sprintf("the log is empty (%v)", err)
		}
		if slices.ContainsFunc(all, func(one lab.ProxyRequest) bool { return one != want }) {
			s.t.Fatalf("the proxy logged %+v, want only %+v", all, want)
		}
		return ""
	})
}

// expectPasswordOnlyWithServices checks that the password is in the environment of services, and nowhere that every user of the host can read.
func (s imagesTest) expectPasswordOnlyWithServices(password string) {
	s.t.Helper()
	const system = `HKLM\SYSTEM\CurrentControlSet\`
	service, found, err := s.host.ReadRegistry(s.t.Context(), system+`Services\containerd`, "Environment")
	if err != nil || !found || !strings.Contains(strings.Join(service.Texts, "\n"), password) {
		s.t.Errorf("containerd's environment lacks the password (%v)", err)
	}
	machine, found, err := s.host.ReadRegistry(s.t.Context(), system+`Control\Session Manager\Environment`, "HTTPS_PROXY")
	if err != nil || found {
		s.t.Errorf("the machine's environment has HTTPS_PROXY: %q (%v)", machine.Text, err)
	}
	s.expectNoSecret(password)
}
