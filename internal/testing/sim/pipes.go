package sim

import (
	"context"
	"net"
)

// pipes are the named pipes of the simulated Windows, which share the loopback with its ports.
type pipes struct{ boot *boot }

// Listen implements hostapi.Pipes.
func (p pipes) Listen(name string) (net.Listener, error) {
	if p.boot.isOff() {
		return nil, ErrPower
	}
	return p.boot.w.loopback.listen(context.Background(), "pipe", name)
}

// DialPipe connects to a named pipe of the simulated Windows, as any of its programs may. It does not wait for the pipe.
func (w *Windows) DialPipe(ctx context.Context, name string) (net.Conn, error) {
	return w.DialLoopback(ctx, name)
}
