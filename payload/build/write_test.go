package build_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/build"
	"github.com/windows-machine-config/wmco/payload/compress"
	"github.com/windows-machine-config/wmco/payload/selfextract"
)

func sampleContent(path, text string) build.Content {
	return build.Content{Path: path, Component: strings.TrimSuffix(path, ".exe"), Version: "v1", Group: payload.Base, Open: build.Bytes([]byte(text))}
}

func sampleSet() build.Set {
	return build.Set{
		Files: []build.Content{
			sampleContent(payload.WICD, "the daemon"),
			sampleContent("kubelet.exe", "a program"),
			sampleContent("copy-of-kubelet.exe", "a program"),
		},
		Stub: build.Bytes([]byte("stub")),
	}
}

func mustWrite(t *testing.T, dir string, set build.Set) payload.Manifest {
	t.Helper()
	m, err := build.Write(t.Context(), dir, set)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// tree returns the files below dir and the hashes of their contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		files[strings.TrimPrefix(name, dir)] = fmt.Sprintf("%x", sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestIdenticalContentIsStoredOnce(t *testing.T) {
	dir := t.TempDir()
	m := mustWrite(t, dir, sampleSet())
	p, err := payload.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, p.Manifest); diff != "" {
		t.Errorf("manifest on disk (-returned +read):\n%s", diff)
	}
	want := map[string]string{"copy-of-kubelet.exe": "a program", "kubelet.exe": "a program", payload.WICD: "the daemon"}
	for _, f := range p.Manifest.Files {
		if got, err := p.Content(f); err != nil || string(got) != want[f.Path] {
			t.Errorf("%s holds %q (%v), want %q", f.Path, got, err, want[f.Path])
		}
	}
	if blobs, _ := os.ReadDir(filepath.Join(dir, "blobs")); len(blobs) != 2 {
		t.Errorf("%d blobs for 2 different contents: %v", len(blobs), blobs)
	}
}

func TestSetupContainsWICD(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, dir, sampleSet())
	data, err := os.ReadFile(filepath.Join(dir, payload.SetupName))
	if err != nil {
		t.Fatal(err)
	}
	program, compressed, err := selfextract.Find(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(data, []byte("stub")) || program.SHA256 != sha256.Sum256([]byte("the daemon")) || program.Size != int64(len("the daemon")) {
		t.Errorf("wicd-setup begins with %q and describes %v", data[:4], program)
	}
	frame, err := io.ReadAll(compressed)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := compress.Decompress(frame, program.Size, compress.Dictionary{}); err != nil || string(got) != "the daemon" {
		t.Errorf("wicd-setup contains %q (%v)", got, err)
	}
}

func TestWriteIsReproducible(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	mustWrite(t, first, sampleSet())
	set := sampleSet()
	set.Files[0], set.Files[2] = set.Files[2], set.Files[0]
	set.Blobs = t.TempDir()
	mustWrite(t, second, set)
	if diff := cmp.Diff(tree(t, first), tree(t, second)); diff != "" {
		t.Errorf("payloads differ (-first +second):\n%s", diff)
	}
}

func TestWriteRepairsDamageAndRemovesExtras(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("blobs shared %t", shared), func(t *testing.T) {
			dir, set := t.TempDir(), sampleSet()
			if shared {
				set.Blobs = t.TempDir()
			}
			mustWrite(t, dir, set)
			want := tree(t, dir)
			for name := range want {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("damaged"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			mustWrite(t, dir, set)
			if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
				t.Errorf("repaired payload (-want +got):\n%s", diff)
			}
			set.Files = append(set.Files, sampleContent("more.exe", "more"))
			mustWrite(t, dir, set)
			set.Files = set.Files[:3]
			mustWrite(t, dir, set)
			if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
				t.Errorf("payload after adding and removing a file (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWriteKeepsCompressedContents(t *testing.T) {
	set := sampleSet()
	set.Blobs = t.TempDir()
	var log strings.Builder
	set.Log = &log
	mustWrite(t, t.TempDir(), set)
	if n := strings.Count(log.String(), "compressed"); n != 2 {
		t.Errorf("first time: %d contents were compressed, want 2:\n%s", n, &log)
	}
	log.Reset()
	mustWrite(t, t.TempDir(), set)
	if log.Len() > 0 {
		t.Errorf("second time, in another folder:\n%s", &log)
	}
}

func TestFailedWriteKeepsPreviousPayload(t *testing.T) {
	cut := errors.New("cut")
	for name, corrupt := range map[string]func(*build.Set){
		"content cannot be opened": func(s *build.Set) {
			s.Files[1].Open = func() (io.ReadCloser, error) { return nil, cut }
		},
		"reading fails during compression": func(s *build.Set) {
			opened := 0
			s.Files[1].Open = func() (io.ReadCloser, error) {
				opened++
				if opened == 1 {
					return io.NopCloser(strings.NewReader("another program")), nil
				}
				return io.NopCloser(io.MultiReader(strings.NewReader("another"), failing{cut})), nil
			}
		},
		"dictionary cannot be opened": func(s *build.Set) {
			s.Files[2].Dictionary = "dictionary.exe"
			c := sampleContent("dictionary.exe", "")
			c.Open = func() (io.ReadCloser, error) { return nil, cut }
			s.Files = append(s.Files, c)
		},
		"stub cannot be opened": func(s *build.Set) {
			s.Files[0].Open = build.Bytes([]byte("the new daemon"))
			s.Stub = func() (io.ReadCloser, error) { return nil, cut }
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			want := mustWrite(t, dir, sampleSet())
			set := sampleSet()
			corrupt(&set)
			if _, err := build.Write(t.Context(), dir, set); !errors.Is(err, cut) {
				t.Fatalf("error is %v, want %v", err, cut)
			}
			p, err := payload.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, p.Manifest); diff != "" {
				t.Errorf("manifest (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChangingContentIsRejected(t *testing.T) {
	set, version := sampleSet(), 0
	set.Files[1].Open = func() (io.ReadCloser, error) {
		version++
		return io.NopCloser(strings.NewReader(fmt.Sprintf("version %d", version))), nil
	}
	dir := t.TempDir()
	if _, err := build.Write(t.Context(), dir, set); err == nil || !strings.Contains(err.Error(), "adding kubelet.exe to the payload") {
		t.Errorf("error is %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, payload.ManifestName)); err == nil {
		t.Error("a manifest was written")
	}
}

func TestInvalidSetsAreRejected(t *testing.T) {
	for name, test := range map[string]struct {
		corrupt func(*build.Set)
		want    string
	}{
		"path twice":    {func(s *build.Set) { s.Files[1].Path = "copy-of-kubelet.exe" }, `path "copy-of-kubelet.exe" (group base) must sort after`},
		"path outside":  {func(s *build.Set) { s.Files[1].Path = "../kubelet.exe" }, `path is "../kubelet.exe"`},
		"empty content": {func(s *build.Set) { s.Files[1].Open = build.Bytes(nil) }, "size is 0"},
		"no stub":       {func(s *build.Set) { s.Stub = nil }, "the set has WICD but no wicd-setup"},
	} {
		t.Run(name, func(t *testing.T) {
			set := sampleSet()
			test.corrupt(&set)
			if _, err := build.Write(t.Context(), t.TempDir(), set); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
		})
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
