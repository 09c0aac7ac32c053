package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc/test/bufconn"
)

// errPortTaken is the error of Windows for a port that another program uses (WSAEADDRINUSE).
var errPortTaken = errors.New("Only one usage of each socket address (protocol/network address/port) is normally permitted.")

// loopback contains the ports that are open on the loopback of the simulated Windows, by address.
type loopback struct {
	mu    sync.Mutex
	ports map[string]*loopbackPort
}

// loopbackPort is one port. Connections to it are in memory.
type loopbackPort struct {
	*bufconn.Listener
	all     *loopback
	address string
}

func (l *loopback) listen(_ context.Context, network, address string) (net.Listener, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ports[address] != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: errPortTaken}
	}
	if l.ports == nil {
		l.ports = map[string]*loopbackPort{}
	}
	p := &loopbackPort{Listener: bufconn.Listen(64 << 10), all: l, address: address}
	l.ports[address] = p
	return p, nil
}

// Close implements net.Listener.
func (p *loopbackPort) Close() error {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	if p.all.ports[p.address] == p { // otherwise it was closed before
		delete(p.all.ports, p.address)
	}
	return p.Listener.Close()
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
	return p.DialContext(ctx)
}
