//go:build !windows

package sshd

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// A fixture is a server with one authorized key.
type fixture struct {
	server  *Server
	address string
	home    string
	stats   string
	hostKey ssh.PublicKey
	key     ssh.Signer
}

func mustKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func mustServe(t *testing.T) fixture {
	t.Helper()
	return mustServeWith(t, Quirks{})
}

func mustServeWith(t *testing.T, q Quirks) fixture {
	t.Helper()
	dir := t.TempDir()
	f := fixture{home: filepath.Join(dir, "home"), stats: filepath.Join(dir, "stats.json"), key: mustKey(t)}
	if err := os.Mkdir(f.home, 0o755); err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(dir, "authorized_keys")
	text := "# a comment\n" + string(ssh.MarshalAuthorizedKey(mustKey(t).PublicKey())) + string(ssh.MarshalAuthorizedKey(f.key.PublicKey()))
	if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	hostKey, err := LoadHostKey(filepath.Join(dir, "host_key"))
	if err != nil {
		t.Fatal(err)
	}
	f.hostKey = hostKey.PublicKey()
	counters, err := OpenCounters(f.stats)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.address = l.Addr().String()
	f.server = New(Options{HostKey: hostKey, User: "Administrator", AuthorizedKeysFile: keys, Home: f.home,
		Quirks: func() Quirks { return q }, Counters: counters, Log: slog.New(slog.DiscardHandler)})
	served := make(chan error, 1)
	go func() { served <- f.server.Serve(l) }()
	t.Cleanup(func() {
		_ = l.Close()
		f.server.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f fixture) dial(user string, key ssh.Signer) (*ssh.Client, error) {
	return ssh.Dial("tcp", f.address, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.FixedHostKey(f.hostKey), Timeout: 10 * time.Second,
	})
}

func (f fixture) mustDial(t *testing.T) *ssh.Client {
	t.Helper()
	c, err := f.dial("administrator", f.key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func mustSession(t *testing.T, c *ssh.Client) *ssh.Session {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOnlyTheUserWithAnAuthorizedKeyLogsIn(t *testing.T) {
	f := mustServe(t)
	f.mustDial(t)
	if _, err := f.dial("root", f.key); err == nil {
		t.Error("another user logged in")
	}
	if _, err := f.dial("Administrator", mustKey(t)); err == nil {
		t.Error("an unknown key logged in")
	}
}

func TestHostKeyStaysTheSame(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	first, err := LoadHostKey(file)
	if err != nil {
		t.Fatal(err)
	}
	second, err := LoadHostKey(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.PublicKey().Marshal(), second.PublicKey().Marshal()) {
		t.Error("the second start has another host key")
	}
}

func TestCommandHasItsStreamsAndExitCode(t *testing.T) {
	f := mustServe(t)
	s := mustSession(t, f.mustDial(t))
	var stdout, stderr bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader("input"), &stdout, &stderr
	err := s.Run("cat; pwd; echo oops >&2; exit 7")
	var exit *ssh.ExitError
	if !errors.As(err, &exit) || exit.ExitStatus() != 7 {
		t.Errorf("error %v, want exit code 7", err)
	}
	home, err := filepath.EvalSymlinks(f.home)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("input"+home+"\n", stdout.String()); diff != "" {
		t.Error("standard output:", diff)
	}
	if diff := cmp.Diff("oops\n", stderr.String()); diff != "" {
		t.Error("standard error:", diff)
	}
}

func TestCommandEndsWhileItsInputStaysOpen(t *testing.T) {
	s := mustSession(t, mustServe(t).mustDial(t))
	stdin, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if err := s.Run("true"); err != nil {
		t.Error(err)
	}
}

func TestLargeStreamsPassBothWays(t *testing.T) {
	s := mustSession(t, mustServe(t).mustDial(t))
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<19) // four windows of SSH
	var got bytes.Buffer
	s.Stdin, s.Stdout = bytes.NewReader(sent), &got
	if err := s.Run("cat"); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), sent) {
		t.Errorf("%d bytes came back of %d, or not the same", got.Len(), len(sent))
	}
}

func TestCommandDiesWithItsConnection(t *testing.T) {
	f := mustServe(t)
	c := f.mustDial(t)
	s := mustSession(t, c)
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(f.home, "fifo")
	// The shell's child holds the pipe open for writing; the pipe ends with the last of them. Opening it for reading waits for that child.
	if err := s.Start("mkfifo fifo && { (sleep 1000 >fifo; true) & echo started; wait; }"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("started"))); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	c.Close()
	if _, err := io.ReadAll(pipe); err != nil {
		t.Fatal(err)
	}
}

func TestFilesAreRelativeToHome(t *testing.T) {
	f := mustServe(t)
	files, err := sftp.NewClient(f.mustDial(t))
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	w, err := files.Create("agent.exe")
	if err != nil {
		t.Fatal(err)
	}
	content := bytes.Repeat([]byte("x"), 1<<20)
	if _, err := w.ReadFrom(bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(f.home, "agent.exe"))
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("read %d bytes, error %v; want the %d bytes written", len(got), err, len(content))
	}
}

func TestServerCountsClientActions(t *testing.T) {
	f := mustServe(t)
	c := f.mustDial(t)
	for _, line := range []string{"true", `/bin/echo hello`} {
		if err := mustSession(t, c).Run(line); err != nil {
			t.Fatal(err)
		}
	}
	files, err := sftp.NewClient(c)
	if err != nil {
		t.Fatal(err)
	}
	w, err := files.Create("new")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	r, err := files.Open("new")
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	_ = files.Close()
	want := Stats{Connections: 1, ExecChannels: 2, SFTPChannels: 1, FilesOpenedForWriting: 1, Commands: []string{"true", "/bin/echo hello"}}
	got, err := ReadStats(f.stats)
	if err != nil {
		t.Fatal(err)
	}
	got.BytesReceived, got.BytesSent = 0, 0
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if now := f.server.options.Counters.Stats(); now.BytesReceived < 100_000 || now.BytesReceived > 120_000 {
		t.Errorf("%d bytes received, want the 100000 of the file and a little more", now.BytesReceived)
	}
}

func TestCountersGoOnAfterARestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stats.json")
	for range 2 {
		c, err := OpenCounters(file)
		if err != nil {
			t.Fatal(err)
		}
		c.update(func(s *Stats) { s.Connections++ })
		c.received.Add(10)
		c.save()
	}
	got, err := ReadStats(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Stats{Connections: 2, BytesReceived: 20}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Stats{Connections: 1, BytesReceived: 5}, got.Sub(Stats{Connections: 1, BytesReceived: 15})); diff != "" {
		t.Error("since an earlier reading:", diff)
	}
}

func FuzzOpenCounter(f *testing.F) {
	f.Add([]byte{0, 0, 0, 14, 3, 0, 0, 0, 1, 0, 0, 0, 1, 'a', 0, 0, 0, 2}, 3)
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 5, 3, 0xff, 0xff, 0xff, 0xff}, 1)
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		size = max(1, size%64)
		dir := t.TempDir()
		whole := &openCounter{counters: &Counters{path: filepath.Join(dir, "whole")}}
		whole.watch(stream)
		pieces := &openCounter{counters: &Counters{path: filepath.Join(dir, "pieces")}}
		for rest := stream; len(rest) > 0; {
			n := min(size, len(rest))
			pieces.watch(rest[:n])
			rest = rest[n:]
		}
		if w, p := whole.counters.stats.FilesOpenedForWriting, pieces.counters.stats.FilesOpenedForWriting; w != p {
			t.Errorf("%d opens in one piece, %d in pieces of %d", w, p, size)
		}
	})
}
