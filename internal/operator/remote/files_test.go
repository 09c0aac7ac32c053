package remote

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
)

func TestFiles(t *testing.T) {
	host := startHost(t, func(o *sshserver.Options) {
		o.Root = t.TempDir()
		o.Home = filepath.Join(o.Root, "C", "Users", user)
		if err := os.MkdirAll(filepath.Join(o.Home, "folder"), 0o700); err != nil {
			t.Fatal(err)
		}
		o.Quirks = func() sshserver.Quirks { return sshserver.Quirks{Version: "SSH-2.0-OpenSSH_for_Windows_7.7"} }
	})
	h := host.dial(t, Options{})
	if got, _ := h.Server(); got != "SSH-2.0-OpenSSH_for_Windows_7.7" {
		t.Errorf("the server identifies itself as %q", got)
	}
	err := h.Files(t.Context(), func(f *Files) error {
		for name, want := range map[string]bool{"folder": true, "folder/000001.piece": false, "absent": false, "absent/x": false} {
			if got, err := f.Exists(name); err != nil || got != want {
				t.Errorf("%s is there: %v, %v; want %v", name, got, err, want)
			}
		}
		if err := f.Write("folder/000001.piece", []byte("content")); err != nil {
			return err
		}
		if found, err := f.Exists("folder/000001.piece"); err != nil || !found {
			t.Errorf("the written file exists: %v, %v", found, err)
		}
		if err := f.Write("absent/x", nil); err == nil {
			t.Error("a file was created in a missing folder")
		}
		path, err := f.Path("wicd.exe")
		if want := `C:\Users\` + user + `\wicd.exe`; path != want {
			t.Errorf("the full name is %q, want %q", path, want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := host.read(t, "folder/000001.piece"); got != "content" {
		t.Errorf("the file has %q", got)
	}
	if got := host.Counters().SFTPChannels; got != 1 {
		t.Errorf("%d SFTP sessions were opened, want 1 for all files", got)
	}
}

func TestFilesSessionEndsWithCallback(t *testing.T) {
	h := startHost(t).dial(t, Options{})
	failed := errors.New("it fails")
	if err := h.Files(t.Context(), func(*Files) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("got %v, want the error of the callback", err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := h.Files(t.Context(), func(*Files) error { return nil }); err == nil {
		t.Error("a closed connection has files")
	}
}
