package sshserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// running is a server on a loopback socket, with a key that authorizes its user Administrator.
type running struct {
	*Server
	address string
	key     ssh.Signer
	options Options
}

func start(t testing.TB, change func(*Options)) *running {
	t.Helper()
	key := newKey(t)
	o := Options{
		HostKeys: []ssh.Signer{newKey(t)},
		Keys: func(user string) []ssh.PublicKey {
			return map[string][]ssh.PublicKey{"administrator": {newKey(t).PublicKey(), key.PublicKey()}}[strings.ToLower(user)]
		},
		Home: t.TempDir(),
	}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Server: s, key: key, options: o}
	stop := r.serve(t)
	t.Cleanup(stop)
	return r
}

// serve starts to serve on a new port, until stop is called.
func (r *running) serve(t testing.TB) (stop func()) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- r.Serve(ctx, l) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serving ended: %v", err)
		}
	})
}

func newKey(t testing.TB) ssh.Signer {
	t.Helper()
	s, _, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (r *running) login(user string, key ssh.Signer) (*ssh.Client, error) {
	return ssh.Dial("tcp4", r.address, &ssh.ClientConfig{
		User:            user,
		Auth:            []ssh.AuthMethod{ssh.PublicKeys(key)},
		HostKeyCallback: ssh.FixedHostKey(r.options.HostKeys[0].PublicKey()),
	})
}

// client logs in, and fails the test if that does not work.
func (r *running) client(t testing.TB) *ssh.Client {
	t.Helper()
	c, err := r.login("administrator", r.key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// session opens a channel, and fails the test if that does not work.
func session(t testing.TB, c *ssh.Client) *ssh.Session {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func (r *running) transfers(t testing.TB) *sftp.Client {
	t.Helper()
	c, err := sftp.NewClient(r.client(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// expectSoon fails if nothing arrives within a time that is long even for a busy machine.
func expectSoon[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: nothing after 20 s", what)
		panic("unreachable")
	}
}

func TestCommandsReachTheHandler(t *testing.T) {
	var got Command
	r := start(t, func(o *Options) {
		o.Exec = func(_ context.Context, c Command, stdin io.Reader, stdout, stderr io.Writer) int {
			got = c
			in, _ := io.ReadAll(stdin)
			fmt.Fprintf(stdout, "out %s", in)
			fmt.Fprintf(stderr, "err")
			return 0xC0000135
		}
	})
	s := session(t, r.client(t))
	var out, errOut bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader("in"), &out, &errOut
	err := s.Run(`.\\wicd.exe facts "a b"`)
	var e *ssh.ExitError
	if !errors.As(err, &e) || e.ExitStatus() != 0xC0000135 {
		t.Errorf("got %v, want the status 0xC0000135", err)
	}
	if out.String() != "out in" || errOut.String() != "err" {
		t.Errorf("got %q and %q", out.String(), errOut.String())
	}
	want := Command{Line: `.\\wicd.exe facts "a b"`, User: "administrator", Dir: r.options.Home}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("command (-want +got):\n%s", d)
	}
}

func TestLoginRequiresKeyOfUser(t *testing.T) {
	r := start(t, nil)
	for name, try := range map[string]struct {
		user string
		key  ssh.Signer
		ok   bool
	}{
		"right":        {"Administrator", r.key, true},
		"case differs": {"ADMINISTRATOR", r.key, true},
		"other user":   {"capi", r.key, false},
		"other key":    {"Administrator", newKey(t), false},
	} {
		c, err := r.login(try.user, try.key)
		if (err == nil) != try.ok {
			t.Errorf("%s: got %v", name, err)
		}
		if err == nil {
			c.Close()
		}
	}
}

func TestServerRequiresHostKey(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("a server without a host key was created")
	}
}

func TestUnknownRequestsAreRejected(t *testing.T) {
	r := start(t, nil)
	c := r.client(t)
	if _, _, err := c.OpenChannel("direct-tcpip", nil); err == nil {
		t.Error("a forwarding was accepted")
	}
	for name, request := range map[string]func(*ssh.Session) error{
		"exec without a handler": func(s *ssh.Session) error { return s.Start("x") },
		"shell":                  func(s *ssh.Session) error { return s.Shell() },
		"terminal":               func(s *ssh.Session) error { return s.RequestPty("xterm", 25, 80, nil) },
		"subsystem":              func(s *ssh.Session) error { return s.RequestSubsystem("powershell") },
		"environment":            func(s *ssh.Session) error { return s.Setenv("A", "b") },
	} {
		if err := request(session(t, c)); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestCommandContextEnds(t *testing.T) {
	for name, end := range map[string]func(*running, *ssh.Client, *ssh.Session, func()){
		"with a signal":         func(_ *running, _ *ssh.Client, s *ssh.Session, _ func()) { _ = s.Signal(ssh.SIGTERM) },
		"with the channel":      func(_ *running, _ *ssh.Client, s *ssh.Session, _ func()) { s.Close() },
		"with the connection":   func(_ *running, c *ssh.Client, _ *ssh.Session, _ func()) { c.Close() },
		"with a cut":            func(r *running, _ *ssh.Client, _ *ssh.Session, _ func()) { r.Cut() },
		"with the whole server": func(_ *running, _ *ssh.Client, _ *ssh.Session, stop func()) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			began, ended := make(chan struct{}), make(chan struct{})
			r := start(t, func(o *Options) {
				o.Exec = func(ctx context.Context, _ Command, _ io.Reader, _, _ io.Writer) int {
					close(began)
					<-ctx.Done()
					close(ended)
					return 0
				}
			})
			stop := r.serve(t)
			defer stop()
			c := r.client(t)
			s := session(t, c)
			if err := s.Start("hang"); err != nil {
				t.Fatal(err)
			}
			expectSoon(t, began, "starting")
			end(r, c, s, stop)
			expectSoon(t, ended, "ending")
		})
	}
}

func TestFaultAffectsOneConnection(t *testing.T) {
	other := newKey(t)
	const cut = 1200 // in the middle of the handshake
	faults := map[int]Fault{
		1: {CutAfterIn: cut}, 2: {CutAfterOut: cut}, 3: {RefuseLogin: true}, 4: {HostKey: other}, 5: {}, 6: {CutAfterOut: 1},
	}
	r := start(t, nil)
	r.SetFaults(func(n int) Fault { return faults[n] })
	for n := 1; n <= 5; n++ {
		before := r.Counters()
		c, err := r.login("Administrator", r.key)
		if err == nil {
			c.Close()
		}
		if (err == nil) != (n == 5) {
			t.Errorf("connection %d: %v", n, err)
		}
		after := r.Counters()
		if in := after.BytesIn - before.BytesIn; n == 1 && in != cut {
			t.Errorf("cut after %d bytes in, want %d", in, cut)
		}
		if out := after.BytesOut - before.BytesOut; n == 2 && out != cut {
			t.Errorf("cut after %d bytes out, want %d", out, cut)
		}
	}
	r.SetFaults(nil)
	if _, err := r.login("Administrator", r.key); err != nil {
		t.Errorf("without faults: %v", err)
	}
}

func TestStalledConnectionIsNeverAnswered(t *testing.T) {
	r := start(t, nil)
	r.SetFaults(func(int) Fault { return Fault{Stall: true} })
	c, err := net.Dial("tcp4", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("SSH-2.0-test\r\n")); err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("got an answer: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	r.Cut()
	if err := expectSoon(t, got, "the cut"); err == nil {
		t.Error("got an answer, want the end")
	}
}

func TestFailedListenerEndsServe(t *testing.T) {
	s, err := New(Options{HostKeys: []ssh.Signer{newKey(t)}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := s.Serve(t.Context(), l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want the listener's error", err)
	}
}
