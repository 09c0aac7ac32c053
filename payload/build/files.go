package build

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// keptUnused is how long unused entries stay in the cache.
const keptUnused = 30 * 24 * time.Hour

// file returns the Open function of a file on disk.
func file(name string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return os.Open(name) }
}

// hashFile returns the SHA-256 in hexadecimal and the size of a content.
func hashFile(open func() (io.ReadCloser, error)) (string, int64, error) {
	r, err := open()
	if err != nil {
		return "", 0, err
	}
	defer r.Close()
	h := sha256.New()
	n, err := io.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), n, err
}

// read returns a content.
func read(open func() (io.ReadCloser, error)) ([]byte, error) {
	r, err := open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// hashOf returns the SHA-256 in hexadecimal.
func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// replace writes a file atomically: it has either all bytes from write or, after an error, its former content.
func replace(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".part-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // does nothing after the rename
	if err := errors.Join(write(f), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// copyOf returns a function that writes the content of open.
func copyOf(open func() (io.ReadCloser, error)) func(io.Writer) error {
	return func(w io.Writer) error {
		r, err := open()
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(w, r)
		return err
	}
}

// touch marks the cache entry as used. If touch fails, the entry may be removed too early and is then built again.
func touch(name string) {
	now := time.Now()
	_ = os.Chtimes(name, now, now)
}

// prune removes entries of the folder that have not been used for a long time, such as those of earlier versions and of killed
// builds. If it fails, the next build tries again.
func prune(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > keptUnused {
			_ = os.RemoveAll(filepath.Join(dir, entry.Name()))
		}
	}
}

func logTo(w io.Writer, format string, args ...any) {
	if w != nil {
		fmt.Fprintf(w, format+"\n", args...)
	}
}
