package overlay

import (
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/windows"
)

// TestHeldFileIsRead: WICD renames files, and scanners open them exclusively.
func TestHeldFileIsRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "networks.json")
	if err := writeFile(name, []byte("content")); err != nil {
		t.Fatal(err)
	}
	utf16, err := windows.UTF16PtrFromString(name)
	if err != nil {
		t.Fatal(err)
	}
	scanner, err := windows.CreateFile(utf16, windows.GENERIC_READ, 0, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	time.AfterFunc(300*time.Millisecond, func() { closed <- windows.CloseHandle(scanner) })
	if got, err := readLimited(name, 100); err != nil || string(got) != "content" {
		t.Errorf("reading returned %q (%v)", got, err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
}
