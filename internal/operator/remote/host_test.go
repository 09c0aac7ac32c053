package remote

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
)

// user is the user on the test hosts.
const user = "Administrator"

// testHost is a simulated host with its connection parameters.
type testHost struct {
	*sshserver.Server
	target Target
	home   string
}

// startHost serves a host on a loopback socket until the test ends.
func startHost(t testing.TB, change ...func(*sshserver.Options)) *testHost {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, l, change...)
	h.target.Address = "127.0.0.1"
	h.target.Port = l.Addr().(*net.TCPAddr).Port
	return h
}

// newHost serves a host on a listener until the test ends.
func newHost(t testing.TB, l net.Listener, change ...func(*sshserver.Options)) *testHost {
	t.Helper()
	key, hostKey := newKey(t, "ed25519"), newKey(t, "ed25519")
	o := sshserver.Options{
		HostKeys: []ssh.Signer{hostKey},
		Keys:     func(name string) []ssh.PublicKey { return map[string][]ssh.PublicKey{user: {key.PublicKey()}}[name] },
		Home:     t.TempDir(),
		Exec:     shell,
	}
	for _, c := range change {
		c(&o)
	}
	server, err := sshserver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("the host ended: %v", err)
		}
	})
	return &testHost{Server: server, home: o.Home, target: Target{Address: "sim", Port: 22, User: user, Key: key}}
}

// dial connects to the host and fails the test if that does not work.
func (h *testHost) dial(t testing.TB, o Options) *Host {
	t.Helper()
	c, err := Dial(t.Context(), h.target, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// names lists the files in the host's home.
func (h *testHost) names(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(h.home)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (h *testHost) read(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(h.home, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// shell implements the commands of the tests.
func shell(ctx context.Context, c sshserver.Command, stdin io.Reader, stdout, stderr io.Writer) int {
	var n int
	switch word, rest, _ := strings.Cut(c.Line, " "); word {
	case "echo":
		fmt.Fprintln(stdout, rest)
	case "cat":
		_, _ = io.Copy(stdout, stdin)
	case "count":
		n, _ := io.Copy(io.Discard, stdin)
		fmt.Fprint(stdout, n)
	case "first": // reads only one short line
		line, _ := bufio.NewReader(stdin).ReadString('\n')
		fmt.Fprint(stdout, line)
	case "complain":
		fmt.Fprint(stderr, rest)
		return 1
	case "exit":
		fmt.Sscan(rest, &n)
		return n
	case "hang":
		fmt.Fprintln(stdout, "hanging")
		<-ctx.Done()
	case "flood":
		for zeros := make([]byte, 32<<10); ctx.Err() == nil; {
			if _, err := stdout.Write(zeros); err != nil {
				return 1
			}
		}
	}
	return 0
}

func newKey(t testing.TB, kind string) ssh.Signer {
	t.Helper()
	var key any
	var err error
	switch kind {
	case "ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case "ecdsa":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "rsa":
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// expectKind fails unless err is an *Error of that kind.
func expectKind(t testing.TB, err error, want Kind) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an *Error of kind %s", err, want)
	}
	if e.Kind != want {
		t.Fatalf("got kind %s (%v), want %s", e.Kind, err, want)
	}
	return e
}

// expectSoon fails if done is not closed within a time that is long even for a busy machine.
func expectSoon(t testing.TB, done <-chan struct{}, event string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: not within 20 s", event)
	}
}
