package hostapi_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// held rejects the first changes of each kind, as Windows does while a scanner has a file open.
type held struct {
	code  hostapi.Code
	times int
	was   map[string]int
}

func (h *held) before(op, name string) error {
	if op == "write" || op == "sync" {
		return nil // a process cannot be blocked in a file that it created
	}
	if h.was[op]++; h.was[op] <= h.times {
		return fmt.Errorf("%s %s: %w", op, name, h.code)
	}
	return nil
}

// changes returns all operations of a disk that change names. File other.txt must exist.
func changes() map[string]func(hostapi.Disk) error {
	const other, folder = `C:\k\folder\other.txt`, `C:\k\folder`
	return map[string]func(hostapi.Disk) error{
		"write":     func(d hostapi.Disk) error { _, err := d.WriteFile(other, "changed"); return err },
		"create":    func(d hostapi.Disk) error { f, err := d.Create(other); return errors.Join(err, f.Close()) },
		"append":    func(d hostapi.Disk) error { f, _, err := d.Append(other); return errors.Join(err, f.Close()) },
		"folder":    func(d hostapi.Disk) error { _, err := d.MakeFolder(folder + `\new`); return err },
		"link":      func(d hostapi.Disk) error { _, err := d.Link(other, file); return err },
		"link open": func(d hostapi.Disk) error { return d.LinkOpen(other, file) },
		"truncate":  func(d hostapi.Disk) error { return d.Truncate(other) },
		"rename":    func(d hostapi.Disk) error { return d.Rename(other, file) },
		"remove":    func(d hostapi.Disk) error { return d.Remove(other) },
		"clear":     func(d hostapi.Disk) error { return d.Clear(other) },
		"tree":      func(d hostapi.Disk) error { return errors.Join(d.RemoveTree(context.Background(), folder)...) },
	}
}

func TestChangeWaitsForOpenFile(t *testing.T) {
	for name, change := range changes() {
		for _, code := range hostapi.HeldCodes() {
			t.Run(fmt.Sprintf("%s, %d", name, code), func(t *testing.T) {
				root := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					mustWriteFile(t, hostapi.Disk{Root: root}, `C:\k\folder\other.txt`, "content")
					h := &held{code: code, times: 3, was: map[string]int{}}
					if err := change(hostapi.Disk{Root: root, Before: h.before}); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

func TestChangeOfOpenFileTimesOut(t *testing.T) {
	for name, change := range changes() {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				mustWriteFile(t, hostapi.Disk{Root: root}, `C:\k\folder\other.txt`, "content")
				h := &held{code: 32, times: 1 << 30, was: map[string]int{}}
				began := time.Now()
				if err := change(hostapi.Disk{Root: root, Before: h.before}); !errors.Is(err, hostapi.Code(32)) {
					t.Errorf("removing a file in use returned %v, want Windows error 32", err)
				}
				if took := time.Since(began); took < 5*time.Second || took > 6*time.Second {
					t.Errorf("the change waited %s, want 5 s", took)
				}
			})
		})
	}
}

func TestReadWaitsForHeldFile(t *testing.T) {
	for _, test := range []struct {
		code  hostapi.Code
		times int
		waits time.Duration
		fails bool
	}{
		{32, 3, 150 * time.Millisecond, false},
		{33, 3, 150 * time.Millisecond, false},
		{303, 3, 150 * time.Millisecond, false},
		{32, 1 << 30, 5 * time.Second, true},
		{5, 1, 0, true}, // missing rights
	} {
		t.Run(fmt.Sprintf("%d, %d times", test.code, test.times), func(t *testing.T) {
			root := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				mustWriteFile(t, hostapi.Disk{Root: root}, file, "content")
				attempts := 0
				d := hostapi.Disk{Root: root, BeforeRead: func(string) error {
					if attempts++; attempts <= test.times {
						return test.code
					}
					return nil
				}}
				began := time.Now()
				got, err := d.Read(file)
				if test.fails != errors.Is(err, test.code) || !test.fails && string(got) != "content" {
					t.Errorf("reading returned %q (%v), want an error: %t", got, err, test.fails)
				}
				if took := time.Since(began); took < test.waits || took > test.waits+time.Second {
					t.Errorf("reading waited %s, want %s", took, test.waits)
				}
			})
		})
	}
}

func TestFolderRemovalHasOneTimeout(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		for i := range 20 {
			mustWriteFile(t, hostapi.Disk{Root: root}, fmt.Sprintf(`C:\k\folder\%d.exe`, i), "runs")
		}
		h := &held{code: 5, times: 1 << 30, was: map[string]int{}}
		began := time.Now()
		failures := hostapi.Disk{Root: root, Before: h.before}.RemoveTree(t.Context(), `C:\k\folder`)
		if len(failures) != 20 {
			t.Errorf("%d files are reported as remaining, want 20: %v", len(failures), failures)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("removing took %s, want 5 s for all files together", took)
		}
	})
}

func TestRemoveUnusedDoesNotWait(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		mustWriteFile(t, hostapi.Disk{Root: root}, file, "runs")
		h := &held{code: 5, times: 1 << 30, was: map[string]int{}}
		began := time.Now()
		if err := (hostapi.Disk{Root: root, Before: h.before}).RemoveUnused(file); err == nil {
			t.Error("a running program was removed")
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the call waited: %s", took)
		}
	})
}

func TestDiskFullErrorIsNotRetried(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		mustWriteFile(t, hostapi.Disk{Root: root}, file, "content")
		h := &held{code: 112, times: 1 << 30, was: map[string]int{}} // ERROR_DISK_FULL
		began := time.Now()
		if err := (hostapi.Disk{Root: root, Before: h.before}).Remove(file); !errors.Is(err, hostapi.Code(112)) {
			t.Errorf("got %v, want Windows error 112", err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the command waited for disk space: %s", took)
		}
	})
}
