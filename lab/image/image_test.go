package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"path"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

func TestImageMatchesItsManifest(t *testing.T) {
	i, err := New("10.0.20348.1", map[string]string{"a/b.txt": "b"}, map[string]string{"c.txt": "c"})
	if err != nil {
		t.Fatal(err)
	}
	var manifest v1.Manifest
	var config v1.Image
	if err := json.Unmarshal(i.Manifest, &manifest); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(i.Blobs[manifest.Config.Digest], &config); err != nil {
		t.Fatal(err)
	}
	if manifest.Config.Digest != i.ID || config.OS != "windows" || config.OSVersion != "10.0.20348.1" {
		t.Errorf("got image ID %s and platform %+v, want ID %s and Windows 10.0.20348.1", i.ID, config.Platform, manifest.Config.Digest)
	}
	const hives = "Files/Windows/System32/config/"
	want := []map[string]string{{
		"Files/a/b.txt": "b", hives + "DEFAULT": "", hives + "SAM": "", hives + "SECURITY": "", hives + "SOFTWARE": "", hives + "SYSTEM": "",
	}, {"Files/c.txt": "c"}}
	if len(manifest.Layers) != len(want) || len(config.RootFS.DiffIDs) != len(want) {
		t.Fatalf("got %d layers and %d digests of layers, want %d", len(manifest.Layers), len(config.RootFS.DiffIDs), len(want))
	}
	for n, l := range manifest.Layers {
		packed := i.Blobs[l.Digest]
		if digest.FromBytes(packed) != l.Digest || int64(len(packed)) != l.Size {
			t.Errorf("layer %d: got %d bytes with digest %s, want %d and %s", n, len(packed), digest.FromBytes(packed), l.Size, l.Digest)
		}
		files, id := unpack(t, packed)
		if diff := cmp.Diff(want[n], files); diff != "" || id != config.RootFS.DiffIDs[n] {
			t.Errorf("layer %d: got digest %s, want %s; files (-want +got):\n%s", n, id, config.RootFS.DiffIDs[n], diff)
		}
	}
}

// unpack returns the files of a layer and its digest. Each file must follow its folder.
func unpack(t *testing.T, packed []byte) (files map[string]string, id digest.Digest) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	folders := map[string]bool{".": true}
	for r := tar.NewReader(bytes.NewReader(plain)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, digest.FromBytes(plain)
		}
		if err != nil {
			t.Fatal(err)
		}
		if !folders[path.Dir(header.Name)] {
			t.Errorf("%s precedes its folder", header.Name)
		}
		if header.Typeflag == tar.TypeDir {
			folders[header.Name] = true
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
	}
}

func TestDuplicateFilesInBaseLayerAreLinks(t *testing.T) {
	i, err := New("10.0.20348.1", map[string]string{"a.exe": "program", "bin/b.exe": "program", "empty": ""}, map[string]string{"c.exe": "program", "d.exe": "program"})
	if err != nil {
		t.Fatal(err)
	}
	var manifest v1.Manifest
	if err := json.Unmarshal(i.Manifest, &manifest); err != nil {
		t.Fatal(err)
	}
	for n, want := range []map[string]string{{"Files/bin/b.exe": "Files/a.exe"}, {}} {
		links := map[string]string{}
		z, err := gzip.NewReader(bytes.NewReader(i.Blobs[manifest.Layers[n].Digest]))
		if err != nil {
			t.Fatal(err)
		}
		r := tar.NewReader(z)
		for header, err := r.Next(); err == nil; header, err = r.Next() {
			if header.Typeflag == tar.TypeLink {
				links[header.Name] = header.Linkname
			}
		}
		if diff := cmp.Diff(want, links); diff != "" {
			t.Errorf("layer %d: links (-want +got):\n%s", n, diff)
		}
	}
}
