package sshserver

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// serveConn serves one connection until it or the server ends.
func (s *Server) serveConn(server context.Context, tcp net.Conn) {
	c, fault := s.admit(tcp)
	defer s.dismiss(c)
	ctx, cancel := context.WithCancel(server)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if fault.Stall {
		_, _ = io.Copy(io.Discard, c) // until the client gives up
		return
	}
	_ = c.SetDeadline(time.Now().Add(loginGrace))
	log, quirks := s.options.Log.With("client", tcp.RemoteAddr().String()), s.options.Quirks()
	login, channels, requests, err := ssh.NewServerConn(c, s.config(fault, quirks.Version))
	if err != nil {
		log.Info("Connection refused", "error", err)
		return
	}
	log.Info("Connected", "user", login.User())
	_ = c.SetDeadline(time.Time{})
	go ssh.DiscardRequests(requests) // answers keepalives

	var open sync.WaitGroup
	commands := ctx
	if quirks.RunsOn {
		commands = server
	}
	clientUser := clientUser{user: login.User(), home: s.home(quirks), quirks: quirks}
	for channel := range channels {
		open.Go(func() { s.serveChannel(commands, clientUser, channel) })
	}
	cancel()
	open.Wait()
	log.Info("Disconnected")
}

// clientUser is a logged-in user.
type clientUser struct {
	user, home string
	quirks     Quirks
}

// home returns the folder in which a new connection starts. The first one with other quirks than before is that of a new user.
func (s *Server) home(q Quirks) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	isFirst := q != s.last
	s.last = q
	if q.NoProfile && isFirst {
		return s.options.FirstHome
	}
	return s.options.Home
}

// serveChannel runs the one command or file transfer of a channel, while it listens for signals and the end of the channel.
func (s *Server) serveChannel(ctx context.Context, user clientUser, offered ssh.NewChannel) {
	if offered.ChannelType() != "session" {
		_ = offered.Reject(ssh.UnknownChannelType, "only sessions are served")
		return
	}
	channel, requests, err := offered.Accept()
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	busy := false
	for r := range requests {
		if r.Type == "signal" {
			_ = r.Reply(true, nil)
			if !user.quirks.RunsOn {
				cancel()
			}
			continue
		}
		serve := s.program(r, user)
		if busy || serve == nil {
			_ = r.Reply(false, nil)
			continue
		}
		busy = true
		_ = r.Reply(true, nil)
		work.Go(func() { finish(channel, serve(ctx, channel)) })
	}
	if !user.quirks.RunsOn {
		cancel()
	}
	work.Wait()
	cancel()
	channel.Close()
}

// program returns what a request starts, already counted; nil if the server does not support it.
func (s *Server) program(r *ssh.Request, user clientUser) func(context.Context, ssh.Channel) int {
	var requested struct{ Name string } // the command of RFC 4254 section 6.5, and the subsystem too
	if ssh.Unmarshal(r.Payload, &requested) != nil {
		return nil
	}
	switch {
	case r.Type == "exec" && s.options.Exec != nil:
		s.count(func(n *Counters) { n.ExecChannels++; n.Commands = append(n.Commands, requested.Name) })
		command := Command{Line: requested.Name, User: user.user, Dir: user.home, Quirks: user.quirks}
		return func(ctx context.Context, c ssh.Channel) int {
			return s.options.Exec(ctx, command, c, c, c.Stderr())
		}
	case r.Type == "subsystem" && requested.Name == "sftp":
		s.count(func(n *Counters) { n.SFTPChannels++ })
		return func(_ context.Context, c ssh.Channel) int { return s.transfer(c, user) }
	}
	return nil
}

// transfer serves SFTP until the client ends it.
func (s *Server) transfer(c ssh.Channel, user clientUser) int {
	f := &files{
		home: user.home, root: s.options.Root, endless: s.options.EndlessFolders, arrived: s.options.Arrived, heldFor: user.quirks.HeldFor,
		wrote: func() { s.count(func(n *Counters) { n.FilesWritten++ }) },
	}
	server := sftp.NewRequestServer(c, sftp.Handlers{FileGet: f, FilePut: f, FileCmd: f, FileList: f},
		sftp.WithStartDirectory(f.remote(user.home)))
	if err := server.Serve(); err != nil && !errors.Is(err, io.EOF) {
		return 1
	}
	return 0
}

// finish sends the exit status of a program to the client.
func finish(c ssh.Channel, status int) {
	_, _ = c.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)}))
	_ = c.Close()
}
