//go:build linux

package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/image"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestDisconnected joins a host of an OpenShift cluster that reaches only two registries, and none of the sources. The sandbox image comes through an
// ImageTagMirrorSet, and images of pods through the ImageDigestMirrorSet of OpenShift's documents for Windows nodes, with the lab's registries as
// mirrors.
func TestDisconnected(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newHarness(t, testenv.Options{WineHosts: 1, Network: testenv.NetworkLab, OpenShift: "None"})
	first, second := p.startRegistry(), p.startRegistry()
	p.setPullSecret(cluster.OpenShiftPullSecret().Namespace, first, second)
	p.trustOnOpenShift(first, second)
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Registries.Mirrors = nil })
	p.create(parse(t, fmt.Sprintf(`
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: pause}
spec:
  imageTagMirrors:
  - mirrors: ['%s/closed/oss/kubernetes/pause']
    source: mcr.microsoft.com/oss/kubernetes/pause
    mirrorSourcePolicy: NeverContactSource
`, first.Host)))
	p.create(parse(t, fmt.Sprintf(`
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata:
  name: ubi9repo
spec:
  imageDigestMirrors:
  - mirrors:
    - %s/example/ubi-minimal
    - %s/example2/ubi-minimal
    source: registry.access.redhat.com/ubi9/ubi-minimal
    mirrorSourcePolicy: AllowContactingSource
  - mirrors:
    - %s
    source: registry.redhat.io
    mirrorSourcePolicy: NeverContactSource
  - mirrors:
    - docker.io
    source: docker-mirror.internal
    mirrorSourcePolicy: AllowContactingSource
`, first.Host, second.Host, second.Host)))
	must(t, p.Lab.AddPause(t.Context(), first, "mcr.microsoft.com/closed/oss/kubernetes/pause:3.9", linux(), lab.HostPlatform()))
	p.joinAll()
	expectRequest(t, first, http.MethodGet, "/v2/closed/oss/kubernetes/pause/manifests/sha256:", http.StatusOK)

	p.runFrom("minimal", "registry.access.redhat.com/ubi9/ubi-minimal@"+p.pushWebserver(second, "example2/ubi-minimal").Digest().String())
	expectRequest(t, first, http.MethodHead, "/v2/example/ubi-minimal/manifests/sha256:", http.StatusNotFound)
	expectRequest(t, second, http.MethodGet, "/v2/example2/ubi-minimal/manifests/sha256:", http.StatusOK)

	p.runFrom("product", "registry.redhat.io/product/app@"+p.pushWebserver(second, "product/app").Digest().String())
	expectRequest(t, second, http.MethodHead, "/v2/product/app/manifests/sha256:", http.StatusOK) // the host already has the content
}

func (p harness) startRegistry() *lab.Registry {
	p.t.Helper()
	r, err := p.Lab.StartRegistry(p.t.Context(), lab.RegistryOptions{})
	must(p.t, err)
	return r
}

func (p harness) pushWebserver(r *lab.Registry, repository string) image.Image {
	p.t.Helper()
	i, err := p.Lab.PushWebserver(p.t.Context(), r, repository, "1")
	must(p.t, err)
	return i
}

// trustOnOpenShift makes nodes trust registries: the machine-config operator copies the certificates that images.config names.
func (p harness) trustOnOpenShift(registries ...*lab.Registry) {
	p.t.Helper()
	data := base64.StdEncoding.EncodeToString(p.Lab.RegistryCA())
	var bundles []string
	for _, r := range registries {
		bundles = append(bundles, fmt.Sprintf("{file: %s, data: %s}", strings.Replace(r.Host, ":", "..", 1), data))
	}
	p.patch("machineconfiguration.openshift.io/v1 ControllerConfig machine-config-controller",
		"spec: {imageRegistryBundleUserData: ["+strings.Join(bundles, ", ")+"]}")
}

// runFrom runs a pod of an image, and waits until it serves.
func (p harness) runFrom(name, image string) {
	p.t.Helper()
	p.deploy(name, image)
	p.expectServing(name, 1)
}

// deploy creates a Deployment with one pod of an image.
func (p harness) deploy(name, image string) *appsv1.Deployment {
	p.t.Helper()
	return p.webserver(name, 1, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image })
}

// expectRequest searches a registry's log for a request whose path has a prefix.
func expectRequest(t *testing.T, r *lab.Registry, method, prefix string, status int) {
	t.Helper()
	all, err := r.Requests()
	must(t, err)
	if !slices.ContainsFunc(all, func(q lab.RegistryRequest) bool {
		return q.Method == method && strings.HasPrefix(q.Path, prefix) && q.Status == status
	}) {
		t.Errorf("%s has no request %s %s… with status %d; its requests:\n%+v", r.Host, method, prefix, status, all)
	}
}
