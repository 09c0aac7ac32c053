// Package proxy is a TCP proxy that simulates a slow, distant connection: it delays data and limits their rate. The kernel's network emulation is not
// available everywhere.
package proxy

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// Options describe the line.
type Options struct {
	// Target is the address to connect to, Listen the address to listen on, with their ports.
	Target, Listen string
	// Delay is the delay in each direction: half of the round trip.
	Delay time.Duration
	// Rate is the number of bytes per second in each direction, 0 for no limit. All connections share it.
	Rate int64
}

// A Proxy accepts connections until it is closed.
type Proxy struct {
	target   string
	listener net.Listener
	up, down *line

	mu    sync.Mutex
	conns map[net.Conn]struct{} // of clients
}

// Listen starts a proxy.
func Listen(o Options) (*Proxy, error) {
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	p := &Proxy{
		target: o.Target, listener: l, conns: map[net.Conn]struct{}{},
		up: &line{delay: o.Delay, rate: o.Rate}, down: &line{delay: o.Delay, rate: o.Rate},
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.connect(client)
		}
	}()
	return p, nil
}

// Close stops accepting and closes all connections.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for client := range p.conns {
		_ = client.Close()
	}
}

// connect gives a client its own connection to the target, and copies bytes both ways until both have ended, or one has failed.
func (p *Proxy) connect(client net.Conn) {
	defer client.Close()
	target, err := net.DialTimeout("tcp", p.target, 10*time.Second)
	if err != nil {
		return // as a host with a closed port does
	}
	defer target.Close()
	p.mu.Lock()
	p.conns[client] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, client)
	}()
	pass := func(l *line, from, to net.Conn) {
		if l.pass(from, to) != nil {
			_, _ = client.Close(), target.Close()
		} else if half, ok := to.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	}
	var both sync.WaitGroup
	both.Go(func() { pass(p.up, client, target) })
	both.Go(func() { pass(p.down, target, client) })
	both.Wait()
}
