package remote

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
)

// listen serves each TCP connection with the given function until the test ends.
func listen(t *testing.T, serve func(net.Conn)) Target {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return Target{Address: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, User: user, Key: newKey(t, "ed25519")}
}

// resolver resolves every name to the given addresses.
func resolver(addresses ...string) func(context.Context, string, string) ([]netip.Addr, error) {
	return func(context.Context, string, string) ([]netip.Addr, error) {
		var found []netip.Addr
		for _, a := range addresses {
			found = append(found, netip.MustParseAddr(a))
		}
		return found, nil
	}
}

func TestDialClassifiesFailures(t *testing.T) {
	type test struct {
		target  func(*testing.T) Target
		options Options
		want    Kind
		wantErr []string
	}
	named := func(name string) func(*testing.T) Target {
		return func(t *testing.T) Target { return Target{Address: name, User: user, Key: newKey(t, "ed25519")} }
	}
	faulty := func(f sshserver.Fault) func(*testing.T) Target {
		return func(t *testing.T) Target {
			h := startHost(t)
			h.SetFaults(func(int) sshserver.Fault { return f })
			return h.target
		}
	}
	for name, tt := range map[string]test{
		"closed port": {
			target: func(t *testing.T) Target {
				target := listen(t, func(net.Conn) {})
				target.Port = closedPort(t)
				return target
			},
			want: Refused, wantErr: []string{"refused", "start the OpenSSH server"},
		},
		"no answer to the handshake": {
			target: faulty(sshserver.Fault{Stall: true}), options: Options{HandshakeTimeout: 50 * time.Millisecond},
			want: Timeout, wantErr: []string{"handshake", "firewalls"},
		},
		"IPv6 address": {
			target: named("2001:db8::7"),
			want:   Unresolvable, wantErr: []string{"only IPv6 addresses (2001:db8::7)", "IPv4"},
		},
		"name with IPv6 addresses only": {
			target: named("win.example"), options: Options{Lookup: resolver("2001:db8::7", "2001:db8::8")},
			want: Unresolvable, wantErr: []string{"win.example:22", "only IPv6 addresses (2001:db8::7, 2001:db8::8)"},
		},
		"unknown name": {
			target: named("win.example"), options: Options{Lookup: func(context.Context, string, string) ([]netip.Addr, error) {
				return nil, &net.DNSError{Err: "no such host", Name: "win.example", IsNotFound: true}
			}},
			want: Unresolvable, wantErr: []string{"no such host"},
		},
		"silent DNS server": {
			target: named("win.example"), options: Options{DialTimeout: 20 * time.Millisecond,
				Lookup: func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}},
			want: Unresolvable, wantErr: []string{"deadline exceeded"},
		},
		"wrong key": {
			target: func(t *testing.T) Target {
				target := startHost(t).target
				target.Key = newKey(t, "ecdsa")
				return target
			},
			want: Authentication, wantErr: []string{`user "Administrator"`, "ecdsa-sha2-nistp256 SHA256:", "administrators_authorized_keys"},
		},
		"wrong user": {
			target: func(t *testing.T) Target {
				target := startHost(t).target
				target.User = "nobody"
				return target
			},
			want: Authentication, wantErr: []string{`user "nobody"`, "ssh-ed25519 SHA256:"},
		},
		"login refused": {
			target: faulty(sshserver.Fault{RefuseLogin: true}),
			want:   Authentication, wantErr: []string{"refuses"},
		},
		"passwords only": {
			target: rawHost(&ssh.ServerConfig{PasswordCallback: func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) {
				return nil, errors.New("no")
			}}, nil),
			want: Authentication, wantErr: []string{"accepts no keys, only password"},
		},
		"key and password": { // https://man.openbsd.org/sshd_config#AuthenticationMethods
			target: rawHost(&ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
				return nil, &ssh.PartialSuccessError{Next: ssh.ServerAuthCallbacks{
					PasswordCallback: func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { return nil, nil },
				}}
			}}, nil),
			want: Authentication, wantErr: []string{"requires more (password)"},
		},
		"disconnected after the first refusal": {
			target: rawHost(&ssh.ServerConfig{MaxAuthTries: 1, PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
				return nil, errors.New("no")
			}}, nil),
			want: Authentication,
		},
		"weak algorithms only": {
			target: rawHost(&ssh.ServerConfig{NoClientAuth: true,
				Config: ssh.Config{KeyExchanges: []string{ssh.InsecureKeyExchangeDH14SHA1}}}, nil),
			want: Protocol, wantErr: []string{"diffie-hellman-group14-sha1", "OpenSSH 7.7"},
		},
		"HMAC-SHA1 only": {
			target: rawHost(&ssh.ServerConfig{NoClientAuth: true,
				Config: ssh.Config{Ciphers: []string{ssh.CipherAES128CTR}, MACs: []string{ssh.HMACSHA1}}}, nil),
			want: Protocol, wantErr: []string{"hmac-sha1"},
		},
		"not SSH": {
			target: func(t *testing.T) Target {
				return listen(t, func(c net.Conn) {
					fmt.Fprintf(c, "HTTP/1.1 400 Bad Request %s\r\n", strings.Repeat("x", 300))
					_, _ = io.Copy(io.Discard, c)
				})
			},
			want: Protocol,
		},
		"closed at once": {
			target: func(t *testing.T) Target { return listen(t, func(net.Conn) {}) },
			want:   Lost, wantErr: []string{"handshake", "try again"},
		},
		"cut in the key exchange": {target: faulty(sshserver.Fault{CutAfterOut: 300}), want: Lost},
		"cut in the login":        {target: faulty(sshserver.Fault{CutAfterIn: 1700}), want: Lost},
	} {
		t.Run(name, func(t *testing.T) {
			target := tt.target(t)
			h, err := Dial(t.Context(), target, tt.options)
			if err == nil {
				h.Close()
				t.Fatal("the dial succeeded")
			}
			e := expectKind(t, err, tt.want)
			for _, s := range append(tt.wantErr, e.Host) {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not contain %q", err, s)
				}
			}
			if e.Host == "" || !strings.HasSuffix(err.Error(), "; "+e.Kind.advice()) || e.Kind.advice() == "" {
				t.Errorf("%q names neither the host nor the remedy", err)
			}
		})
	}
}

