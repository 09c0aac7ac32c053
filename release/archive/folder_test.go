package archive_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/windows-machine-config/wmco/release/archive"
)

func TestWriteFolderReplacesContent(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "chart")
	for _, files := range []map[string][]byte{{"old": nil, "b/c": []byte("1")}, {"b/c": []byte("2"), "d": nil}} {
		if err := archive.WriteFolder(folder, files); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "old")); !os.IsNotExist(err) {
		t.Errorf("the former file still exists: %v", err)
	}
	if content, err := os.ReadFile(filepath.Join(folder, "b", "c")); err != nil || string(content) != "2" {
		t.Errorf("b/c is %q, %v", content, err)
	}
}
