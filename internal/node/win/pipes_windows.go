package win

import (
	"net"

	"github.com/windows-machine-config/wmco/internal/node/win/pipe"
)

// pipes are the named pipes of this process.
type pipes struct{}

// Listen implements hostapi.Pipes.
func (pipes) Listen(name string) (net.Listener, error) { return pipe.Listen(name) }
