// Package remote connects to a Windows host over SSH to run commands and copy files over one connection. The host's key is pinned, all calls have
// deadlines and can be canceled, and each failure to reach a host is one of a few kinds that a user can act on. The package does not interpret
// commands or files; the caller quotes command lines.
package remote

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// Target is a host to connect to and how to verify its identity.
type Target struct {
	// Address is an IPv4 address or a DNS name that has one.
	Address string
	// Port is where sshd listens; 0 means 22.
	Port int
	// User is the account to log in with. Most operations on a host require an administrator.
	User string
	// Key is the private key that User accepts.
	Key ssh.Signer
	// HostKey is the only accepted host key. If nil, any suitable key is accepted (trust on first use): the caller stores Host.HostKey and pins it
	// from then on.
	HostKey ssh.PublicKey
	// KnownOnly disables trust on first use: without HostKey, the dial ends after the host has presented its key, before anything is sent.
	KnownOnly bool
}

// Options limits how long operations may take. The zero value has the defaults.
type Options struct {
	// DialTimeout limits name resolution and the TCP connection together; default 10 s.
	DialTimeout time.Duration
	// HandshakeTimeout limits key exchange and login together; default 15 s.
	HandshakeTimeout time.Duration
	// KeepAlive is the interval of keepalive requests; default 10 s.
	KeepAlive time.Duration
	// KeepAliveMisses is how many keepalive requests in a row may pass without any data from the host before the connection is considered lost;
	// default 3.
	KeepAliveMisses int
	// Grace is how long a canceled call may take to close its channel before the connection is closed; default 2 s.
	Grace time.Duration
	// Lookup resolves a name; default net.DefaultResolver.LookupNetIP.
	Lookup func(ctx context.Context, network, name string) ([]netip.Addr, error)
	// Dial opens a TCP connection; default net.Dialer.DialContext.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (o Options) withDefaults() Options {
	o.DialTimeout = cmp.Or(o.DialTimeout, 10*time.Second)
	o.HandshakeTimeout = cmp.Or(o.HandshakeTimeout, 15*time.Second)
	o.KeepAlive = cmp.Or(o.KeepAlive, 10*time.Second)
	o.KeepAliveMisses = cmp.Or(o.KeepAliveMisses, 3)
	o.Grace = cmp.Or(o.Grace, 2*time.Second)
	if o.Lookup == nil {
		o.Lookup = net.DefaultResolver.LookupNetIP
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	return o
}

// Host is an authenticated connection to a host. Its methods may be called concurrently; each Run and Put opens its own channel, of which OpenSSH
// allows ten at a time (MaxSessions).
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
	cause error         // why dead is closed; set before that
}

// Usage is what a connection has transferred so far.
type Usage struct {
	// Channels counts the channels opened, one for each Run and Put.
	Channels int64
	// BytesIn and BytesOut count the bytes of the TCP connection from and to the host, including the overhead of SSH.
	BytesIn, BytesOut int64
}

// Dial connects and logs in. Errors are *Error, unless ctx was canceled. The context applies only to dialing.
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

// HostKey returns the key that the host presented and proved to own.
func (h *Host) HostKey() ssh.PublicKey { return h.key }

// Address returns the address at which the host was reached.
func (h *Host) Address() netip.Addr { return h.address }

// Usage returns what the connection has transferred so far.
func (h *Host) Usage() Usage {
	return Usage{Channels: h.opened.Load(), BytesIn: h.conn.in.Load(), BytesOut: h.conn.out.Load()}
}

// Close closes the connection and ends all calls on it. It may be called more than once.
func (h *Host) Close() error {
	h.end(net.ErrClosed)
	return nil
}

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