// closedPort returns a port that nothing listens on.
func closedPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// rawHost returns a host with the given configuration that passes each channel to serve.
func rawHost(config *ssh.ServerConfig, serve func(ssh.NewChannel)) func(*testing.T) Target {
	return func(t *testing.T) Target {
		config.AddHostKey(newKey(t, "ed25519"))
		return listen(t, func(c net.Conn) {
			_, channels, requests, err := ssh.NewServerConn(c, config)
			if err != nil {
				return
			}
			go ssh.DiscardRequests(requests)
			for offered := range channels {
				serve(offered)
			}
		})
	}
}

func TestDialTriesAllAddressesOfName(t *testing.T) {
	host := startHost(t)
	host.target.Address = "win.example"
	h := host.dial(t, Options{Lookup: resolver("2001:db8::7", "127.0.0.2", "127.0.0.1")}) // nothing listens on 127.0.0.2
	if err := h.Run(t.Context(), "exit 0", nil, nil); err != nil {
		t.Error(err)
	}
}

func TestCanceledDialIsNotHostError(t *testing.T) {
	host := startHost(t)
	host.SetFaults(func(int) sshserver.Fault { return sshserver.Fault{Stall: true} })
	stages := map[string]Options{
		"name resolution": {Lookup: func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}},
		"handshake": {Lookup: resolver("127.0.0.1")},
	}
	host.target.Address = "win.example"
	for name, o := range stages {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			_, err := Dial(ctx, host.target, o)
			var e *Error
			if !errors.Is(err, context.Canceled) || errors.As(err, &e) {
				t.Errorf("got %v, want a plain cancellation", err)
			}
		})
	}
	t.Run("deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := Dial(ctx, host.target, stages["handshake"])
		expectKind(t, err, Timeout)
	})
}

func TestHostKeyIsPinnedAtFirstContact(t *testing.T) {
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		t.Run(kind, func(t *testing.T) {
			hostKey := newKey(t, kind)
			host := startHost(t, func(o *sshserver.Options) { o.HostKeys = []ssh.Signer{hostKey} })
			first := host.dial(t, Options{})
			if got, want := FormatHostKey(first.HostKey()), FormatHostKey(hostKey.PublicKey()); got != want {
				t.Fatalf("the host key is %s, want %s", got, want)
			}
			host.target.HostKey = first.HostKey()
			host.dial(t, Options{})
		})
	}
}

