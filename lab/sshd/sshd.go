// Package sshd is the SSH server of the lab's Windows hosts. It behaves like OpenSSH on Windows where that matters: public keys
// from an authorized_keys file, commands run by the default shell in the user's home, SFTP with the same home and with paths like
// /C:/k. It counts what its clients do, so that tests can check it.
package sshd

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// Options are the settings of a Server. All fields but Shell and Quirks are required.
type Options struct {
	// HostKey is the server's identity; see LoadHostKey.
	HostKey ssh.Signer
	// User is the only user who can log in; the name is not case-sensitive, as on Windows.
	User string
	// AuthorizedKeysFile is read at each login.
	AuthorizedKeysFile string
	// Home is the folder in which commands and SFTP sessions start.
	Home string
	// Shell returns the command that runs a command line; nil means the system's shell, cmd.exe on Windows. The server sets
	// streams and folder.
	Shell func(line string) *exec.Cmd
	// Quirks returns those for a new connection; nil means none.
	Quirks func() Quirks
	// Counters counts; see OpenCounters.
	Counters *Counters
	// Log gets a record for each connection and each failure.
	Log *slog.Logger
}

// A Server serves any number of connections.
type Server struct {
	options Options
	config  *ssh.ServerConfig

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
	last   Quirks // of the last connection
}

// visit is one connection.
type visit struct {
	server *Server
	quirks Quirks
	home   string
	ended  <-chan struct{} // closed when the connection is closed
	log    *slog.Logger
}

// New returns a server; see Serve.
func New(o Options) *Server {
	if o.Shell == nil {
		o.Shell = systemShell
	}
	if o.Quirks == nil {
		o.Quirks = func() Quirks { return Quirks{} }
	}
	s := &Server{options: o, conns: map[net.Conn]struct{}{}}
	s.config = &ssh.ServerConfig{PublicKeyCallback: s.authorize, ServerVersion: "SSH-2.0-OpenSSH_for_Windows_8.9"}
	s.config.AddHostKey(o.HostKey)
	return s
}

// authorize accepts one of the user's keys in the file.
func (s *Server) authorize(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
	if !strings.EqualFold(c.User(), s.options.User) {
		return nil, fmt.Errorf("checking the key of %q: no such user", c.User())
	}
	rest, err := os.ReadFile(s.options.AuthorizedKeysFile)
	if err != nil {
		return nil, fmt.Errorf("reading the authorized keys: %w", err)
	}
	for len(rest) > 0 {
		var allowed ssh.PublicKey
		if allowed, _, _, rest, err = ssh.ParseAuthorizedKey(rest); err != nil {
			break // no further key
		}
		if bytes.Equal(allowed.Marshal(), key.Marshal()) {
			return nil, nil
		}
	}
	return nil, fmt.Errorf("checking the key of %q: not authorized", c.User())
}

// Serve accepts connections until the listener is closed, and returns when all connections have ended.
func (s *Server) Serve(l net.Listener) error {
	var connections sync.WaitGroup
	defer connections.Wait()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accepting a connection: %w", err)
		}
		if !s.add(conn) {
			_ = conn.Close()
			continue
		}
		connections.Go(func() {
			defer s.remove(conn)
			s.serve(conn)
		})
	}
}

// Close ends all connections with their commands. The server cannot be used again.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for conn := range s.conns {
		_ = conn.Close()
	}
}

func (s *Server) add(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[conn] = struct{}{}
	return !s.closed
}

func (s *Server) remove(conn net.Conn) {
	_ = conn.Close()
	s.mu.Lock()
	delete(s.conns, conn)
	s.mu.Unlock()
	s.options.Counters.save()
}

