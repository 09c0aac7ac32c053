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
