package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
)

func TestRunReturnsOutputAndStatus(t *testing.T) {
	host := startHost(t)
	h := host.dial(t, Options{})
	var out bytes.Buffer
	if err := h.Run(t.Context(), `echo .\\wicd.exe facts`, nil, &out); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), `.\\wicd.exe facts`+"\n"; got != want {
		t.Errorf("got %q, want %q: the command line must arrive unchanged", got, want)
	}
	for status, wantErr := range map[int]string{
		0:          "",
		3:          "exit status 3",
		255:        "exit status 255",
		0xC0000135: "exit status 3221225781 (0xC0000135)",
	} {
		err := h.Run(t.Context(), fmt.Sprint("exit ", status), nil, nil)
		var e *ExitError
		switch {
		case status == 0 && err != nil:
			t.Errorf("status 0: %v", err)
		case status != 0 && (!errors.As(err, &e) || e.Status != status || !strings.Contains(err.Error(), wantErr)):
			t.Errorf("status %d: got %v", status, err)
		}
	}
	if n := host.Counters().Connections; n != 1 {
		t.Errorf("%d connections, want one for everything", n)
	}
	if n := h.Usage().Channels; n != 5 {
		t.Errorf("%d channels, want one for each of the 5 commands", n)
	}
}

func TestExitErrorContainsEndOfStderr(t *testing.T) {
	h := startHost(t).dial(t, Options{})
	long := strings.Repeat("x", 3*tailSize)
	for reported, want := range map[string]string{
		"disk full\r\n":             "disk full",
		"":                          "",
		"\x1b[31mred\x1b[0m\a \xff": "[31mred [0m  ?", // https://learn.microsoft.com/windows/win32/intl/code-page-identifiers
		long + "the end":            "... " + strings.Repeat("x", tailSize-len("the end")) + "the end",
	} {
		err := h.Run(t.Context(), "complain "+reported, nil, nil)
		var e *ExitError
		if !errors.As(err, &e) {
			t.Fatalf("got %v, want an *ExitError", err)
		}
		if e.Status != 1 || e.Stderr != want {
			t.Errorf("got status %d and %.60q, want 1 and %.60q", e.Status, e.Stderr, want)
		}
	}
}

