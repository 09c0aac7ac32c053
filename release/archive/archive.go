// Package archive writes tar files that depend only on their content: the same files give the same bytes.
package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"time"
)

// File is a file of an archive.
type File struct {
	Name string
	// Size is in bytes, and exactly what Open returns.
	Size int64
	Open func() (io.ReadCloser, error)
	// Program marks the file as executable.
	Program bool
}

// Bytes returns a file with this content.
func Bytes(name string, content []byte) File {
	return File{Name: name, Size: int64(len(content)), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }}
}

// Executable returns an executable file with this content.
func Executable(name string, content []byte) File {
	f := Bytes(name, content)
	f.Program = true
	return f
}

// Write writes files in this order, world-readable, with user 0 and time 0.
func Write(w io.Writer, files []File) error {
	archive := tar.NewWriter(w)
	for _, f := range files {
		if err := write(archive, f); err != nil {
			return fmt.Errorf("writing %s into an archive: %w", f.Name, err)
		}
	}
	return archive.Close()
}

// WriteGzip is Write, compressed with gzip.
func WriteGzip(w io.Writer, files []File) error {
	compressed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(Write(compressed, files), compressed.Close())
}

func write(archive *tar.Writer, f File) error {
	from, err := f.Open()
	if err != nil {
		return err
	}
	defer from.Close()
	header := &tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Mode: 0o644, Size: f.Size, ModTime: time.Unix(0, 0)}
	if f.Program {
		header.Mode = 0o755
	}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	n, err := io.Copy(archive, from)
	if err == nil && n != f.Size {
		err = fmt.Errorf("it has %d bytes, want %d", n, f.Size)
	}
	return err
}
