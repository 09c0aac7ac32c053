package hostapi_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

const file = `C:\k\folder\file.txt`

func mustWriteFile(t *testing.T, d hostapi.Disk, name, content string) {
	t.Helper()
	if _, err := d.WriteFile(name, content); err != nil {
		t.Fatalf("writing %s: %v", name, err)
	}
}

func expectFile(t *testing.T, d hostapi.Disk, name, want string) {
	t.Helper()
	if got, err := d.Read(name); err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
	}
}

func TestWindowsNamesAreBelowTheRoot(t *testing.T) {
	for name, want := range map[string]string{`C:\k\x`: "/root/C/k/x", `C:\`: "/root/C", `D:\a b\c.txt`: "/root/D/a b/c.txt"} {
		if got := (hostapi.Disk{Root: "/root"}).Local(name); got != want {
			t.Errorf("Local(%q) = %q, want %q", name, got, want)
		}
	}
	if got := (hostapi.Disk{}).Local(`C:\k\x`); got != `C:\k\x` {
		t.Errorf("without a root, a name became %q", got)
	}
}

func TestEqualContentIsNotWritten(t *testing.T) {
	d := hostapi.Disk{Root: t.TempDir()}
	for i, content := range []string{"one", "one", "two"} {
		changed, err := d.WriteFile(file, content)
		if want := i != 1; err != nil || changed != want {
			t.Errorf("write %d: changed %v, %v; want %v", i, changed, err, want)
		}
	}
	expectFile(t, d, file, "two")
}

func TestWrittenFilesArePrivate(t *testing.T) {
	d := hostapi.Disk{Root: t.TempDir()}
	leftover := d.Local(file) + ".new"
	if err := os.MkdirAll(filepath.Dir(leftover), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(leftover, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	d.Before = func(op, name string) error {
		if info, err := os.Lstat(d.Local(file) + ".new"); op == "rename" && (err != nil || info.Mode().Perm() != 0o600) {
			t.Errorf("before %s of %s the new file is %v, %v", op, name, info.Mode(), err)
		}
		return nil
	}
	mustWriteFile(t, d, file, "secret")
	if info, err := d.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
}

// TestSecretIsCreatedInProtectedFolder: on Windows, a new file has the rights of its folder until it gets its own.
func TestSecretIsCreatedInProtectedFolder(t *testing.T) {
	const name = desired.KubeletData + `\config.json`
	d := hostapi.Disk{Root: t.TempDir()}
	if _, err := d.MakeFolder(desired.KubeletData); err != nil {
		t.Fatal(err)
	}
	closed := map[string]bool{}
	protect := func(name string) error {
		closed[name] = true
		return nil
	}
	d.Before = func(op, changed string) error {
		if op != "mkdir" && changed != name && !strings.HasPrefix(changed, desired.State+`\`) {
			t.Errorf("%s of %s, in a folder that others may read", op, changed)
		}
		if (op == "write" || op == "rename") && len(closed) != 1 {
			t.Errorf("%s of %s before it is closed", op, changed)
		}
		return nil
	}
	for _, content := range []string{"secret", "another"} {
		clear(closed)
		if changed, err := d.WriteSecret(name, content, protect); err != nil || !changed {
			t.Errorf("WriteSecret() = %v, %v", changed, err)
		}
		expectFile(t, d, name, content)
	}
	if names, err := d.List(desired.State); err != nil || len(names) > 0 {
		t.Errorf("%s holds %q, %v", desired.State, names, err)
	}
	clear(closed)
	if changed, err := d.WriteSecret(name, "another", protect); err != nil || changed || !closed[name] {
		t.Errorf("again: WriteSecret() = %v, %v; closed %v", changed, err, closed)
	}
}

// TestInterruptedWriteLeavesOldOrNewContent cuts the power at each change that a write makes.
func TestInterruptedWriteLeavesOldOrNewContent(t *testing.T) {
	cut := errors.New("cut")
	for at := 0; ; at++ {
		d := hostapi.Disk{Root: t.TempDir()}
		mustWriteFile(t, d, file, "old")
		count := 0
		d.Before = func(string, string) error {
			if count++; count > at {
				return cut
			}
			return nil
		}
		_, err := d.WriteFile(file, "new content")
		if err == nil {
			if at < 3 {
				t.Errorf("a write caused only %d changes", at)
			}
			return
		}
		expectFile(t, d, file, "old")
		d.Before = nil
		mustWriteFile(t, d, file, "new content")
		expectFile(t, d, file, "new content")
		if names, _ := d.List(`C:\k\folder`); !slices.Equal(names, []string{"file.txt"}) {
			t.Errorf("cut at %d: the folder holds %q", at, names)
		}
	}
}

// TestRunningProgramIsRenamedAside fails the first rename, as Windows does if the target is a running program.
func TestRunningProgramIsRenamedAside(t *testing.T) {
	d := hostapi.Disk{Root: t.TempDir()}
	mustWriteFile(t, d, file, "runs")
	mustWriteFile(t, d, `C:\k\store`, "new program")
	inUse := true
	d.Before = func(op, name string) error {
		if op == "rename" && name == file && inUse {
			inUse = false
			return errors.New("access is denied")
		}
		if op == "remove" && strings.Contains(name, ".old") {
			return errors.New("access is denied")
		}
		return nil
	}
	if changed, err := d.Link(`C:\k\store`, file); err != nil || !changed {
		t.Fatalf("Link() = %v, %v", changed, err)
	}
	expectFile(t, d, file, "new program")
	expectFile(t, d, file+".old0", "runs")

	inUse = true
	mustWriteFile(t, d, `C:\k\store2`, "newer program")
	if _, err := d.Link(`C:\k\store2`, file); err != nil {
		t.Fatal(err)
	}
	expectFile(t, d, file+".old1", "new program")
	expectFile(t, d, file, "newer program")
}

func TestLinkIsSameFile(t *testing.T) {
	d := hostapi.Disk{Root: t.TempDir()}
	mustWriteFile(t, d, `C:\k\store`, "content")
	mustWriteFile(t, d, file, "content") // the same bytes, but another file
	for i, want := range []bool{true, false} {
		if changed, err := d.Link(`C:\k\store`, file); err != nil || changed != want {
			t.Errorf("link %d: changed %v, %v; want %v", i, changed, err, want)
		}
	}
	one, _ := d.Stat(`C:\k\store`)
	two, _ := d.Stat(file)
	if !os.SameFile(one, two) {
		t.Error("the two names are of different files")
	}
}

func TestRemovingMissingFileIsNoError(t *testing.T) {
	d := hostapi.Disk{Root: t.TempDir()}
	mustWriteFile(t, d, `C:\k\a\b\c`, "x")
	mustWriteFile(t, d, `C:\k\a\d`, "x")
	for range 2 {
		if err := errors.Join(d.RemoveAll(`C:\k\a`), d.Remove(`C:\k\x`)); err != nil {
			t.Error(err)
		}
	}
	if names, err := d.List(`C:\k`); err != nil || !cmp.Equal(names, []string(nil)) {
		t.Errorf("C:\\k holds %q, %v", names, err)
	}
}
