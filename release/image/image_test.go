package image_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/release/image"
	"github.com/windows-machine-config/wmco/release/image/imagetest"
)

func mustBuild(t *testing.T, s image.Source) v1.ImageIndex {
	t.Helper()
	index, err := image.Build(s)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func digest(t *testing.T, i v1.ImageIndex) v1.Hash {
	t.Helper()
	d, err := i.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// images returns those of an index by architecture, read back from an OCI image layout.
func images(t *testing.T, index v1.ImageIndex) map[string]v1.Image {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "layout")
	if err := image.Write(folder, image.Source{Version: "1.2.0"}, index); err != nil {
		t.Fatal(err)
	}
	outer, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	written, err := outer.ImageIndex(digest(t, index))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(written); err != nil {
		t.Fatal(err)
	}
	manifest, err := written.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]v1.Image{}
	for _, d := range manifest.Manifests {
		if all[d.Platform.Architecture], err = written.Image(d.Digest); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestImageIsComplete(t *testing.T) {
	all := images(t, mustBuild(t, imagetest.NewSource(t)))
	if len(all) != 2 {
		t.Fatalf("there are images for %d architectures, want 2", len(all))
	}
	var payloads []v1.Hash
	for architecture, img := range all {
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != architecture || config.OS != "linux" || config.Config.User != "65532:65532" ||
			len(config.Config.Entrypoint) != 1 || config.Config.Entrypoint[0] != "/wmco" || config.Config.Labels["org.opencontainers.image.version"] != "1.2.0" {
			t.Errorf("the configuration for %s is %+v", architecture, config)
		}
		if m, err := payload.Parse([]byte(config.Config.Labels[api.ImageLabelPayload])); err != nil || len(m.Files) == 0 {
			t.Errorf("the label with the payload of %s: %v, %+v", architecture, err, m)
		}
		layers, err := img.Layers()
		if err != nil {
			t.Fatal(err)
		}
		first, err := layers[0].Digest()
		if err != nil {
			t.Fatal(err)
		}
		payloads = append(payloads, first)
		found := contents(t, img)
		for _, name := range []string{"wmco", "etc/passwd", "etc/ssl/certs/ca-certificates.crt", "payload/payload.json"} {
			if len(found[name]) == 0 {
				t.Errorf("the image for %s has no %s", architecture, name)
			}
		}
		if got := found[filepath.Join("payload", payload.BlobName(hash("kubelet.exe")))]; got != "compressed kubelet.exe" {
			t.Errorf("the content of the kubelet is %q", got)
		}
	}
	if payloads[0] != payloads[1] {
		t.Errorf("the layers with the payload are %v; they must be the same", payloads)
	}
}

// contents returns the files of an image.
func contents(t *testing.T, img v1.Image) map[string]string {
	t.Helper()
	all := mutate.Extract(img)
	defer all.Close()
	found := map[string]string{}
	archive := tar.NewReader(all)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		writable := int64(0o222) // by no one
		if header.Typeflag == tar.TypeDir {
			writable = 0o022 // by root only, which must be able to delete its content
		}
		if header.Mode&writable != 0 || header.Uid != 0 || header.Gid != 0 || !header.ModTime.IsZero() && header.ModTime.Unix() != 0 {
			t.Errorf("%s has mode %o, owner %d:%d, time %s", header.Name, header.Mode, header.Uid, header.Gid, header.ModTime)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = string(text)
	}
}

// TestUnpackedLayersAreDeletable checks for tools that copy modes: OLM removes an unpacked catalog before it unpacks it again, without
// capabilities.
func TestUnpackedLayersAreDeletable(t *testing.T) {
	for name, index := range map[string]v1.ImageIndex{"programs": mustBuild(t, imagetest.NewSource(t)), "files": mustBuildFiles(t)} {
		for architecture, img := range images(t, index) {
			content := mutate.Extract(img)
			folders := 0
			for archive := tar.NewReader(content); ; {
				header, err := archive.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if header.Typeflag != tar.TypeDir {
					continue
				}
				if folders++; header.Mode != 0o755 {
					t.Errorf("%s for %s: folder %s has mode %o, want 755", name, architecture, header.Name, header.Mode)
				}
			}
			if content.Close(); folders == 0 {
				t.Errorf("%s for %s: there is no folder", name, architecture)
			}
		}
	}
}

// TestIndexHasNoArtifactTypes: tools that do not know the field artifactType drop it when they write an index again, which
// changes the index's digest.
func TestIndexHasNoArtifactTypes(t *testing.T) {
	for name, index := range map[string]v1.ImageIndex{"programs": mustBuild(t, imagetest.NewSource(t)), "files": mustBuildFiles(t)} {
		raw, err := index.RawManifest()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(raw, []byte("artifactType")) {
			t.Errorf("%s: the index has artifact types: %s", name, raw)
		}
	}
}

// TestLayoutHasOneImage: skopeo copies from a layout without a name only if it has a single image.
func TestLayoutHasOneImage(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "layout")
	index := mustBuild(t, imagetest.NewSource(t))
	if err := image.Write(folder, image.Source{Version: "1.2.0"}, index); err != nil {
		t.Fatal(err)
	}
	written, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := written.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Digest != digest(t, index) {
		t.Errorf("the layout has %+v (%v), want the index only", manifest, err)
	}
}

func TestFolderWithOtherFilesIsNotReplaced(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "go.mod")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := image.Write(folder, image.Source{Version: "1.2.0"}, mustBuildFiles(t)); err == nil {
		t.Error("the folder was replaced")
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	for _, fresh := range []string{filepath.Join(folder, "new"), t.TempDir()} {
		for range 2 {
			if err := image.Write(fresh, image.Source{Version: "1.2.0"}, mustBuildFiles(t)); err != nil {
				t.Error(err)
			}
		}
	}
}

func mustBuildFiles(t *testing.T) v1.ImageIndex {
	t.Helper()
	index, err := image.BuildFiles(image.Source{Version: "1.2.0"}, image.Files{Title: "files", Content: map[string][]byte{"configs/wmco/catalog.yaml": []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func TestImageIsReproducible(t *testing.T) {
	first, second := imagetest.NewSource(t), imagetest.NewSource(t)
	if a, b := digest(t, mustBuild(t, first)), digest(t, mustBuild(t, second)); a != b {
		t.Errorf("digests are %s and %s", a, b)
	}
	second.Version = "1.2.1"
	if a, b := digest(t, mustBuild(t, first)), digest(t, mustBuild(t, second)); a == b {
		t.Error("another version gives the same digest")
	}
}

func TestDamagedSourceIsRejected(t *testing.T) {
	for name, test := range map[string]struct {
		damage func(t *testing.T, s *image.Source)
		want   string
	}{
		"content altered": {func(t *testing.T, s *image.Source) {
			overwrite(t, filepath.Join(s.Payload, payload.BlobName(hash("kubelet.exe"))), "Compressed kubelet.exe")
		}, "content of kubelet.exe: "},
		"content cut": {func(t *testing.T, s *image.Source) {
			overwrite(t, filepath.Join(s.Payload, payload.BlobName(hash("kubelet.exe"))), "compressed")
		}, "has 10 bytes"},
		"no payload":  {func(t *testing.T, s *image.Source) { s.Payload = t.TempDir() }, "run make payload"},
		"no operator": {func(_ *testing.T, s *image.Source) { s.Operators = nil }, "no executable"},
		"operator of another architecture": {func(_ *testing.T, s *image.Source) {
			s.Operators["arm64"] = s.Operators["amd64"]
		}, "is for " + elf.EM_X86_64.String()},
		"operator of Windows": {func(t *testing.T, s *image.Source) {
			s.Operators["amd64"] = filepath.Join(t.TempDir(), "wmco.exe")
			overwrite(t, s.Operators["amd64"], "MZ"+strings.Repeat("x", 100))
		}, "bad magic number"},
	} {
		t.Run(name, func(t *testing.T) {
			s := imagetest.NewSource(t)
			test.damage(t, &s)
			if _, err := image.Build(s); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}

func overwrite(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
func hash(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}
