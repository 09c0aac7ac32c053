package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/sftp"

	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
)

func TestPutWritesFile(t *testing.T) {
	host := startHost(t, func(o *sshserver.Options) {
		o.Root = t.TempDir()
		o.Home = filepath.Join(o.Root, "C", "Users", user)
		for _, folder := range []string{o.Home, filepath.Join(o.Root, "C", "k")} {
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
		}
	})
	h := host.dial(t, Options{})
	content := make([]byte, 1<<20+17)
	_, _ = rand.Read(content)
	for name, at := range map[string]string{
		"setup.exe":        "setup.exe",
		"C:/k/kubelet.exe": "../../k/kubelet.exe",
		"/C:/k/flannel":    "../../k/flannel",
	} {
		if err := h.Put(t.Context(), name, bytes.NewReader(content), int64(len(content))); err != nil {
			t.Fatal(err)
		}
		if host.read(t, at) != string(content) {
			t.Errorf("%s has another content", name)
		}
	}
	for _, size := range []int{0, 1, 32 << 10, 32<<10 + 1} {
		if err := h.Put(t.Context(), "small", bytes.NewReader(content[:size]), int64(size)); err != nil {
			t.Fatal(err)
		}
		if got := host.read(t, "small"); got != string(content[:size]) {
			t.Errorf("got %d bytes, want %d: a file of another size is replaced", len(got), size)
		}
	}
	if got, want := host.names(t), []string{"setup.exe", "small"}; !cmp.Equal(got, want) {
		t.Errorf("the home holds %v, want %v", got, want)
	}
	if c := host.Counters(); c.Connections != 1 || c.SFTPChannels != 7 || c.FilesWritten != 7 {
		t.Errorf("%d connections, %d SFTP channels and %d files, want 1, 7 and 7", c.Connections, c.SFTPChannels, c.FilesWritten)
	}
}

func TestPutSkipsCompleteFile(t *testing.T) {
	host := startHost(t)
	h := host.dial(t, Options{})
	if err := h.Put(t.Context(), "setup.exe", strings.NewReader("12345"), 5); err != nil {
		t.Fatal(err)
	}
	if err := h.Put(t.Context(), "setup.exe", errReader{errors.New("must not be read")}, 5); err != nil {
		t.Error(err)
	}
	if n := host.Counters().FilesWritten; n != 1 {
		t.Errorf("%d files written, want 1", n)
	}
}

func TestEndlessListingIsBounded(t *testing.T) {
	host := startHost(t, func(o *sshserver.Options) { o.EndlessFolders = true })
	h := host.dial(t, Options{})
	began, out := time.Now(), host.Counters().BytesOut
	if err := h.Put(t.Context(), "setup.exe", strings.NewReader("12345"), 5); err != nil {
		t.Errorf("an endless listing prevents the transfer: %v", err)
	}
	if host.read(t, "setup.exe") != "12345" {
		t.Error("the file has another content")
	}
	if n := host.Counters().BytesOut - out; n > 2<<20 {
		t.Errorf("%d bytes were read in %s", n, time.Since(began))
	}
}

