package sshserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTransfersUseHomeFolder(t *testing.T) {
	r := start(t, nil)
	c := r.transfers(t)
	home := func(name string) string { return filepath.Join(r.options.Home, name) }
	if err := c.Mkdir("folder"); err != nil {
		t.Fatal(err)
	}
	f, err := c.OpenFile("folder/a", os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("content")); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, 7)
	if _, err := f.ReadAt(back, 0); err != nil || string(back) != "content" {
		t.Errorf("got %q and %v", back, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if f, err = c.Open("folder/a"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := c.OpenFile("folder/a", os.O_WRONLY|os.O_CREATE|os.O_EXCL); err == nil {
		t.Error("an exclusive file was created twice")
	}
	if info, err := c.Stat("folder/a"); err != nil || info.Size() != 7 {
		t.Errorf("got %v and %v", info, err)
	}
	if _, err := c.Stat("folder/b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want a not-exist error", err)
	}
	then := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for what, err := range map[string]error{
		"truncate": c.Truncate("folder/a", 4), "times": c.Chtimes("folder/a", then, then), "mode": c.Chmod("folder/a", 0o600),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if info, err := os.Stat(home("folder/a")); err != nil || info.Size() != 4 || !info.ModTime().Equal(then) {
		t.Errorf("got %v and %v", info, err)
	}
	if err := os.WriteFile(home("b"), []byte("b"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Rename("folder/a", "b"); err == nil {
		t.Error("a plain rename replaced a file")
	}
	if err := c.PosixRename("folder/a", "b"); err != nil {
		t.Error(err)
	}
	if got, _ := os.ReadFile(home("b")); string(got) != "cont" {
		t.Errorf("got %q", got)
	}
	for _, remove := range []error{c.Remove("b"), c.RemoveDirectory("folder")} {
		if remove != nil {
			t.Error(remove)
		}
	}
	if err := c.Symlink("a", "b"); err == nil {
		t.Error("a symbolic link was created, which Windows does not allow")
	}
	if n := r.Counters(); n.SFTPChannels != 1 || n.FilesWritten != 1 {
		t.Errorf("%d SFTP channels and %d files written, want 1 and 1", n.SFTPChannels, n.FilesWritten)
	}
}

func TestLongFoldersAreListed(t *testing.T) {
	r := start(t, nil)
	for i := range 250 {
		if err := os.WriteFile(filepath.Join(r.options.Home, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := r.transfers(t).ReadDir(".")
	if err != nil || len(entries) != 250 {
		t.Errorf("got %d entries and %v, want 250", len(entries), err)
	}
}

func TestRootContainsDrives(t *testing.T) {
	root := t.TempDir()
	home := filepath.Join(root, "C", "Users", "me")
	for _, folder := range []string{home, filepath.Join(root, "C", "k"), filepath.Join(root, "D")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r := start(t, func(o *Options) { o.Home, o.Root = home, root })
	c := r.transfers(t)
	if wd, err := c.Getwd(); err != nil || wd != "/C:/Users/me" {
		t.Errorf("home is %q (%v), want /C:/Users/me", wd, err)
	}
	for name, at := range map[string]string{
		"a":         "C/Users/me/a",
		"C:/k/b":    "C/k/b",
		"/c:/k/c":   "C/k/c",
		"D:/d":      "D/d",
		"../../k/e": "C/k/e",
	} {
		f, err := c.Create(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f.Close()
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(at))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClientPathsStayBelowRoot(t *testing.T) {
	f := &files{root: filepath.FromSlash("/r")}
	for name, want := range map[string]string{
		"/":               "/r",
		"/C:":             "/r/C",
		"/C:/":            "/r/C",
		"/c:/k":           "/r/C/k",
		"/etc/x":          "/r/etc/x",
		"/home/C:/k/x":    "/r/C/k/x",
		"/C:/k/D:/x":      "/r/D/x",
		"/C:/k/stream:x":  "/r/C/k/stream:x",
		"/C:/k/C:x":       "/r/C/k/C:x",
		"/no-drive/:/odd": "/r/no-drive/:/odd",
	} {
		if got := filepath.ToSlash(f.local(name)); got != want {
			t.Errorf("local(%s) = %s, want %s", name, got, want)
		}
	}
}
