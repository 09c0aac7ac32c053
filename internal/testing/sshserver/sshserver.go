// Package sshserver is the SSH server of simulated Windows hosts and of the lab's hosts on Wine. It supports what the operator needs from a
// host, with the real protocol: public-key logins, commands executed by a Go function, and file transfers into a folder. It counts requests,
// so that tests can check the host's view, has quirks of OpenSSH for Windows, and can inject faults. A server without connections costs one
// goroutine; it does not depend on the operating system.
package sshserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// loginGrace is how long a login may take; OpenSSH's LoginGraceTime has the same default.
const loginGrace = 2 * time.Minute

// Options are the options of a server. They must not be changed after New.
type Options struct {
	// HostKeys identify the host. Each key is offered, the client chooses by type. At least one is needed.
	HostKeys []ssh.Signer
	// Keys returns the keys that a user may log in with, at each login. If nil, none.
	Keys func(user string) []ssh.PublicKey
	// Home is an existing folder of this machine: commands start there, and relative names of file transfers are resolved there.
	Home string
	// Root, if set, contains the simulated drives: the transferred file C:/k/x is <Root>/C/k/x, and /etc/x is <Root>/etc/x. If
	// empty, absolute names are those of this machine.
	Root string
	// FirstHome is the home that a connection has because of Quirks.NoProfile.
	FirstHome string
	// Quirks, if set, returns the quirks of each new connection.
	Quirks func() Quirks
	// Arrived, if set, is called with the local name of each file that a transfer has renamed to its final name.
	Arrived func(local string)
	// Exec runs a command. If nil, commands are rejected.
	Exec Handler
	// EndlessFolders makes every folder list endless files, as a hostile host could.
	EndlessFolders bool
	// CountersFile, if set, keeps the counters, so that a new server continues them; see ReadCounters.
	CountersFile string
	// ReadBuffer is the size of a connection's buffer for reads; 0 for none.
	ReadBuffer int
	// Log, if set, gets a record for each login and its end.
	Log *slog.Logger
}

// Command is one exec request.
type Command struct {
	// Line is the command line as the client sent it, not interpreted by a shell.
	Line string
	// User is the name the client logged in with.
	User string
	// Dir is the folder in which it starts: Options.Home, or FirstHome.
	Dir string
	// Quirks are those of its connection.
	Quirks Quirks
}

// Handler runs one command and returns its exit status; Windows statuses such as 0xC0000135 fit. The context ends when
// the client signals the command, closes its channel or loses its connection, unless Quirks.RunsOn. Each stream is used by one
// goroutine at a time.
type Handler func(ctx context.Context, c Command, stdin io.Reader, stdout, stderr io.Writer) int

// Fault is an injected fault of one connection. The zero value means no fault.
type Fault struct {
	// CutAfterIn closes the connection after this many bytes were received; 0 means never.
	CutAfterIn int64
	// CutAfterOut closes the connection after this many bytes were sent; 0 means never.
	CutAfterOut int64
	// Stall keeps the connection open and never answers.
	Stall bool
	// RefuseLogin rejects every key.
	RefuseLogin bool
	// HostKey is used instead of Options.HostKeys.
	HostKey ssh.Signer
}

// Server is an SSH server. All its methods may be called at any time and from any goroutine.
type Server struct {
	options Options
	in, out atomic.Int64

	mu     sync.Mutex
	counts Counters // without bytes
	saved  [2]int64 // bytes in the file
	fault  func(connection int) Fault
	live   map[*conn]struct{}
	last   Quirks // of the last login
}

// New returns a server; see Serve.
func New(o Options) (*Server, error) {
	if len(o.HostKeys) == 0 {
		return nil, errors.New("creating an SSH server: Options.HostKeys is empty")
	}
	if o.Quirks == nil {
		o.Quirks = func() Quirks { return Quirks{} }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{options: o, live: map[*conn]struct{}{}}
	if o.CountersFile != "" {
		var err error
		if s.counts, err = ReadCounters(o.CountersFile); err != nil {
			return nil, err
		}
		s.in.Store(s.counts.BytesIn)
		s.out.Store(s.counts.BytesOut)
	}
	return s, nil
}

// Serve accepts connections from l until ctx ends or l fails. It then closes l and all connections, waits for the running commands, and returns nil
// if ctx ended. It may be called again with another listener, as if the host had rebooted, and for several listeners at once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	var open sync.WaitGroup
	defer open.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	if s.options.CountersFile != "" {
		open.Go(func() { s.keepSaving(ctx) })
	}
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			open.Go(func() { s.serveConn(ctx, c) })
		case ctx.Err() != nil:
			return nil
		default:
			l.Close()
			return fmt.Errorf("accepting connections on %s: %w", l.Addr(), err)
		}
	}
}

// SetFaults sets the faults from now on: fault is called once for each new connection, with its number in Counters.Connections.
// Calls are not concurrent. Nil means no faults.
func (s *Server) SetFaults(fault func(connection int) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Cut closes all open connections without a message.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.live {
		c.Close()
	}
}

// admit registers a new connection and determines its fault.
func (s *Server) admit(c net.Conn) (*conn, Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Connections++
	s.saveLocked()
	var f Fault
	if s.fault != nil {
		f = s.fault(s.counts.Connections)
	}
	admitted := newConn(c, s, f)
	s.live[admitted] = struct{}{}
	return admitted, f
}

func (s *Server) dismiss(c *conn) {
	c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, c)
	s.saveLocked()
}

// config returns the SSH configuration of a connection with the given fault and version string.
func (s *Server) config(f Fault, version string) *ssh.ServerConfig {
	c := &ssh.ServerConfig{
		ServerVersion: version,
		PublicKeyCallback: func(m ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if f.RefuseLogin || !s.authorized(m.User(), key) {
				return nil, fmt.Errorf("user %q may not log in with %s", m.User(), ssh.FingerprintSHA256(key))
			}
			return nil, nil
		},
	}
	keys := s.options.HostKeys
	if f.HostKey != nil {
		keys = []ssh.Signer{f.HostKey}
	}
	for _, k := range keys {
		c.AddHostKey(k)
	}
	return c
}

func (s *Server) authorized(user string, key ssh.PublicKey) bool {
	return s.options.Keys != nil && slices.ContainsFunc(s.options.Keys(user), func(k ssh.PublicKey) bool { return bytes.Equal(k.Marshal(), key.Marshal()) })
}

// ParseKeys returns the keys in the content of an authorized_keys file.
func ParseKeys(content []byte) (keys []ssh.PublicKey) {
	for {
		key, _, _, rest, err := ssh.ParseAuthorizedKey(content)
		if err != nil {
			return keys // there are no more
		}
		keys, content = append(keys, key), rest
	}
}
