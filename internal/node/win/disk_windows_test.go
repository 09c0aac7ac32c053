package win

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// TestReplaceWaitsForOpenFile: antivirus software, for example, briefly opens files in a way that prevents replacing or renaming them.
func TestReplaceWaitsForOpenFile(t *testing.T) {
	name := filepath.Join(tempFolder(t), "node.json")
	if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	closed := mustHold(t, name, windows.GENERIC_READ, windows.FILE_SHARE_READ)
	if _, err := (hostapi.Disk{}).WriteFile(name, "new"); err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "new" {
		t.Errorf("the file has %q (%v)", text, err)
	}
}

// TestReadWaitsForOpenFile: a program that renames or scans a file can have it open in a way that prevents reading it.
func TestReadWaitsForOpenFile(t *testing.T) {
	name := filepath.Join(tempFolder(t), "000001.piece")
	if err := os.WriteFile(name, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, share := range map[string]uint32{
		"renames": windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE,
		"scans":   0,
	} {
		t.Run(what, func(t *testing.T) {
			closed := mustHold(t, name, windows.DELETE|windows.SYNCHRONIZE, share)
			if got, err := (hostapi.Disk{}).Read(name); err != nil || string(got) != "content" {
				t.Errorf("reading returned %q (%v)", got, err)
			}
			if err := <-closed; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// mustHold has a file open for 300 ms, as another program would, and then sends the result of closing it.
func mustHold(t *testing.T, name string, access, share uint32) (closed <-chan error) {
	t.Helper()
	utf16, err := windows.UTF16PtrFromString(name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := windows.CreateFile(utf16, access, share, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	time.AfterFunc(300*time.Millisecond, func() { result <- windows.CloseHandle(file) })
	return result
}
