package artifacts_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/release/artifacts"
	"github.com/windows-machine-config/wmco/release/image"
	"github.com/windows-machine-config/wmco/release/manifests"
)

const bom = `{"bomFormat": "CycloneDX", "metadata": {"component": {"version": "1.2.0"}}}`

// built returns a source with an image of a version, as make image writes it, and its digest.
func built(t *testing.T, version string) (s artifacts.Source, digest string) {
	t.Helper()
	dir := t.TempDir()
	index, err := random.Index(100, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	index = mutate.IndexMediaType(index, types.OCIImageIndex)
	err = image.Write(filepath.Join(dir, "image"), image.Source{Version: version}, index)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "image.cdx.json"), []byte(bom), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte("# Changelog\n\n## Unreleased\n\n## 1.2.0\n- All.\n"), 0o600)
	}
	hash, digestErr := index.Digest()
	if err := errors.Join(err, digestErr); err != nil {
		t.Fatal(err)
	}
	olm := filepath.Join(dir, "olm")
	bundle := filepath.Join(olm, "bundle", "manifests", "wmco.clusterserviceversion.yaml")
	err = errors.Join(
		os.MkdirAll(filepath.Dir(bundle), 0o755), os.WriteFile(bundle, []byte("image: registry.example.com/wmco@"+hash.String()), 0o600),
		os.MkdirAll(filepath.Join(olm, "catalog"), 0o755), os.WriteFile(filepath.Join(olm, "catalog", "catalog.yaml"), []byte("schema: olm.package"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	plugin := filepath.Join(dir, "plugin")
	err = errors.Join(os.Mkdir(plugin, 0o755), os.WriteFile(filepath.Join(plugin, "windows.yaml"), []byte("kind: Plugin"), 0o600),
		os.WriteFile(filepath.Join(plugin, "kubectl-windows-1.2.0-linux-amd64.tar.gz"), []byte("archive"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return artifacts.Source{
		Version: "1.2.0", Plugin: plugin, Layout: filepath.Join(dir, "image"), OLM: olm, Repository: "registry.example.com/wmco", Deploy: "../../deploy",
		Changelog: filepath.Join(dir, "CHANGELOG.md"),
	}, hash.String()
}

func TestReleaseContainsFilesAndChecksums(t *testing.T) {
	s, digest := built(t, "1.2.0")
	dir := filepath.Join(t.TempDir(), "release")
	var before map[string][]byte
	for range 2 {
		names, err := artifacts.Write(dir, s)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			"kubectl-windows-1.2.0-linux-amd64.tar.gz", "release-notes.md", "windows-machine-config-operator-1.2.0.tgz", "windows.yaml", "wmco-1.2.0-image.tar", "wmco-1.2.0-manifests.tar.gz",
			"wmco-1.2.0-olm.tar.gz", "wmco-1.2.0.cdx.json", "SHA256SUMS",
		}
		if !slices.Equal(names, want) {
			t.Errorf("the files are %q, want %q", names, want)
		}
		files := map[string][]byte{}
		var sums strings.Builder
		for _, name := range names {
			if files[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			if name != artifacts.Checksums {
				fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(files[name]), name)
			}
			if before != nil && !bytes.Equal(before[name], files[name]) {
				t.Errorf("%s differs between two builds of the same source", name)
			}
		}
		if string(files[artifacts.Checksums]) != sums.String() {
			t.Errorf("the checksums are\n%s, want\n%s", files[artifacts.Checksums], sums.String())
		}
		before = files
	}
	if notes := string(before["release-notes.md"]); notes != "- All.\n" {
		t.Errorf("the notes are %q", notes)
	}
	if string(before["wmco-1.2.0.cdx.json"]) != bom {
		t.Errorf("the software bill of materials is %q", before["wmco-1.2.0.cdx.json"])
	}
	chart, err := os.ReadFile(filepath.Join(untar(t, filepath.Join(dir, "windows-machine-config-operator-1.2.0.tgz")), "windows-machine-config-operator", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Image struct{ Repository, Tag, Digest string }
	}
	if err := yaml.Unmarshal(chart, &values); err != nil {
		t.Fatal(err)
	}
	if i := values.Image; i.Repository != "registry.example.com/wmco" || i.Tag != "v1.2.0" || i.Digest != digest {
		t.Errorf("the chart has image %+v, want %s", i, digest)
	}
	checkManifests(t, untar(t, filepath.Join(dir, "wmco-1.2.0-manifests.tar.gz")), "registry.example.com/wmco@"+digest)
	checkImage(t, untar(t, filepath.Join(dir, "wmco-1.2.0-image.tar")), digest)
}

// checkManifests builds the manifests as a user does.
func checkManifests(t *testing.T, dir, want string) {
	t.Helper()
	objects, err := manifests.Load(filepath.Join(dir, "wmco-1.2.0", "deploy"), manifests.Base, manifests.OpenShift, manifests.ClusterAPI)
	if err != nil {
		t.Fatal(err)
	}
	deployment, found, err := manifests.Find[appsv1.Deployment](objects, "Deployment", "windows-machine-config-operator")
	if err != nil || !found || deployment.Spec.Template.Spec.Containers[0].Image != want {
		t.Errorf("the manifests have image %s (%v), want %s", deployment.Spec.Template.Spec.Containers[0].Image, err, want)
	}
}

func checkImage(t *testing.T, dir, digest string) {
	t.Helper()
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := v1.NewHash(digest)
	if err == nil {
		_, err = index.ImageIndex(hash)
	}
	if err != nil {
		t.Errorf("the archive of the image does not have %s: %v", digest, err)
	}
}

// untar unpacks an archive as users do.
func untar(t *testing.T, archive string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "tar", "-xf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

func TestInvalidSourcesAreRejected(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(t *testing.T, s *artifacts.Source)
		wantErr string
	}{
		"no image": {func(t *testing.T, s *artifacts.Source) { s.Layout = t.TempDir() }, "run make image"},
		"an image of another version": {func(t *testing.T, s *artifacts.Source) { other, _ := built(t, "1.1.0"); s.Layout = other.Layout },
			`is of version "1.1.0", not "1.2.0"; run make image`},
		"two images, which skopeo rejects": {func(t *testing.T, s *artifacts.Source) {
			to, err := layout.FromPath(s.Layout)
			if err == nil {
				err = to.AppendImage(empty.Image)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, "has 2 images, want one index"},
		"no SBOM": {func(t *testing.T, s *artifacts.Source) {
			if err := os.Remove(s.Layout + ".cdx.json"); err != nil {
				t.Fatal(err)
			}
		}, "reading the software bill of materials"},
		"an SBOM of another version": {func(t *testing.T, s *artifacts.Source) {
			if err := os.WriteFile(s.Layout+".cdx.json", []byte(strings.Replace(bom, "1.2.0", "1.1.0", 1)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, `is of version "1.1.0", not "1.2.0"; run make image`},
		"no plugin":    {func(t *testing.T, s *artifacts.Source) { s.Plugin = t.TempDir() }, "run make plugin"},
		"no notes":     {func(_ *testing.T, s *artifacts.Source) { s.Changelog = "missing.md" }, "missing.md"},
		"no manifests": {func(_ *testing.T, s *artifacts.Source) { s.Deploy = "missing" }, "missing"},
		"manifests without a tag": {func(t *testing.T, s *artifacts.Source) {
			s.Deploy = t.TempDir()
			if err := os.WriteFile(filepath.Join(s.Deploy, "kustomization.yaml"), []byte("resources: []\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "kustomization.yaml has 0 lines with newTag"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := built(t, "1.2.0")
			test.change(t, &s)
			if _, err := artifacts.Write(filepath.Join(t.TempDir(), "release"), s); err == nil || !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("got error %v, want %q", err, test.wantErr)
			}
		})
	}
}

func TestBundleOfAnotherImageIsRejected(t *testing.T) {
	s, _ := built(t, "1.2.0")
	for about, change := range map[string]func(){
		"run make catalog":           func() { s.Repository = "registry.example.com/other" },
		"has no bundle; run make ca": func() { s.OLM = t.TempDir() },
	} {
		change()
		if _, err := artifacts.Write(filepath.Join(t.TempDir(), "release"), s); err == nil || !strings.Contains(err.Error(), about) {
			t.Errorf("want error %q, got %v", about, err)
		}
	}
}