func TestCommandWithoutStatusIsExitError(t *testing.T) {
	target := rawHost(&ssh.ServerConfig{NoClientAuth: true}, func(offered ssh.NewChannel) {
		c, requests, _ := offered.Accept()
		_ = (<-requests).Reply(true, nil)
		c.Close()
	})(t)
	h, err := Dial(t.Context(), target, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	err = h.Run(t.Context(), "killed", nil, nil)
	var e *ExitError
	if !errors.As(err, &e) || e.Status != -1 || !strings.Contains(err.Error(), "without an exit status") {
		t.Errorf("got %v", err)
	}
}

func TestRefusedChannelIsNotLostConnection(t *testing.T) {
	target := rawHost(&ssh.ServerConfig{NoClientAuth: true}, func(offered ssh.NewChannel) {
		_ = offered.Reject(ssh.Prohibited, "open failed \x1b[2J"+strings.Repeat("x", 200<<10))
	})(t)
	h, err := Dial(t.Context(), target, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	err = h.Run(t.Context(), "exit 0", nil, nil)
	var refused *ssh.OpenChannelError
	if !errors.As(err, &refused) {
		t.Errorf("got %v, want the refusal", err)
	}
	if text := err.Error(); len(text) > 1100 || strings.Contains(text, "\x1b") || !strings.Contains(text, "open failed") {
		t.Errorf("the host's words are %d bytes: %.100q", len(text), text)
	}
}

func TestRefusedCommandIsNotLostConnection(t *testing.T) {
	h := startHost(t, func(o *sshserver.Options) { o.Exec = nil }).dial(t, Options{})
	err := h.Run(t.Context(), "exit 0", nil, nil)
	var e *Error
	if err == nil || errors.As(err, &e) {
		t.Errorf("got %v, want a plain error", err)
	}
}

// TestCommandsWorkWithOneSessionAtATime has a server that allows one session at a time: https://man.openbsd.org/sshd_config#MaxSessions
func TestCommandsWorkWithOneSessionAtATime(t *testing.T) {
	var open atomic.Int32
	target := rawHost(&ssh.ServerConfig{NoClientAuth: true}, func(offered ssh.NewChannel) {
		if open.Add(1) > 1 {
			open.Add(-1)
			_ = offered.Reject(ssh.ConnectionFailed, "open failed")
			return
		}
		c, requests, _ := offered.Accept()
		go func() {
			_ = (<-requests).Reply(true, nil)
			_, _ = c.SendRequest("exit-status", false, make([]byte, 4))
			open.Add(-1)
			c.Close()
		}()
	})(t)
	h, err := Dial(t.Context(), target, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for range 3 {
		if err := h.Run(t.Context(), "facts", nil, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestRunTransfersLargeInputAndOutput(t *testing.T) {
	h := startHost(t).dial(t, Options{})
	const size = 8 << 20 // four SSH windows
	sent, got := sha256.New(), sha256.New()
	in := io.TeeReader(io.LimitReader(&pattern{}, size), sent)
	if err := h.Run(t.Context(), "cat", in, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
		t.Error("the output differs from the input")
	}
	if u := h.Usage(); u.BytesIn < size || u.BytesOut < size || u.BytesIn > size*101/100 || u.BytesOut > size*101/100 {
		t.Errorf("the connection carried %d in and %d out for %d both ways", u.BytesIn, u.BytesOut, size)
	}
}

// pattern is an endless reader with non-repeating content.
type pattern struct{ next uint32 }

func (r *pattern) Read(p []byte) (int, error) {
	for i := range p {
		r.next = r.next*1664525 + 1013904223
		p[i] = byte(r.next >> 24)
	}
	return len(p), nil
}

func TestFiftyCommandsShareConnection(t *testing.T) {
	host := startHost(t)
	h := host.dial(t, Options{})
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			var out bytes.Buffer
			text := strings.Repeat(fmt.Sprint(i, " "), 20_000)
			if err := h.Run(t.Context(), "cat", strings.NewReader(text), &out); err != nil {
				t.Error(err)
			}
			if out.String() != text {
				t.Errorf("command %d got the output of another", i)
			}
		})
	}
	all.Wait()
	if c := host.Counters(); c.Connections != 1 || c.ExecChannels != 50 {
		t.Errorf("%d connections and %d channels, want 1 and 50", c.Connections, c.ExecChannels)
	}
}

func TestRunEndsWithCommandDespiteUnreadInput(t *testing.T) {
	h := startHost(t).dial(t, Options{})
	in, more := io.Pipe()
	defer more.Close()
	go func() { _, _ = io.WriteString(more, "one\n") }() // then nothing, without end of input
	var out bytes.Buffer
	if err := h.Run(t.Context(), "first", in, &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != "one\n" {
		t.Errorf("got %q", out.String())
	}
	if err := h.Run(t.Context(), "exit 0", zeros{}, nil); err != nil {
		t.Errorf("endless input: %v", err)
	}
}

// expectRunning runs a hanging command, calls then while it runs, and returns the error of Run.
func expectRunning(t *testing.T, ctx context.Context, h *Host, then func()) error {
	t.Helper()
	ended := make(chan struct{})
	var err error
	r, w := io.Pipe()
	go func() {
		defer close(ended)
		defer w.Close()
		err = h.Run(ctx, "hang", nil, w)
	}()
	if _, err := r.Read(make([]byte, 100)); err != nil {
		t.Fatal("the command did not start")
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	then()
	expectSoon(t, ended, "running a command")
	return err
}

func TestCancelEndsCommandAndKeepsConnection(t *testing.T) {
	host := startHost(t)
	h := host.dial(t, Options{Grace: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	if err := expectRunning(t, ctx, h, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the cancellation", err)
	}
	if err := h.Run(t.Context(), "exit 0", nil, nil); err != nil {
		t.Errorf("the connection was closed: %v", err)
	}
	t.Run("deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := h.Run(ctx, "hang", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
	})
	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		reason := errors.New("not needed any more")
		cancel(reason)
		before := host.Counters().ExecChannels
		if err := h.Run(ctx, "exit 0", nil, nil); !errors.Is(err, reason) {
			t.Errorf("got %v, want the cause", err)
		}
		if n := host.Counters().ExecChannels; n != before {
			t.Error("a command was run after the cancellation")
		}
	})
	t.Run("in the middle of much data", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var got counter
		got.at, got.call = 4<<20, cancel
		if err := h.Run(ctx, "flood", nil, &got); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the cancellation", err)
		}
		if err := h.Run(t.Context(), "exit 0", nil, nil); err != nil {
			t.Errorf("the connection was closed: %v", err)
		}
	})
}

// counter calls a function once the given number of bytes was written to it.
type counter struct {
	n, at int
	call  func()
}

func (c *counter) Write(p []byte) (int, error) {
	if c.n < c.at && c.n+len(p) >= c.at {
		c.call()
	}
	c.n += len(p)
	return len(p), nil
}

func TestCancelClosesUnresponsiveConnection(t *testing.T) {
	host := startHost(t)
	quiet := &link{}
	host.through(t, quiet)
	h := host.dial(t, Options{Grace: 50 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	err := expectRunning(t, ctx, h, func() {
		quiet.silent.Store(true)
		cancel()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the cancellation", err)
	}
	expectKind(t, h.Run(t.Context(), "exit 0", nil, nil), Lost)
}

func TestStreamErrorsEndCommand(t *testing.T) {
	var sawEnd sync.Once
	ended := make(chan struct{})
	host := startHost(t, func(o *sshserver.Options) {
		o.Exec = func(ctx context.Context, c sshserver.Command, stdin io.Reader, stdout, stderr io.Writer) int {
			if c.Line == "swallow" {
				if _, err := io.Copy(io.Discard, stdin); err == nil && ctx.Err() == nil {
					sawEnd.Do(func() { close(ended) })
				}
				<-ctx.Done()
				return 0
			}
			return shell(ctx, c, stdin, stdout, stderr)
		}
	})
	h := host.dial(t, Options{Grace: time.Hour})
	broken := errors.New("broken disk")
	in := io.MultiReader(strings.NewReader("part"), errReader{broken})
	if err := h.Run(t.Context(), "cat", in, nil); !errors.Is(err, broken) || !strings.Contains(err.Error(), "reading its input") {
		t.Errorf("got %v, want the failed read", err)
	}
	if err := h.Run(t.Context(), "flood", nil, errWriter{broken}); !errors.Is(err, broken) || !strings.Contains(err.Error(), "writing its output") {
		t.Errorf("got %v, want the failed write", err)
	}
	if err := h.Run(t.Context(), "echo short", nil, errWriter{broken}); !errors.Is(err, broken) {
		t.Errorf("got %v, want the failed write of a command that ended well", err)
	}
	if err := h.Run(t.Context(), "exit 0", nil, nil); err != nil {
		t.Errorf("the connection was closed: %v", err)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

type errWriter struct{ err error }

func (w errWriter) Write([]byte) (int, error) { return 0, w.err }

func TestLostConnectionIsDistinctFromFailedCommand(t *testing.T) {
	for name, end := range map[string]func(*testHost, *Host){
		"cut by the host": func(host *testHost, _ *Host) { host.Cut() },
		"closed here":     func(_ *testHost, h *Host) { h.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			host := startHost(t)
			h := host.dial(t, Options{})
			err := expectRunning(t, t.Context(), h, func() { end(host, h) })
			expectKind(t, err, Lost)
			if closed := errors.Is(err, net.ErrClosed); closed != (name == "closed here") {
				t.Errorf("got %v: net.ErrClosed is for connections closed by the operator", err)
			}
			expectKind(t, h.Run(t.Context(), "exit 0", nil, nil), Lost)
			expectKind(t, h.Put(t.Context(), "x", strings.NewReader("x"), 1), Lost)
		})
	}
}

func TestConnectionCutDuringRunIsReportedAsLost(t *testing.T) {
	host := startHost(t)
	measured := host.dial(t, Options{})
	const size = 1 << 20
	whole := func(h *Host) error {
		return h.Run(t.Context(), "cat", io.LimitReader(zeros{}, size), io.Discard)
	}
	login := host.Counters().BytesIn
	if err := whole(measured); err != nil {
		t.Fatal(err)
	}
	total := host.Counters().BytesIn
	for cut := login + 1; cut < total; cut += (total - login) / 40 {
		host.SetFaults(func(int) sshserver.Fault { return sshserver.Fault{CutAfterIn: cut} })
		h, err := Dial(t.Context(), host.target, Options{})
		if err == nil {
			err = whole(h)
			h.Close()
		}
		if err != nil || cut < login+size { // at later cuts, the command may already have ended
			expectKind(t, err, Lost)
		}
	}
}
