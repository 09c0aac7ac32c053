package win

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/windows-machine-config/wmco/internal/node/cri"
	"github.com/windows-machine-config/wmco/internal/node/win/pipe"
)

// probes sends probes to services of this host.
type probes struct{}

// Probe implements hostapi.Probes.
func (probes) Probe(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return fmt.Errorf("probing %q: %w", address, err)
	case u.Scheme == "http":
		err = probeHTTP(ctx, address)
	case u.Scheme == "npipe" && u.Host == ".":
		err = probeRuntime(ctx, `\\.`+strings.ReplaceAll(u.Path, "/", `\`))
	default:
		err = errors.New("only http:// and npipe://. are supported")
	}
	if err != nil {
		return fmt.Errorf("probing %s: %w", address, err)
	}
	return nil
}

func probeHTTP(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the response is %s", response.Status)
	}
	return nil
}

// probeRuntime calls Version. Connecting is not enough: containerd listens, and reports to the SCM that it runs, before it can respond
// (checkInitialized in internal/cri/instrument of containerd 2.3).
func probeRuntime(ctx context.Context, name string) error {
	runtime, end := dialRuntime(name)
	defer end()
	return runtime.Version(ctx)
}

// dialRuntime returns a client of the container runtime on a pipe, for a few calls. end closes its connections.
func dialRuntime(name string) (runtime cri.Client, end func()) {
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols: protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := pipe.Dial(ctx, name)
			if err != nil {
				return nil, err
			}
			return readAhead(conn), nil
		},
	}
	return cri.Client{Transport: transport}, transport.CloseIdleConnections
}

// readAheadConn is a connection from which data is read immediately.
type readAheadConn struct {
	net.Conn
	read *io.PipeReader
}

// readAhead starts to read before anything is written. containerd's pipe has no buffers: a write waits until the other side
// reads, and both gRPC's server and Go's HTTP/2 client write before they read.
func readAhead(c net.Conn) net.Conn {
	read, write := io.Pipe()
	go func() {
		_, err := io.Copy(write, c)
		write.CloseWithError(err)
	}()
	return readAheadConn{c, read}
}

// Read implements net.Conn.
func (e readAheadConn) Read(b []byte) (int, error) { return e.read.Read(b) }

// Close implements net.Conn.
func (e readAheadConn) Close() error {
	_ = e.read.Close() // ends the copying goroutine
	return e.Conn.Close()
}
