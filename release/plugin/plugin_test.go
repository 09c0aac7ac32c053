package plugin_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/release/plugin"
)

// source returns a source with a program for each platform.
func source(t *testing.T) plugin.Source {
	t.Helper()
	s := plugin.Source{Version: "1.2.0", Programs: t.TempDir(), License: "../../LICENSE", Downloads: "https://example.com/v1.2.0/"}
	for _, p := range plugin.Platforms() {
		name := "kubectl-windows"
		if p.OS == "windows" {
			name += ".exe"
		}
		dir := filepath.Join(s.Programs, p.OS+"-"+p.Arch)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name), []byte("program for "+p.OS+p.Arch), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestManifestListsEachArchive: release/verify runs krew's own checks.
func TestManifestListsEachArchive(t *testing.T) {
	files, err := plugin.Files(source(t))
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, ShortDescription, Description, Caveats, Homepage string
			Platforms                                                 []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, SHA256, Bin string
			}
		}
	}
	if err := yaml.UnmarshalStrict(files[plugin.Manifest], &m); err != nil {
		t.Fatal(err)
	}
	if m.Metadata.Name+".yaml" != plugin.Manifest || m.Spec.Version != "v1.2.0" || len(m.Spec.Platforms) != len(plugin.Platforms()) {
		t.Errorf("the manifest is %+v", m)
	}
	seen := map[string]bool{}
	for _, p := range m.Spec.Platforms {
		platform := p.Selector.MatchLabels["os"] + "/" + p.Selector.MatchLabels["arch"]
		packed, known := files[path.Base(p.URI)]
		if seen[platform] || len(p.Selector.MatchLabels) != 2 || !known || !strings.HasPrefix(p.URI, "https://example.com/v1.2.0/kubectl-windows-1.2.0-") {
			t.Errorf("platform %s: %+v", platform, p)
		}
		seen[platform] = true
		if p.SHA256 != fmt.Sprintf("%x", sha256.Sum256(packed)) {
			t.Errorf("the checksum of %s is not that of the archive", p.URI)
		}
		if content := unpack(t, packed); content[p.Bin] != "0755 program for "+strings.ReplaceAll(platform, "/", "") || content["LICENSE"] == "" {
			t.Errorf("the archive for %s has %v", platform, content)
		}
	}
}

// unpack returns the files of an archive, each with its mode in front of its content.
func unpack(t *testing.T, packed []byte) map[string]string {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for in := tar.NewReader(compressed); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		content, readErr := io.ReadAll(in)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		files[h.Name] = fmt.Sprintf("%04o %s", h.Mode, content)
	}
}

func TestPluginArchivesAreReproducible(t *testing.T) {
	s := source(t)
	first, err1 := plugin.Files(s)
	second, err2 := plugin.Files(s)
	if err := errors.Join(err1, err2); err != nil || !reflect.DeepEqual(first, second) {
		t.Errorf("the files differ (%v)", err)
	}
}

func TestMissingProgramsAreReported(t *testing.T) {
	s := source(t)
	if err := os.RemoveAll(filepath.Join(s.Programs, "darwin-arm64")); err != nil {
		t.Fatal(err)
	}
	if _, err := plugin.Files(s); err == nil || !strings.Contains(err.Error(), "darwin on arm64; run make plugin") {
		t.Errorf("the error is %v", err)
	}
}
