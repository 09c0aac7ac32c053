// Package proxy is a TCP proxy that simulates a slow, distant or broken connection: it delays data, limits their rate, and cuts
// connections at a chosen byte or at any time. The kernel's network emulation is not available everywhere.
package proxy

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// Direction is a direction of data.
type Direction int

// The directions, from the client's point of view.
const (
	Up   Direction = iota // from client to target
	Down                  // from target to client
)

// Options describe the line.
type Options struct {
	// Target is the address to connect to, host and port.
	Target string
	// Listen is the address to listen on; a free port of 127.0.0.1 when empty.
	Listen string
	// Delay is the delay in each direction: half of the round trip.
	Delay time.Duration
	// Rate is the number of bytes per second in each direction, 0 for no limit. All connections share it.
	Rate int64
}

// A Proxy accepts connections until it is closed.
type Proxy struct {
	options  Options
	listener net.Listener
	lines    [2]*line

	mu    sync.Mutex // guards the rest
	conns map[*connection]struct{}
	next  [2]int64 // the byte at which the next connection is cut; 0 for none
}

// Listen starts a proxy.
func Listen(o Options) (*Proxy, error) {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	p := &Proxy{options: o, listener: l, conns: map[*connection]struct{}{}}
	for d := range p.lines {
		p.lines[d] = &line{delay: o.Delay, rate: o.Rate}
	}
	go p.serve()
	return p, nil
}

// Addr is the address to connect to instead of the target's.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close stops accepting and cuts all connections.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.Cut()
}

// Cut resets all connections at once. Data in flight are lost; new connections work.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.cut()
	}
}

// CutNext resets the next connection after exactly n bytes, 1 or more, were delivered in a direction.
func (p *Proxy) CutNext(d Direction, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next[d] = n
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.connect(client)
	}
}

func (p *Proxy) connect(client net.Conn) {
	target, err := net.DialTimeout("tcp", p.options.Target, 10*time.Second)
	if err != nil {
		_ = client.Close() // as a host with a closed port does
		return
	}
	c := &connection{client: client, target: target}
	p.mu.Lock()
	p.conns[c] = struct{}{}
	limits := p.next
	p.next = [2]int64{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
	}()
	c.run(p.lines, limits)
}

// A connection is one client with its own connection to the target.
type connection struct {
	client, target net.Conn
}

// run copies bytes both ways until both have ended, or one was cut.
func (c *connection) run(lines [2]*line, limits [2]int64) {
	var both sync.WaitGroup
	pass := func(from, to net.Conn, d Direction) {
		if lines[d].pass(from, to, limits[d]) != nil {
			c.cut()
			return
		}
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}
	both.Go(func() { pass(c.client, c.target, Up) })
	both.Go(func() { pass(c.target, c.client, Down) })
	both.Wait()
	_ = c.client.Close()
	_ = c.target.Close()
}

// cut closes both ends so that the peers see a reset.
func (c *connection) cut() {
	for _, conn := range []net.Conn{c.client, c.target} {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}
