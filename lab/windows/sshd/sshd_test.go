//go:build !windows

package sshd

import (
	"bytes"
	"context"
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
	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
)

// A fixture is a server with one authorized key.
type fixture struct {
	options Options
	address string
	hostKey ssh.PublicKey
	key     ssh.Signer
}

func mustKey(t *testing.T) ssh.Signer {
	t.Helper()
	signer, _, err := sshserver.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func mustServe(t *testing.T) fixture {
	t.Helper()
	dir := t.TempDir()
	f := fixture{key: mustKey(t), options: Options{
		HostKeyFile: filepath.Join(dir, "host_key"), User: "Administrator", AuthorizedKeysFile: filepath.Join(dir, "authorized_keys"),
		Home: t.TempDir(), QuirksFile: filepath.Join(dir, "quirks.json"), CountersFile: filepath.Join(dir, "counters.json"),
		Log: slog.New(slog.DiscardHandler),
	}}
	text := "# a comment\n" + string(ssh.MarshalAuthorizedKey(mustKey(t).PublicKey())) + string(ssh.MarshalAuthorizedKey(f.key.PublicKey()))
	mustWrite(t, f.options.AuthorizedKeysFile, text)
	server, err := New(f.options)
	if err != nil {
		t.Fatal(err)
	}
	hostKey, err := loadHostKey(f.options.HostKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	f.hostKey = hostKey.PublicKey()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return f
}

func mustWrite(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
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

func TestLoginRequiresUserAndAuthorizedKey(t *testing.T) {
	f := mustServe(t)
	f.mustDial(t)
	if _, err := f.dial("root", f.key); err == nil {
		t.Error("another user logged in")
	}
	if _, err := f.dial("Administrator", mustKey(t)); err == nil {
		t.Error("an unknown key logged in")
	}
}

func TestHostKeyIsCreatedOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	first, err := loadHostKey(file)
	if err != nil {
		t.Fatal(err)
	}
	second, err := loadHostKey(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.PublicKey().Marshal(), second.PublicKey().Marshal()) {
		t.Error("the second load returned another host key")
	}
}

func TestCommandReturnsStreamsAndExitCode(t *testing.T) {
	f := mustServe(t)
	s := mustSession(t, f.mustDial(t))
	var stdout, stderr bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader("input"), &stdout, &stderr
	err := s.Run("cat; pwd; echo oops >&2; exit 7")
	var exit *ssh.ExitError
	if !errors.As(err, &exit) || exit.ExitStatus() != 7 {
		t.Errorf("error %v, want exit code 7", err)
	}
	home, err := filepath.EvalSymlinks(f.options.Home)
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

func TestCommandEndsWithOpenInput(t *testing.T) {
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

func TestLargeStreamsAreCopiedBothWays(t *testing.T) {
	s := mustSession(t, mustServe(t).mustDial(t))
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<19) // four windows of SSH
	var got bytes.Buffer
	s.Stdin, s.Stdout = bytes.NewReader(sent), &got
	if err := s.Run("cat"); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), sent) {
		t.Errorf("received %d bytes that differ from the %d bytes sent", got.Len(), len(sent))
	}
}

func TestClosedConnectionKillsCommand(t *testing.T) {
	f := mustServe(t)
	c := f.mustDial(t)
	s := mustSession(t, c)
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(f.options.Home, "fifo")
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

func TestQuirkLetsCommandsOutliveConnection(t *testing.T) {
	f := mustServe(t)
	mustWrite(t, f.options.QuirksFile, `{"RunsOn":true}`)
	c := f.mustDial(t)
	s := mustSession(t, c)
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("echo started; cat; echo done >ended"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("started\n"))); err != nil {
		t.Fatal(err)
	}
	c.Close()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(filepath.Join(f.options.Home, "ended")); err == nil && bytes.Equal(text, []byte("done\n")) {
			return
		}
	}
	t.Error("the command ended with its connection")
}

func TestFirstConnectionStartsInSystemFolder(t *testing.T) {
	f := mustServe(t)
	mustWrite(t, f.options.QuirksFile, `{"NoProfile":true}`)
	for i, want := range []string{systemFolder, f.options.Home, f.options.Home} {
		out, err := mustSession(t, f.mustDial(t)).Output("pwd")
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("working folder of connection %d: got %q (%v), want %q", i+1, got, err, want)
		}
	}
}

func TestQuirksAreReadFromFile(t *testing.T) {
	const version = "SSH-2.0-OpenSSH_for_Windows_8.9"
	var log bytes.Buffer
	o := Options{QuirksFile: filepath.Join(t.TempDir(), "quirks.json"), Log: slog.New(slog.NewTextHandler(&log, nil))}
	if got, want := o.quirks(), (sshserver.Quirks{Version: version}); got != want || log.Len() > 0 {
		t.Errorf("without a file: got %+v with log %q, want %+v", got, log.String(), want)
	}
	mustWrite(t, o.QuirksFile, `{"StdinEnds":4,"OverlappedPipes":true}`)
	if got, want := o.quirks(), (sshserver.Quirks{Version: version, StdinEnds: 4, OverlappedPipes: true}); got != want || log.Len() > 0 {
		t.Errorf("got %+v with log %q, want %+v", got, log.String(), want)
	}
	mustWrite(t, o.QuirksFile, "{")
	if o.quirks(); log.Len() == 0 {
		t.Error("an invalid file is not logged")
	}
}
