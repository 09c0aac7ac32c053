package overlay

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// TestFileWriteIsRetriedWhileFileIsInUse: security software briefly holds new files. Here, folders stand for files that cannot be replaced yet.
func TestFileWriteIsRetriedWhileFileIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "made-networks")
		for what, held := range map[string]string{"the file": name, "the file beside it": name + newEnding} {
			if err := errors.Join(os.RemoveAll(name), os.MkdirAll(filepath.Join(held, "open"), 0o700)); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(4*time.Second, func() { _ = os.RemoveAll(held) })
			began := time.Now()
			if err := writeFile(name, []byte("content")); err != nil {
				t.Fatalf("%s is held: %v", what, err)
			}
			if got, err := os.ReadFile(name); err != nil || string(got) != "content" || time.Since(began) < 4*time.Second {
				t.Errorf("%s is held: after %v, it has %q, %v", what, time.Since(began), got, err)
			}
		}
	})
}

// TestFileReadIsRetriedWhileFileIsInUse: here, a link to itself stands for a file that a scanner has open.
func TestFileReadIsRetriedWhileFileIsInUse(t *testing.T) {
	for name, read := range map[string]func(name string) ([]byte, error){
		"a file": readFile, "a limited file": func(name string) ([]byte, error) { return readLimited(name, 100) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				name := filepath.Join(t.TempDir(), "made-networks")
				if _, err := read(name); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("reading a missing file returned %v", err)
				}
				if err := errors.Join(os.Symlink(name, name), os.WriteFile(name+newEnding, []byte("content"), 0o600)); err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(4*time.Second, func() { _ = os.Rename(name+newEnding, name) })
				began := time.Now()
				if got, err := read(name); err != nil || string(got) != "content" {
					t.Errorf("reading returned %q (%v)", got, err)
				}
				if took := time.Since(began); took < 4*time.Second || took > 5*time.Second {
					t.Errorf("reading waited %s, want until the file was closed after 4 s", took)
				}
			})
		})
	}
}
