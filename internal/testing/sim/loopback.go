package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// errPortTaken is the error of Windows for a port that another program uses (WSAEADDRINUSE).
var errPortTaken = errors.New("Only one usage of each socket address (protocol/network address/port) is normally permitted.")

// loopback contains the ports that are open on the loopback of the simulated Windows, by address.
type loopback struct {
	mu    sync.Mutex
	ports map[string]*loopbackPort
}

// listen opens a port. Connections to it are pipes.
func (l *loopback) listen(_ context.Context, network, address string) (net.Listener, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ports[address] != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: errPortTaken}
	}
	if l.ports == nil {
		l.ports = map[string]*loopbackPort{}
	}
	p := &loopbackPort{all: l, address: address, incoming: make(chan net.Conn), closed: make(chan struct{})}
	l.ports[address] = p
	return p, nil
}

// ListenLoopback opens a port of the simulated Windows, as any of its programs may.
func (w *Windows) ListenLoopback(address string) (net.Listener, error) {
	return w.loopback.listen(context.Background(), "tcp", address)
}

// DialLoopback connects to a port of the simulated Windows.
func (w *Windows) DialLoopback(ctx context.Context, address string) (net.Conn, error) {
	w.loopback.mu.Lock()
	p := w.loopback.ports[address]
	w.loopback.mu.Unlock()
	if p == nil {
		return nil, fmt.Errorf("connecting to %s: no program listens", address)
	}
	near, far := net.Pipe()
	select {
	case p.incoming <- far:
		return near, nil
	case <-p.closed:
	case <-ctx.Done():
	}
	_, _ = near.Close(), far.Close()
	return nil, fmt.Errorf("connecting to %s: refused", address)
}

// loopbackPort is one port. It implements net.Listener.
type loopbackPort struct {
	all      *loopback
	address  string
	incoming chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

// Accept implements net.Listener.
func (p *loopbackPort) Accept() (net.Conn, error) {
	select {
	case c := <-p.incoming:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *loopbackPort) Close() error {
	p.once.Do(func() {
		close(p.closed)
		p.all.mu.Lock()
		defer p.all.mu.Unlock()
		delete(p.all.ports, p.address)
	})
	return nil
}

// Addr implements net.Listener.
func (p *loopbackPort) Addr() net.Addr { return loopbackAddress(p.address) }

type loopbackAddress string

// Network implements net.Addr.
func (loopbackAddress) Network() string { return "tcp" }

// String implements net.Addr.
func (a loopbackAddress) String() string { return string(a) }