func TestHostKeyChangeIsNotBadCredentials(t *testing.T) {
	for _, now := range []string{"ed25519", "ecdsa", "rsa"} {
		t.Run(now, func(t *testing.T) {
			host := startHost(t)
			pinned := host.dial(t, Options{}).HostKey()
			host.target.HostKey = pinned
			host.target.Key = newKey(t, "ed25519") // this host would reject it if it were used
			other := newKey(t, now)
			host.SetFaults(func(int) sshserver.Fault { return sshserver.Fault{HostKey: other} })
			_, err := Dial(t.Context(), host.target, Options{})
			e := expectKind(t, err, HostKeyChanged)
			if e.HostKey == nil || FormatHostKey(e.HostKey) != FormatHostKey(other.PublicKey()) {
				t.Errorf("the error carries the key %v, want the presented one", e.HostKey)
			}
			for _, k := range []ssh.PublicKey{pinned, other.PublicKey()} {
				if f := ssh.FingerprintSHA256(k); !strings.Contains(err.Error(), f) {
					t.Errorf("%q lacks the fingerprint %s", err, f)
				}
			}
		})
	}
}

// weakKey returns a key that ParseHostKey rejects.
func weakKey(t *testing.T) ssh.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	return must(ssh.NewSignerFromKey(key))
}

// TestWeakHostKeyIsRefusedAtFirstContact: otherwise the key would be pinned at first contact and rejected at every later one.
func TestWeakHostKeyIsRefusedAtFirstContact(t *testing.T) {
	host := startHost(t)
	weak := weakKey(t)
	host.SetFaults(func(int) sshserver.Fault { return sshserver.Fault{HostKey: weak} })
	_, err := Dial(t.Context(), host.target, Options{})
	expectKind(t, err, HostKeyUnsuitable)
	if !strings.Contains(err.Error(), "1024 bits") || !strings.Contains(err.Error(), "ssh-keygen -A") {
		t.Errorf("got error %v", err)
	}
}

// TestUnknownHostKeyIsRefusedWithoutTrustOnFirstUse expects that nothing is sent to an unknown host with KnownOnly, not even a login.
func TestUnknownHostKeyIsRefusedWithoutTrustOnFirstUse(t *testing.T) {
	host := startHost(t)
	known := host.dial(t, Options{}).HostKey()
	host.target.KnownOnly = true
	host.target.Key = newKey(t, "ed25519") // this host would reject it if it were used
	_, err := Dial(t.Context(), host.target, Options{})
	e := expectKind(t, err, HostKeyUnknown)
	if e.HostKey == nil || FormatHostKey(e.HostKey) != FormatHostKey(known) || !strings.Contains(err.Error(), ssh.FingerprintSHA256(known)) {
		t.Errorf("%v does not contain key %s", err, ssh.FingerprintSHA256(known))
	}
	host.target.HostKey = known
	_, err = Dial(t.Context(), host.target, Options{})
	expectKind(t, err, Authentication)
}

func TestHostWithSeveralKeysPresentsPinnedKey(t *testing.T) {
	var keys []ssh.Signer
	for _, kind := range []string{"rsa", "ecdsa", "ed25519"} {
		keys = append(keys, newKey(t, kind))
	}
	host := startHost(t, func(o *sshserver.Options) { o.HostKeys = keys })
	for _, k := range keys {
		host.target.HostKey = k.PublicKey()
		if got := host.dial(t, Options{}).HostKey(); FormatHostKey(got) != FormatHostKey(k.PublicKey()) {
			t.Errorf("pinned %s, got %s", k.PublicKey().Type(), got.Type())
		}
	}
}

func TestLoginWithEveryKeyType(t *testing.T) {
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		t.Run(kind, func(t *testing.T) {
			key := newKey(t, kind)
			host := startHost(t, func(o *sshserver.Options) {
				o.Keys = func(string) []ssh.PublicKey { return []ssh.PublicKey{key.PublicKey()} }
			})
			host.target.Key = key
			host.dial(t, Options{})
		})
	}
}

func TestRSAKeyNeverSignsWithSHA1(t *testing.T) {
	target := rawHost(&ssh.ServerConfig{
		PublicKeyAuthAlgorithms: []string{ssh.KeyAlgoRSA},
		PublicKeyCallback:       func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil },
	}, nil)(t)
	target.Key = newKey(t, "rsa")
	_, err := Dial(t.Context(), target, Options{})
	expectKind(t, err, Authentication)
}
