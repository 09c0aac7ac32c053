package payload_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/build"
	"github.com/windows-machine-config/wmco/payload/compress"
)

// written returns the folder of a small payload: two files with the same content, and WICD.
func written(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	_, err := build.Write(t.Context(), dir, build.Set{
		Files: []build.Content{
			{Path: "kubelet.exe", Component: "kubelet", Version: "v1.36.3", Group: payload.Base, Open: build.Bytes([]byte("a program"))},
			{Path: "flanneld.exe", Component: "flanneld", Version: "v0.28.4", Group: payload.Flannel, Open: build.Bytes([]byte("a program"))},
			{Path: payload.WICD, Component: "wicd", Version: "devel", Group: payload.Base, Open: build.Bytes([]byte("the daemon"))},
		},
		Stub: build.Bytes([]byte("stub")),
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func mustOpen(t *testing.T, dir string) *payload.Payload {
	t.Helper()
	p, err := payload.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestBlobCanBeReadFromAnyOffset(t *testing.T) {
	p := mustOpen(t, written(t))
	f := p.Manifest.Files[1]
	blob, err := p.Blob(f)
	if err != nil {
		t.Fatal(err)
	}
	defer blob.Close()
	whole, err := io.ReadAll(blob)
	if err != nil || int64(len(whole)) != f.Compressed.Size || hashOf(string(whole)) != f.Compressed.SHA256 {
		t.Fatalf("read %d bytes with hash %s (error %v), the manifest has %v", len(whole), hashOf(string(whole)), err, f.Compressed)
	}
	for start := range whole {
		if _, err := blob.Seek(int64(start), io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(blob); err != nil || !bytes.Equal(rest, whole[start:]) {
			t.Fatalf("from byte %d: %d bytes, error %v", start, len(rest), err)
		}
	}
}

func TestSetupMatchesManifest(t *testing.T) {
	p := mustOpen(t, written(t))
	setup, err := p.Setup()
	if err != nil {
		t.Fatal(err)
	}
	defer setup.Close()
	data, err := io.ReadAll(setup)
	if err != nil || int64(len(data)) != p.Manifest.Setup.Size || hashOf(string(data)) != p.Manifest.Setup.SHA256 {
		t.Errorf("read %d bytes (error %v), the manifest has %v", len(data), err, p.Manifest.Setup)
	}
}

func TestPayloadWithoutWICDHasNoSetup(t *testing.T) {
	dir := written(t)
	_, err := build.Write(t.Context(), dir, build.Set{Files: []build.Content{
		{Path: "kubelet.exe", Component: "kubelet", Version: "v1.36.3", Group: payload.Base, Open: build.Bytes([]byte("a program"))},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mustOpen(t, dir).Setup(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v, want one that matches fs.ErrNotExist", err)
	}
}

func TestOpenReportsDamagedPayload(t *testing.T) {
	blob := payload.BlobName(hashOf("a program"))
	for _, test := range []struct {
		name    string
		corrupt func(dir string) error
		want    string
	}{
		{"no payload", func(dir string) error { return os.RemoveAll(dir) }, "payload.json: no such file"},
		{"manifest cut in half", func(dir string) error { return os.Truncate(filepath.Join(dir, payload.ManifestName), 100) }, "payload.json: decoding: unexpected end"},
		{"blob missing", func(dir string) error { return os.Remove(filepath.Join(dir, blob)) }, "content of flanneld.exe: stat "},
		{"blob cut in half", func(dir string) error { return os.Truncate(filepath.Join(dir, blob), 3) }, ".zst has 3 bytes, but payload.json lists "},
		{"wicd-setup missing", func(dir string) error { return os.Remove(filepath.Join(dir, payload.SetupName)) }, "wicd-setup.exe: no such file"},
		{"wicd-setup truncated", func(dir string) error { return os.Truncate(filepath.Join(dir, payload.SetupName), 5) }, "wicd-setup.exe has 5 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := written(t)
			if err := test.corrupt(dir); err != nil {
				t.Fatal(err)
			}
			_, err := payload.Open(dir)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "run make payload") {
				t.Errorf("error is %v, want one with %q and \"run make payload\"", err, test.want)
			}
		})
	}
}

// TestPayloadContentRoundTrip tests programs without a dictionary, and one that was compressed with another program.
func TestPayloadContentRoundTrip(t *testing.T) {
	dir := t.TempDir()
	old := bytes.Repeat([]byte("the kubelet of one minor version, "), 3000)
	contents := map[string][]byte{"kubelet.exe": old, "kubelet-new.exe": append(bytes.Clone(old), "and new content"...), payload.WICD: []byte("the daemon")}
	var set build.Set
	for path, content := range contents {
		set.Files = append(set.Files, build.Content{Path: path, Component: path, Version: "v1", Group: payload.Base, Open: build.Bytes(content)})
		if path == "kubelet-new.exe" {
			set.Files[len(set.Files)-1].Dictionary = "kubelet.exe"
		}
	}
	set.Stub = build.Bytes([]byte("stub"))
	if _, err := build.Write(t.Context(), dir, set); err != nil {
		t.Fatal(err)
	}
	p := mustOpen(t, dir)
	for _, f := range p.Manifest.Files {
		got, err := p.Content(f)
		if err != nil || !bytes.Equal(got, contents[f.Path]) {
			t.Errorf("%s has %d bytes, %v", f.Path, len(got), err)
		}
		wrong := f
		wrong.SHA256 = hashOf("another program")
		blob, err := p.Blob(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := payload.Unpack(blob, wrong, compress.Dictionary{}); f.Dictionary == "" && (err == nil || !strings.Contains(err.Error(), "want "+wrong.SHA256)) {
			t.Errorf("%s with another hash: %v", f.Path, err)
		}
		if err := blob.Close(); err != nil {
			t.Error(err)
		}
	}
}
