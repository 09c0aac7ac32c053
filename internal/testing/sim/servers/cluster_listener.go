package servers

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// Dial connects to the API server. It is the only way to reach that of NewIsolatedCluster. Use it as WindowsOptions.Dial of
// hosts.
func (c *Cluster) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if c.listener == nil {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return c.listener.dial(ctx)
}

// pipeListener is a net.Listener that is reached only by dial.
type pipeListener struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{connections: make(chan net.Conn), closed: make(chan struct{})}
}

func (c *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case c.connections <- theirs:
		return ours, nil
	case <-c.closed:
		return nil, fmt.Errorf("connecting to the simulated API server: %w", net.ErrClosed)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (c *pipeListener) Accept() (net.Conn, error) {
	select {
	case connection := <-c.connections:
		return connection, nil
	case <-c.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (c *pipeListener) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// Addr implements net.Listener. It is an address for which the API server has a certificate.
func (c *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443} }
