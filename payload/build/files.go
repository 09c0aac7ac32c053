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

// keptUnused is how long the cache keeps what no build used.
const keptUnused = 30 * 24 * time.Hour

// file returns the Open of a file on disk.
func file(name string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return os.Open(name) }
}

// hashFile returns the SHA-256 in hexadecimal and the size of what open gives.
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

// replace gives the file name the bytes that write writes, all of them or, on an error, none.
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

// copyOf returns a writer of what open gives.
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

// touch records that the cache entry is in use. Where that fails the entry may be removed too early, and is then made again.
func touch(name string) {
	now := time.Now()
	_ = os.Chtimes(name, now, now)
}

// prune removes the entries of the folder that were not used for long, such as those of earlier versions and of builds that were
// killed. Where that fails the next build tries again.
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