func TestPutRemovesStaleParts(t *testing.T) {
	host := startHost(t)
	h := host.dial(t, Options{})
	random := rand.Text()
	stale := []string{"setup.exe." + random + ".part", "setup.exe." + rand.Text() + ".part"}
	foreign := []string{"other.exe." + random + ".part", "setup.exe.mine.part", "setup.exe." + random}
	for _, name := range slices.Concat(stale, foreign) {
		if err := os.WriteFile(filepath.Join(host.home, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Put(t.Context(), "setup.exe", strings.NewReader("12345"), 5); err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(foreign), "setup.exe")
	slices.Sort(want)
	if d := cmp.Diff(want, host.names(t)); d != "" {
		t.Errorf("files in the home (-want +got):\n%s", d)
	}
}

func TestPutRejectsContentOfWrongSize(t *testing.T) {
	host := startHost(t)
	h := host.dial(t, Options{})
	for name, content := range map[string]io.Reader{
		"short":  strings.NewReader("1234"),
		"long":   strings.NewReader("123456"),
		"broken": io.MultiReader(strings.NewReader("12345"), errReader{errors.New("broken disk")}),
	} {
		if err := h.Put(t.Context(), name, content, 5); err == nil {
			t.Errorf("%s: no error", name)
		} else if e := (*Error)(nil); errors.As(err, &e) {
			t.Errorf("%s: %v, want an error that does not blame the host", name, err)
		}
	}
	if names := host.names(t); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}

func TestPutReportsRefusal(t *testing.T) {
	host := startHost(t)
	h := host.dial(t, Options{})
	if err := os.Mkdir(filepath.Join(host.home, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, wantErr := range map[string]string{
		"no/such/folder/x": "creating no/such/folder/x.",
		"taken":            "renaming taken.",
	} {
		err := h.Put(t.Context(), name, strings.NewReader("12345"), 5)
		var e *Error
		if err == nil || errors.As(err, &e) || !strings.HasPrefix(err.Error(), "copying "+name+": "+wantErr) {
			t.Errorf("got %v, want a plain error containing %q", err, wantErr)
		}
	}
	if got, want := host.names(t), []string{"taken"}; !cmp.Equal(got, want) {
		t.Errorf("the home holds %v, want %v", got, want)
	}
}

// TestPutRetriesWhileScannerHoldsFile: security software briefly opens what arrived, and Windows refuses to rename it meanwhile.
func TestPutRetriesWhileScannerHoldsFile(t *testing.T) {
	host := startHost(t, func(o *sshserver.Options) {
		o.Quirks = func() sshserver.Quirks { return sshserver.Quirks{HeldFor: 350 * time.Millisecond} }
	})
	h := host.dial(t, Options{})
	for _, content := range []string{"old", "newer"} {
		if err := h.Put(t.Context(), "x", strings.NewReader(content), int64(len(content))); err != nil {
			t.Fatal(err)
		}
		if got := host.read(t, "x"); got != content {
			t.Errorf("got %q, want %q", got, content)
		}
	}
	if got := host.names(t); !cmp.Equal(got, []string{"x"}) {
		t.Errorf("the home holds %v, want x only", got)
	}
}

func TestPutReplacesFileWithoutPosixRename(t *testing.T) {
	if err := sftp.SetSFTPExtensions("hardlink@openssh.com"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := sftp.SetSFTPExtensions("hardlink@openssh.com", "posix-rename@openssh.com", "statvfs@openssh.com"); err != nil {
			t.Error(err)
		}
	}()
	host := startHost(t)
	h := host.dial(t, Options{})
	for _, content := range []string{"old", "newer"} {
		if err := h.Put(t.Context(), "x", strings.NewReader(content), int64(len(content))); err != nil {
			t.Fatal(err)
		}
		if got := host.read(t, "x"); got != content {
			t.Errorf("got %q, want %q", got, content)
		}
	}
}

func TestConnectionCutDuringPutLeavesNoPartialFile(t *testing.T) {
	host := startHost(t)
	content := make([]byte, 300_000)
	_, _ = rand.Read(content)
	put := func(h *Host, name string) error {
		return h.Put(t.Context(), name, bytes.NewReader(content), int64(len(content)))
	}
	before := host.dial(t, Options{})
	login := host.Counters()
	if err := put(before, "measure"); err != nil {
		t.Fatal(err)
	}
	total := host.Counters()
	var faults []sshserver.Fault
	for i := int64(1); i <= 60; i++ {
		faults = append(faults, sshserver.Fault{CutAfterIn: login.BytesIn + i*(total.BytesIn-login.BytesIn)/60})
	}
	for i := int64(1); i <= 30; i++ {
		faults = append(faults, sshserver.Fault{CutAfterOut: login.BytesOut + i*(total.BytesOut-login.BytesOut)/30})
	}
	lost := 0
	for _, f := range faults {
		if err := os.Remove(filepath.Join(host.home, "x")); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		host.SetFaults(func(int) sshserver.Fault { return f })
		if h, err := Dial(t.Context(), host.target, Options{}); err == nil {
			if err = put(h, "x"); err != nil {
				expectKind(t, err, Lost)
				lost++
			}
			h.Close()
		} else {
			expectKind(t, err, Lost)
		}
		if got, err := os.ReadFile(filepath.Join(host.home, "x")); err == nil && !bytes.Equal(got, content) {
			t.Fatalf("cut by %+v: the file has %d bytes of %d", f, len(got), len(content))
		}
		host.SetFaults(nil)
		again := host.dial(t, Options{})
		if err := put(again, "x"); err != nil {
			t.Fatalf("cut by %+v, then: %v", f, err)
		}
		again.Close()
		if host.read(t, "x") != string(content) {
			t.Fatalf("cut by %+v: the second Put left another content", f)
		}
	}
	if lost < len(faults)/2 {
		t.Errorf("only %d of %d cuts hit the transfer", lost, len(faults))
	}
}

func TestCancelEndsPutAndKeepsConnection(t *testing.T) {
	host := startHost(t)
	h := host.dial(t, Options{Grace: time.Hour})
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the operator is stopping")
	content := io.TeeReader(zeros{}, &counter{at: 4 << 20, call: func() { cancel(reason) }})
	if err := h.Put(ctx, "big", content, 1<<40); !errors.Is(err, reason) {
		t.Fatalf("got %v, want the cause", err)
	}
	if slices.Contains(host.names(t), "big") {
		t.Error("half a file got its name")
	}
	if err := h.Put(t.Context(), "big", strings.NewReader("12345"), 5); err != nil {
		t.Errorf("the connection was closed: %v", err)
	}
}

func TestCanceledPutDoesNotWaitForBlockedReader(t *testing.T) {
	host := startHost(t)
	h := host.dial(t, Options{Grace: 20 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	ended := make(chan struct{})
	var err error
	go func() {
		defer close(ended)
		err = h.Put(ctx, "big", r, 1<<30)
	}()
	if _, err := w.Write(make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	cancel() // while the next Read of the pipe is in progress
	expectSoon(t, ended, "a canceled Put")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the cancellation", err)
	}
}
