package image_test

import (
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/windows-machine-config/wmco/release/image"
)

// withModules is a source whose operator is the command of this folder: one with build information, which the binary of a test does not have.
func withModules(t *testing.T) image.Source {
	t.Helper()
	s := newSource(t)
	path := filepath.Join(t.TempDir(), "image")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.Operators = map[string]string{"amd64": path}
	return s
}

func mustSBOM(t *testing.T, s image.Source, index v1.ImageIndex) v1.Image {
	t.Helper()
	one, err := image.SBOM(s, index)
	if err != nil {
		t.Fatal(err)
	}
	return one
}

func TestTheSBOMNamesModulesAndPrograms(t *testing.T) {
	s := withModules(t)
	index := mustBuild(t, newSource(t)) // which one does not matter here
	sbom := mustSBOM(t, s, index)
	if err := validate.Image(sbom); err != nil {
		t.Error(err)
	}
	manifest, err := sbom.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.Subject == nil || manifest.Subject.Digest != digest(t, index) || manifest.Config.MediaType != "application/vnd.cyclonedx+json" {
		t.Errorf("the manifest is %+v", manifest)
	}
	layers, err := sbom.Layers()
	if err != nil {
		t.Fatal(err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	text, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		BOMFormat  string
		Components []struct{ Name, Version, PURL string }
	}
	if err := json.Unmarshal(text, &bom); err != nil || bom.BOMFormat != "CycloneDX" {
		t.Fatalf("%v in %.200s", err, text)
	}
	for _, name := range []string{"github.com/google/go-containerregistry", "std", "kubelet", "containerd"} {
		if !slices.ContainsFunc(bom.Components, func(c struct{ Name, Version, PURL string }) bool { return c.Name == name && c.Version != "" }) {
			t.Errorf("there is no component %s with a version", name)
		}
	}
	a, errA := sbom.Digest()
	b, errB := mustSBOM(t, s, index).Digest()
	if errA != nil || errB != nil || a != b {
		t.Errorf("digests of the same source are %s and %s (%v, %v)", a, b, errA, errB)
	}
}

// TestARegistryListsTheSBOMWithTheImage pushes to a registry with the API for referrers.
func TestARegistryListsTheSBOMWithTheImage(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	index := mustBuild(t, newSource(t))
	sbom := mustSBOM(t, withModules(t), index)
	repository := strings.TrimPrefix(server.URL, "http://") + "/team/wmco"
	where, err := image.Push(t.Context(), repository+":1.2.0", true, index, sbom)
	if err != nil || where != repository+"@"+digest(t, index).String() {
		t.Fatalf("pushed to %s (%v)", where, err)
	}
	reference, err := name.NewDigest(where, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Index(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(pulled); err != nil {
		t.Error(err)
	}
	referrers, err := remote.Referrers(reference)
	if err != nil {
		t.Fatal(err)
	}
	list, err := referrers.IndexManifest()
	want, errWant := sbom.Digest()
	if err != nil || errWant != nil || len(list.Manifests) != 1 || list.Manifests[0].Digest != want {
		t.Errorf("referrers are %+v, want %s (%v, %v)", list, want, err, errWant)
	}
}
