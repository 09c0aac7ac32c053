package hcs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wrapped returns a file as a backup stream: attributes, then streams.
func wrapped(content string) string {
	var b bytes.Buffer
	b.Write([]byte{0x20, 0, 0, 0})
	for _, stream := range []struct {
		id            uint32
		name, content string
	}{{3, "", "who may read it"}, {backupData, "", content}, {4, ":zone", "where it came from"}} {
		_ = binary.Write(&b, binary.LittleEndian, streamHeader{ID: stream.id, Size: uint64(len(stream.content)), NameSize: uint32(len(stream.name))})
		b.WriteString(stream.name + stream.content)
	}
	return b.String()
}

func mustWrite(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tree returns the files of a folder: path -> content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		found[filepath.ToSlash(rel)] = string(raw)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return found
}

func TestImportUnwrapsBackupStreams(t *testing.T) {
	from, layer := t.TempDir(), filepath.Join(t.TempDir(), "layer")
	mustWrite(t, filepath.Join(from, "Files", "app", "web.exe"), wrapped("program"))
	mustWrite(t, filepath.Join(from, "Files", "empty"), wrapped(""))
	mustWrite(t, filepath.Join(from, "Files", "app.$wcidirs$"), "about the folder")
	mustWrite(t, filepath.Join(from, "Hives", "Software_Delta"), "registry")
	if err := (Layers{}).Import(layer, from); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"Files/app/web.exe": "program", "Files/empty": "", "Hives/Software_Delta": "registry"}
	if diff := cmp.Diff(want, tree(t, layer)); diff != "" {
		t.Error(diff)
	}
}

func TestImportRejectsTruncatedFile(t *testing.T) {
	whole := wrapped("program")
	for _, size := range []int{0, 3, 4 + 7, len(whole) - 1} {
		from := t.TempDir()
		mustWrite(t, filepath.Join(from, "Files", "web.exe"), whole[:size])
		if err := (Layers{}).Import(filepath.Join(t.TempDir(), "layer"), from); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("file truncated after %d bytes: error %v, want EOF", size, err)
		}
	}
}

func TestPrepareMergesLayers(t *testing.T) {
	layers := Layers{Mounts: t.TempDir()}
	base, top, scratch := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "scratch")
	mustWrite(t, filepath.Join(base, "Files", "a"), "of the base")
	mustWrite(t, filepath.Join(base, "Files", "b"), "of the base")
	mustWrite(t, filepath.Join(top, "Files", "b"), "of the top")
	if err := errors.Join(layers.CreateScratch(scratch), layers.Prepare(scratch, []string{top, base})); err != nil {
		t.Fatal(err)
	}
	mount := layers.Folder(layers.Volume(scratch))
	if diff := cmp.Diff(map[string]string{"a": "of the base", "b": "of the top"}, tree(t, mount)); diff != "" {
		t.Error(diff)
	}
	mustWrite(t, filepath.Join(mount, "b"), "of the container")
	for range 2 {
		if err := layers.Unprepare(scratch); err != nil {
			t.Error(err)
		}
	}
	if left := tree(t, mount); len(left) > 0 {
		t.Errorf("files remain after Unprepare: %v", left)
	}
	if got := tree(t, top)["Files/b"]; got != "of the top" {
		t.Errorf("a write changed the parent layer: got %q", got)
	}
	for range 2 {
		if err := layers.Destroy(scratch); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(scratch); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the layer still exists after Destroy: %v", err)
	}
}

func TestVolumeNameDependsOnTheLayer(t *testing.T) {
	layers := Layers{Mounts: "/mounts"}
	a, b := layers.Volume(`C:\snapshots\1`), layers.Volume(`c:\SNAPSHOTS\1`)
	if a != b || a == layers.Volume(`C:\snapshots\2`) {
		t.Errorf("got volumes %s, %s and %s, want the first two equal", a, b, layers.Volume(`C:\snapshots\2`))
	}
	want := layers.Mount(`C:\snapshots\1`)
	if with, without := layers.Folder(a), layers.Folder(a[:len(a)-1]); with != want || without != want {
		t.Errorf("folders of volume %s: got %s and %s, want %s", a, with, without, want)
	}
	g := GUID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	if got := g.String(); got != "04030201-0605-0807-090A-0B0C0D0E0F10" {
		t.Errorf("got GUID %s", got)
	}
}
