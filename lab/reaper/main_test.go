package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestAFolderThatAProgramCreatesAgainIsRemoved: a program that is still starting when the lab ends creates its folder after the removal.
func TestAFolderThatAProgramCreatesAgainIsRemoved(t *testing.T) {
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
		t.Errorf("the folder is still there: %v", err)
	}
}
