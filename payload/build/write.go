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
	// Stub opens wicd-setup without WICD at its end. Required if Files has WICD.
	Stub func() (io.ReadCloser, error)
	// Blobs is a folder in which compressed contents are kept for later calls with the same Fast. Empty means none.
	Blobs string
	// Fast compresses in a fraction of the time, to more bytes: for tests.
	Fast bool
	// Log receives a line for each file that was compressed. Nil means none.
	Log io.Writer
}

// Content is one file of a payload; the fields have the meanings of payload.File.
type Content struct {
	Path, Component, Version, License, Group string
	// Dictionary is the path of the content that this one is compressed with, in the same group or in base. If there is no such
	// path, this one is compressed without a dictionary.
	Dictionary string
	// Open opens the content. It is called several times and must return the same bytes each time.
	Open func() (io.ReadCloser, error)
}

// Bytes returns the Open function of a content in memory.
func Bytes(data []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}

// Write writes the payload of set into dir and returns its manifest. The manifest is replaced last; then unused contents are
// removed.
func Write(ctx context.Context, dir string, set Set) (payload.Manifest, error) {
	w := writer{Set: set, dir: dir}
	if err := w.makeFolders(); err != nil {
		return payload.Manifest{}, err
	}
	for _, c := range set.Files {
		f, err := c.file()
		if err != nil {
			return payload.Manifest{}, fmt.Errorf("adding %s to the payload: %w", c.Path, err)
		}
		w.files = append(w.files, f)
	}
	for i, c := range set.Files {
		if err := ctx.Err(); err != nil {
			return payload.Manifest{}, err
		}
		if err := w.add(i); err != nil {
			return payload.Manifest{}, fmt.Errorf("adding %s to the payload: %w", c.Path, err)
		}
	}
	setup, err := w.setup(w.files)
	if err != nil {
		return payload.Manifest{}, fmt.Errorf("assembling %s: %w", payload.SetupName, err)
	}
	m := payload.New(w.files, setup)
	if err := w.finish(m); err != nil {
		return payload.Manifest{}, fmt.Errorf("writing the payload: %w", err)
	}
	return m, nil
}

type writer struct {
	Set
	dir string
	// files are those of the manifest, in the order of Set.Files. Files that add has not handled yet have zero fields.
	files []payload.File
}

// file returns the manifest entry of the content before it is compressed.
func (c Content) file() (f payload.File, err error) {
	f = payload.File{Path: c.Path, Component: c.Component, Version: c.Version, License: c.License, Group: c.Group}
	f.SHA256, f.Size, err = hashFile(c.Open)
	return f, err
}

func (w *writer) makeFolders() error {
	err := os.MkdirAll(filepath.Join(w.dir, "blobs"), 0o755)
	if w.Blobs != "" {
		err = errors.Join(err, os.MkdirAll(w.Blobs, 0o755))
	}
	return err
}

// dictionary returns the index of the content that c is compressed with; -1 if there is none.
func (s Set) dictionary(c Content) int {
	for _, group := range []string{c.Group, payload.Base} {
		i := slices.IndexFunc(s.Files, func(f Content) bool { return f.Path == c.Dictionary && f.Group == group })
		if i >= 0 {
			return i
		}
	}
	return -1
}

// add adds a compressed content to the payload. A content that is identical to an earlier one is compressed only once.
func (w *writer) add(n int) (err error) {
	c, f := w.Files[n], &w.files[n]
	if i := slices.IndexFunc(w.files[:n], func(same payload.File) bool { return same.SHA256 == f.SHA256 }); i >= 0 {
		f.Compressed, f.Dictionary = w.files[i].Compressed, w.files[i].Dictionary
		return nil
	}
	var dictionary Content
	if i := w.dictionary(c); i >= 0 {
		dictionary, f.Dictionary = w.Files[i], w.files[i].SHA256
	}
	frame := w.kept(*f)
	if frame == nil {
		begin := time.Now()
		if frame, err = w.compress(c, dictionary, *f); err != nil {
			return err
		}
		logTo(w.Log, "%s (%d of %d): compressed %.1f MB to %.1f MB in %.1f s", c.Path, n+1, len(w.Files),
			float64(f.Size)/1e6, float64(len(frame))/1e6, time.Since(begin).Seconds())
	}
	f.Compressed = payload.Blob{SHA256: hashOf(frame), Size: int64(len(frame))}
	return replace(filepath.Join(w.dir, payload.BlobName(f.SHA256)), copyOf(Bytes(frame)))
}

// compress returns the compressed form of f, which has content c, and stores it in Blobs.
func (w *writer) compress(c, source Content, f payload.File) ([]byte, error) {
	program, err := read(c.Open)
	if err != nil {
		return nil, err
	}
	var dictionary compress.Dictionary
	if f.Dictionary != "" {
		text, err := read(source.Open)
		if err != nil {
			return nil, fmt.Errorf("reading its dictionary %s: %w", source.Path, err)
		}
		dictionary = compress.NewDictionary(text)
	}
	var frame bytes.Buffer
	if err := compress.Compress(&frame, program, dictionary, w.Fast); err != nil {
		return nil, err
	}
	decompressed, err := compress.Decompress(frame.Bytes(), f.Size, dictionary)
	if err != nil {
		return nil, err
	}
	if got := hashOf(decompressed); got != f.SHA256 {
		return nil, fmt.Errorf("after compression, it has SHA-256 %s instead of %s", got, f.SHA256)
	}
	if w.Blobs == "" {
		return frame.Bytes(), nil
	}
	return frame.Bytes(), replace(w.keptPrefix(f)+hashOf(frame.Bytes())+".zst", copyOf(Bytes(frame.Bytes())))
}

// kept returns the compressed form of f that an earlier call stored, or nil.
func (w *writer) kept(f payload.File) []byte {
	if w.Blobs == "" {
		return nil
	}
	prefix := w.keptPrefix(f)
	names, _ := filepath.Glob(prefix + "*.zst") // the pattern is valid
	for _, name := range names {
		frame, err := os.ReadFile(name)
		if err == nil && name == prefix+hashOf(frame)+".zst" {
			touch(name)
			return frame
		}
	}
	return nil
}

// keptPrefix returns the name of the stored form of f, up to its own hash.
func (w *writer) keptPrefix(f payload.File) string {
	return filepath.Join(w.Blobs, fmt.Sprintf("%d-%.16s-%.16s-", compress.Format, f.SHA256, f.Dictionary))
}

// setup appends the compressed WICD among files to wicd-setup.
func (w *writer) setup(files []payload.File) (payload.File, error) {
	i := slices.IndexFunc(files, func(f payload.File) bool { return f.Path == payload.WICD })
	if i < 0 {
		return payload.File{}, nil
	}
	if w.Stub == nil {
		return payload.File{}, errors.New("the set has WICD but no wicd-setup")
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

// finish validates and writes the manifest, and removes files that the payload no longer needs.
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
