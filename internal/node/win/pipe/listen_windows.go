package pipe

import (
	"fmt"
	"net"

	"github.com/Microsoft/go-winio"
)

// rights gives SYSTEM and Administrators full access, and no one else any, also not to create more instances. Administrators are the owner.
// go-winio rejects clients of other machines.
const rights = "O:BAG:BAD:P(A;;GA;;;SY)(A;;GA;;;BA)"

// bufferSize is a hint in bytes. A message of package policypipe fits.
const bufferSize = 4096

// Listen implements hostapi.Pipes.
func Listen(name string) (net.Listener, error) {
	l, err := winio.ListenPipe(name, &winio.PipeConfig{SecurityDescriptor: rights, InputBufferSize: bufferSize, OutputBufferSize: bufferSize})
	if err != nil {
		return nil, fmt.Errorf("creating pipe %s: %w", name, err)
	}
	return l, nil
}
