// Package proxy is a TCP proxy that simulates a slow, distant connection: it delays data and limits their rate. It replaces the
// kernel's network emulation, which is not available everywhere.
package proxy

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// Options are the options of a Proxy.
type Options struct {
	// Target is the address to connect to, Listen the address to listen on, both with a port.
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
	up, down *link

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
		up: &link{delay: o.Delay, rate: o.Rate}, down: &link{delay: o.Delay, rate: o.Rate},
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

// connect connects a client to the target, and forwards bytes in both directions until both have ended or one has failed.
func (p *Proxy) connect(client net.Conn) {
	defer client.Close()
	target, err := net.DialTimeout("tcp", p.target, 10*time.Second)
	if err != nil {
		return // closes the client's connection
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
	forward := func(l *link, from, to net.Conn) {
		if l.forward(from, to) != nil {
			_, _ = client.Close(), target.Close()
		} else if half, ok := to.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	}
	var both sync.WaitGroup
	both.Go(func() { forward(p.up, client, target) })
	both.Go(func() { forward(p.down, target, client) })
	both.Wait()
}
