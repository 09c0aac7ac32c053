package overlay

import (
	"errors"
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
