package build

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/compress"
	"github.com/windows-machine-config/wmco/payload/selfextract"
)

// Set is the content of a payload.
type Set struct {
	// Files are the files, in any order, each with a unique path.
	Files []Content
	// Left are the declared components that are missing.
	Left []payload.Left
	// Stub opens wicd-setup without WICD at its end. Required where Files has WICD.
	Stub func() (io.ReadCloser, error)
	// Blobs is a folder for compressed contents between calls, of one level. Empty means only the payload's own.
	Blobs string
	// Fast compresses in a fraction of the time, to more bytes: for tests.
	Fast bool
	// Log gets a line for each file that was compressed. Nil means none.
	Log io.Writer
}

// Content is one file of a payload; the fields have the meanings of payload.File.
type Content struct {
	Path, Component, Version, License, Group string
	// Dictionary is the path of the content that this one is compressed with, in the same group or in base. If there is none of that
	// path, this one is compressed by itself.
	Dictionary string
	// Open opens the content. It is called several times and must return the same bytes each time.
	Open func() (io.ReadCloser, error)
}

// Bytes returns the Open function of a content in memory.
func Bytes(data []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}

// Write writes the payload of set into dir and returns its manifest. Existing compressed contents are verified and reused. The
// manifest is replaced last; then unused contents are removed.
func Write(ctx context.Context, dir string, set Set) (payload.Manifest, error) {
	w := writer{Set: set, dir: dir}
	if err := w.makeFolders(); err != nil {
		return payload.Manifest{}, err
	}
	var files []payload.File
	for i, c := range set.Files {
		if err := ctx.Err(); err != nil {
			return payload.Manifest{}, err
		}
		f, err := w.add(c, files, fmt.Sprintf("(%d of %d)", i+1, len(set.Files)))
		if err != nil {
			return payload.Manifest{}, fmt.Errorf("adding %s to the payload: %w", c.Path, err)
		}
		files = append(files, f)
	}
	setup, err := w.setup(files)
	if err != nil {
		return payload.Manifest{}, fmt.Errorf("assembling %s: %w", payload.SetupName, err)
	}
	m := payload.New(files, set.Left, setup)
	if err := w.finish(m); err != nil {
		return payload.Manifest{}, fmt.Errorf("writing the payload: %w", err)
	}
	return m, nil
}

type writer struct {
	Set
	dir string
}

func (w *writer) makeFolders() error {
	err := os.MkdirAll(filepath.Join(w.dir, "blobs"), 0o755)
	if w.Blobs != "" {
		err = errors.Join(err, os.MkdirAll(w.Blobs, 0o755))
	}
	return err
}

// dictionary returns the content that c is compressed with, and its hash; both are zero if there is none.
func (s Set) dictionary(c Content) (sha256 string, d compress.Dictionary, err error) {
	for _, group := range []string{c.Group, payload.Base} {
		i := slices.IndexFunc(s.Files, func(f Content) bool { return f.Path == c.Dictionary && f.Group == group })
		if i < 0 {
			continue
		}
		program, err := read(s.Files[i].Open)
		if err != nil {
			return "", d, err
		}
		return hashOf(program), compress.NewDictionary(program), nil
	}
	return "", d, nil
}

