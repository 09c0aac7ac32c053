package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRecreatedFolderIsRemoved simulates a program that is still starting when the lab ends: it creates its folder again after
// the removal.
func TestRecreatedFolderIsRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "work")
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	created := make(chan error, 1)
	go func() {
		for exists := true; exists; time.Sleep(time.Millisecond) {
			_, err := os.Stat(dir)
			exists = err == nil
		}
		time.Sleep(100 * time.Millisecond)
		created <- os.MkdirAll(filepath.Join(dir, "volumeplugins"), 0o700)
	}()
	if err := removeForGood(dir, time.Second, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := <-created; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("got error %v for the folder, want that it does not exist", err)
	}
}
