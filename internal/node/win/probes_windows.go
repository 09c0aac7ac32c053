package win

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/cri"
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
func probeRuntime(ctx context.Context, pipe string) error {
	runtime, end := dialRuntime(pipe)
	defer end()
	return runtime.Version(ctx)
}

// dialRuntime returns a client of the container runtime on a pipe, for a few calls. end closes its connections.
func dialRuntime(pipe string) (runtime cri.Client, end func()) {
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols: protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := dialPipe(ctx, pipe)
			if err != nil {
				return nil, err
			}
			return readAhead(conn), nil
		},
	}
	return cri.Client{Transport: transport}, transport.CloseIdleConnections
}

// dialPipe connects to a pipe. The pipe's server cannot impersonate this process, which it could by default, and this process runs as SYSTEM
// (Microsoft's documentation of CreateFile, SECURITY_SQOS_PRESENT).
func dialPipe(ctx context.Context, name string) (net.Conn, error) {
	const anonymous = windows.SECURITY_SQOS_PRESENT | windows.SECURITY_ANONYMOUS
	for {
		f, err := os.OpenFile(name, os.O_RDWR|windows.FILE_FLAG_OVERLAPPED|anonymous, 0o600)
		if err == nil {
			return pipe{f}, nil
		}
		if !errors.Is(err, windows.ERROR_PIPE_BUSY) {
			return nil, err
		}
		if pauseErr := backoff.Sleep(ctx, tick); pauseErr != nil {
			return nil, fmt.Errorf("%w: %w", pauseErr, err)
		}
	}
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

// pipe is a connection by a named pipe.
type pipe struct{ *os.File }

// LocalAddr implements net.Conn.
func (p pipe) LocalAddr() net.Addr { return pipeAddr(p.Name()) }

// RemoteAddr implements net.Conn.
func (p pipe) RemoteAddr() net.Addr { return pipeAddr(p.Name()) }

// pipeAddr is the name of a pipe.
type pipeAddr string

// Network implements net.Addr.
func (pipeAddr) Network() string { return "pipe" }

// String implements net.Addr.
func (a pipeAddr) String() string { return string(a) }