// add adds the compressed content to the payload. A content that one of the files has is compressed once.
func (w *writer) add(c Content, files []payload.File, progress string) (payload.File, error) {
	f := payload.File{Path: c.Path, Component: c.Component, Version: c.Version, License: c.License, Group: c.Group}
	program, err := read(c.Open)
	if err != nil {
		return f, err
	}
	f.SHA256, f.Size = hashOf(program), int64(len(program))
	if i := slices.IndexFunc(files, func(same payload.File) bool { return same.SHA256 == f.SHA256 }); i >= 0 {
		f.Compressed, f.Dictionary = files[i].Compressed, files[i].Dictionary
		return f, nil
	}
	var dictionary compress.Dictionary
	if f.Dictionary, dictionary, err = w.dictionary(c); err != nil {
		return f, fmt.Errorf("reading its dictionary %s: %w", c.Dictionary, err)
	}
	blob := filepath.Join(w.dir, payload.BlobName(f.SHA256))
	kept := blob
	if w.Blobs != "" {
		kept = filepath.Join(w.Blobs, f.SHA256+f.Dictionary[:min(16, len(f.Dictionary))]+".zst")
	}
	if f.Compressed, err = inspect(kept, f, dictionary); err == nil {
		touch(kept)
	} else {
		begin := time.Now()
		if err := replace(kept, func(to io.Writer) error { return compress.Compress(to, program, dictionary, w.Fast) }); err != nil {
			return f, err
		}
		if f.Compressed, err = inspect(kept, f, dictionary); err != nil {
			return f, err
		}
		logTo(w.Log, "%s %s: compressed %.1f MB to %.1f MB in %.1f s", c.Path, progress,
			float64(f.Size)/1e6, float64(f.Compressed.Size)/1e6, time.Since(begin).Seconds())
	}
	if blob == kept {
		return f, nil
	}
	return f, replace(blob, copyOf(file(kept)))
}

// setup appends the compressed WICD among files to wicd-setup.
func (w *writer) setup(files []payload.File) (payload.File, error) {
	i := slices.IndexFunc(files, func(f payload.File) bool { return f.Path == payload.WICD })
	if i < 0 {
		return payload.File{}, nil
	}
	if w.Stub == nil {
		return payload.File{}, errors.New("there is WICD but no wicd-setup")
	}
	wicd := files[i]
	program := selfextract.Program{Size: wicd.Size}
	if _, err := hex.Decode(program.SHA256[:], []byte(wicd.SHA256)); err != nil {
		return payload.File{}, err
	}
	name := filepath.Join(w.dir, payload.SetupName)
	err := replace(name, func(to io.Writer) error {
		stub, err := w.Stub()
		if err != nil {
			return err
		}
		defer stub.Close()
		compressed, err := os.Open(filepath.Join(w.dir, payload.BlobName(wicd.SHA256)))
		if err != nil {
			return err
		}
		defer compressed.Close()
		return selfextract.Write(to, stub, compressed, program)
	})
	if err != nil {
		return payload.File{}, err
	}
	f := payload.File{Path: payload.SetupName, Component: "wicd-setup", Version: wicd.Version, License: wicd.License, Group: wicd.Group}
	f.SHA256, f.Size, err = hashFile(file(name))
	return f, err
}

// finish validates the manifest, writes it, and removes what the payload no longer needs.
func (w *writer) finish(m payload.Manifest) error {
	if err := m.Validate(); err != nil {
		return err
	}
	data, err := m.Encode()
	if err != nil {
		return err
	}
	if err := replace(filepath.Join(w.dir, payload.ManifestName), copyOf(Bytes(data))); err != nil {
		return err
	}
	return w.removeUnused(m)
}

func (w *writer) removeUnused(m payload.Manifest) error {
	if m.Setup.Path == "" {
		if err := os.Remove(filepath.Join(w.dir, payload.SetupName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	blobs, err := filepath.Glob(filepath.Join(w.dir, payload.BlobName("*")))
	if err != nil {
		return err
	}
	for _, blob := range blobs {
		used := func(f payload.File) bool { return blob == filepath.Join(w.dir, payload.BlobName(f.SHA256)) }
		if slices.ContainsFunc(m.Files, used) {
			continue
		}
		if err := os.Remove(blob); err != nil {
			return err
		}
	}
	prune(filepath.Join(w.dir, "blobs")) // partial files of an interrupted build
	return nil
}

// inspect returns the Blob of a compressed file if it decompresses to f.
func inspect(name string, f payload.File, dictionary compress.Dictionary) (payload.Blob, error) {
	frame, err := os.ReadFile(name)
	if err != nil {
		return payload.Blob{}, err
	}
	program, err := compress.Decompress(frame, f.Size, dictionary)
	if err != nil {
		return payload.Blob{}, err
	}
	if got := hashOf(program); got != f.SHA256 {
		return payload.Blob{}, fmt.Errorf("%s holds sha256 %s", name, got)
	}
	return payload.Blob{SHA256: hashOf(frame), Size: int64(len(frame))}, nil
}