func (s *Server) serve(raw net.Conn) {
	log := s.options.Log.With("client", raw.RemoteAddr().String())
	s.options.Counters.update(func(c *Stats) { c.Connections++ })
	q, config := s.options.Quirks(), *s.config
	config.ServerVersion = cmp.Or(q.Version, config.ServerVersion)
	conn, channels, requests, err := ssh.NewServerConn(newCountingConn(raw, s.options.Counters), &config)
	if err != nil {
		log.Info("Connection refused", "error", err)
		return
	}
	log.Info("Connected", "user", conn.User())
	go ssh.DiscardRequests(requests)
	ended := make(chan struct{})
	v := visit{s, q, s.home(q), ended, log}
	var sessions sync.WaitGroup
	for ch := range channels {
		if ch.ChannelType() != "session" {
			_ = ch.Reject(ssh.UnknownChannelType, "only sessions are served")
			continue
		}
		sessions.Go(func() { v.session(ch) })
	}
	close(ended)
	sessions.Wait()
	log.Info("Disconnected")
}

// home is where the sessions of a connection begin: the first one with other quirks than before is that of a new user.
func (s *Server) home(q Quirks) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	isFirst := q != s.last
	s.last = q
	if q.NoProfile && isFirst {
		return systemFolder
	}
	return s.options.Home
}

// session serves the one request of a channel that starts something.
func (v visit) session(n ssh.NewChannel) {
	ch, requests, err := n.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	for r := range requests {
		var payload struct{ Text string }
		if r.Type != "exec" && r.Type != "subsystem" || ssh.Unmarshal(r.Payload, &payload) != nil {
			_ = r.Reply(false, nil)
			continue
		}
		if r.Type == "subsystem" && payload.Text != "sftp" {
			_ = r.Reply(false, nil)
			return
		}
		_ = r.Reply(true, nil)
		go ssh.DiscardRequests(requests)
		if r.Type == "exec" {
			v.command(ch, payload.Text)
		} else {
			v.files(ch)
		}
		return
	}
}

// command runs a command line and reports its exit code.
func (v visit) command(ch ssh.Channel, line string) {
	v.server.options.Counters.update(func(c *Stats) {
		c.ExecChannels++
		c.Commands = append(c.Commands, line)
	})
	code, err := v.run(ch, line)
	if err != nil {
		v.log.Info("Command not run", "command", line, "error", err)
		fmt.Fprintf(ch.Stderr(), "%v\r\n", err)
		code = 1
	}
	_ = ch.CloseWrite()
	_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{code}))
}

func (v visit) run(ch ssh.Channel, line string) (uint32, error) {
	cmd := v.server.options.Shell(line)
	cmd.Dir = v.home
	_, _ = io.WriteString(ch, v.quirks.Profile) // an error means that the client has stopped reading
	p, err := start(cmd, ch, v.quirks)
	if err != nil {
		return 0, err
	}
	defer p.kill()
	type result struct {
		code uint32
		err  error
	}
	done, over := make(chan result, 1), make(chan struct{})
	defer close(over)
	go func() {
		_, _ = io.CopyBuffer(p.stdin, v.quirks.input(ch, over), make([]byte, copySize))
		_ = p.stdin.Close()
	}()
	go func() {
		code, err := p.wait()
		done <- result{code, err}
	}()
	var ended result
	select {
	case ended = <-done:
	case <-v.ended:
		if !v.quirks.RunsOn {
			p.kill()
		}
		ended = <-done
	}
	return v.quirks.exitCode(ended.code), ended.err
}

// files serves SFTP.
func (v visit) files(ch ssh.Channel) {
	counters := v.server.options.Counters
	counters.update(func(c *Stats) { c.SFTPChannels++ })
	server, err := sftp.NewServer(&openCounter{ReadWriteCloser: ch, counters: counters},
		sftp.WithServerWorkingDirectory(workingDirectory(v.home)))
	if err != nil {
		v.log.Info("SFTP not served", "error", err)
		return
	}
	defer server.Close()
	if err := server.Serve(); err != nil && !errors.Is(err, io.EOF) {
		v.log.Info("SFTP ended", "error", err)
	}
	_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{0}))
}

// workingDirectory converts C:\Users\x to /C:/Users/x, the form of absolute paths in SFTP. It returns others unchanged.
func workingDirectory(home string) string {
	if len(home) > 1 && home[1] == ':' {
		return "/" + strings.ReplaceAll(home, `\`, "/")
	}
	return home
}
