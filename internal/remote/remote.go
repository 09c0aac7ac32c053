// Package remote is a Windows host over SSH: run a command, put a file, over one connection. The host's key is pinned,
// everything can be canceled and has a deadline, and every failure to reach a host is one of the few kinds a user can do
// something about. It knows nothing of what is run or put; the caller quotes its command lines.
package remote

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// Target says which host to reach and how to tell that it is the right one.
type Target struct {
	// Address is an IPv4 address or a DNS name that has one.
	Address string
	// Port is where sshd listens; 0 means 22.
	Port int
	// User is the account to log in with; it has to be an administrator for most of what is done to a host.
	User string
	// Key is the private key that User accepts.
	Key ssh.Signer
	// HostKey is the only key the host may show. When nil, the host is taken at its word: the caller keeps
	// Host.HostKey and pins it from then on.
	HostKey ssh.PublicKey
	// KnownOnly takes no host at its word: without HostKey, dialing ends when the host has shown its key, before anything is sent.
	KnownOnly bool
}

// Options bounds how long things may take. The zero value has the defaults.
type Options struct {
	// DialTimeout bounds the name resolution and the TCP connection together; default 10 s.
	DialTimeout time.Duration
	// HandshakeTimeout bounds the key exchange and the login together; default 15 s.
	HandshakeTimeout time.Duration
	// KeepAlive is the time between two questions whether the host is still there; default 10 s.
	KeepAlive time.Duration
	// KeepAliveMisses is how many questions in a row may stay without a sign of life before the connection counts as lost; default 3.
	KeepAliveMisses int
	// Grace is how long a canceled call may take to close its channel before the connection is closed instead; default 2 s.
	Grace time.Duration
	// Lookup resolves a name; default net.DefaultResolver.LookupNetIP, whose signature it has.
	Lookup func(ctx context.Context, network, name string) ([]netip.Addr, error)
	// Dial opens a TCP connection; default net.Dialer.DialContext, whose signature it has.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (o Options) withDefaults() Options {
	orDefault := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	orDefault(&o.DialTimeout, 10*time.Second)
	orDefault(&o.HandshakeTimeout, 15*time.Second)
	orDefault(&o.KeepAlive, 10*time.Second)
	orDefault(&o.Grace, 2*time.Second)
	if o.KeepAliveMisses == 0 {
		o.KeepAliveMisses = 3
	}
	if o.Lookup == nil {
		o.Lookup = net.DefaultResolver.LookupNetIP
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	return o
}

// Host is an authenticated connection to a host. Its methods may be called from several goroutines at once; each Run and
// Put opens a channel of its own, of which OpenSSH allows ten at a time (MaxSessions).
type Host struct {
	name    string // address:port, for messages
	options Options
	key     ssh.PublicKey
	address netip.Addr
	conn    *countedConn
	client  *ssh.Client
	opened  atomic.Int64 // channels

	once  sync.Once
	dead  chan struct{} // closed when the connection has ended or is being closed
	cause error         // why; set before dead is closed
}

// Usage is what a connection has carried so far.
type Usage struct {
	// Channels counts the channels opened, one for each Run and Put.
	Channels int64
	// BytesIn and BytesOut count what TCP carried from and to the host, protocol overhead included.
	BytesIn, BytesOut int64
}

// Dial connects and logs in. Failures are *Error, unless ctx was canceled. The context only governs the dialing.
func Dial(ctx context.Context, t Target, o Options) (*Host, error) {
	if t.Port == 0 {
		t.Port = 22
	}
	o = o.withDefaults()
	c, err := connect(ctx, t, o)
	if err != nil {
		return nil, err
	}
	return login(ctx, c, t, o)
}

// HostKey is the key the host has shown, and proved to own.
func (h *Host) HostKey() ssh.PublicKey { return h.key }

// Address is the address at which the host was reached.
func (h *Host) Address() netip.Addr { return h.address }

// Usage counts what the connection has carried so far.
func (h *Host) Usage() Usage {
	return Usage{Channels: h.opened.Load(), BytesIn: h.conn.in.Load(), BytesOut: h.conn.out.Load()}
}

// Close ends the connection and every call on it. It may be called more than once.
func (h *Host) Close() error {
	h.end(net.ErrClosed)
	return nil
}

// countedConn counts the bytes of a connection.
type countedConn struct {
	net.Conn
	in, out atomic.Int64
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.out.Add(int64(n))
	return n, err
}

func hostPort(t Target) string { return net.JoinHostPort(t.Address, strconv.Itoa(t.Port)) }
