package win

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/win/pipe"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

const (
	testPipe        = `\\.\pipe\wicd-test`
	testPipeAddress = "npipe://./pipe/wicd-test"
)

func TestProbesKeepTheContract(t *testing.T) {
	host := mustHost(t)
	contract.Probes(t, func(t *testing.T) []contract.ProbesFixture {
		web, runtime := &flag{}, &flag{}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if !web.isSet() {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}))
		t.Cleanup(server.Close)
		serveRuntime(t, func() (string, string) {
			if runtime.isSet() {
				return "0", ""
			}
			return "14", "server is not initialized yet" // as containerd answers during its start
		})
		return []contract.ProbesFixture{
			{Probes: host.Probes, Address: server.URL + "/healthz", Absent: "http://127.0.0.1:1/healthz", Set: web.set},
			{Probes: host.Probes, Address: testPipeAddress, Absent: "npipe://./pipe/wicd-absent", Set: runtime.set},
		}
	})
}

// flag is whether a service of the tests is healthy.
type flag struct {
	mu   sync.Mutex
	well bool
}

func (f *flag) set(well bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.well = well
}

func (f *flag) isSet() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.well
}

// serveRuntime answers calls of a container runtime with a gRPC status and its message.
func serveRuntime(t *testing.T, answer func() (status, message string)) {
	t.Helper()
	servePipe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.URL.Path != "/runtime.v1.RuntimeService/Version" || r.Header.Get("Content-Type") != "application/grpc" || len(body) != 5 || err != nil {
			t.Errorf("the call is %s %s with %d bytes, %v", r.Method, r.URL, len(body), err)
		}
		status, message := answer()
		w.Header().Set("Content-Type", "application/grpc")
		if status != "0" { // without a message, as grpc-go does
			w.Header().Set("Grpc-Status", status)
			w.Header().Set("Grpc-Message", message)
			return
		}
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = w.Write([]byte{0, 0, 0, 0, 2, 0x0a, 0})
		w.Header().Set("Grpc-Status", status)
	}))
}

// servePipe serves HTTP/2 on testPipe until stop is called, or the test ends. Clients that connect earlier than it accepts wait.
func servePipe(t *testing.T, handler http.Handler) (stop func()) {
	t.Helper()
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: protocols, Handler: handler}
	listener := listenPipe(t)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	stop = func() { _ = server.Close(); <-done }
	t.Cleanup(stop)
	return stop
}

// pipeListener accepts connections of testPipe, one after another. Like containerd's, the pipe has no buffers: a write waits
// until the other side reads.
type pipeListener struct {
	once  sync.Once
	ended chan struct{}
	first []windows.Handle // both ends of the first instance
	// pending is the running call of Accept; Windows writes to it later.
	pending windows.Overlapped
}

// listenPipe creates testPipe. Its first instance stays connected to this process, so that the pipe exists until the listener is closed,
// and is busy between two calls of Accept. containerd's listener does the same (ListenPipe of go-winio).
func listenPipe(t *testing.T) *pipeListener {
	t.Helper()
	server, err := createPipe()
	if err != nil {
		t.Fatal(err)
	}
	client, err := windows.CreateFile(windows.StringToUTF16Ptr(testPipe), windows.GENERIC_READ, 0, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		t.Fatal(errors.Join(err, windows.CloseHandle(server)))
	}
	l := &pipeListener{ended: make(chan struct{}), first: []windows.Handle{server, client}}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// createPipe returns a new instance of testPipe.
func createPipe() (windows.Handle, error) {
	const mode = windows.PIPE_ACCESS_DUPLEX | windows.FILE_FLAG_OVERLAPPED
	return windows.CreateNamedPipe(windows.StringToUTF16Ptr(testPipe), mode, windows.PIPE_TYPE_BYTE, windows.PIPE_UNLIMITED_INSTANCES, 0, 0, 0, nil)
}

func (l *pipeListener) Accept() (net.Conn, error) {
	for {
		c, err := l.accept()
		if !errors.Is(err, windows.ERROR_NO_DATA) { // the client has already disconnected
			return c, err
		}
	}
}

func (l *pipeListener) accept() (net.Conn, error) {
	h, err := createPipe()
	if err != nil {
		return nil, err
	}
	event, err := windows.CreateEvent(nil, 1, 0, nil)
	if err != nil {
		return nil, err
	}
	defer windows.CloseHandle(event)
	l.pending = windows.Overlapped{HEvent: event}
	err = windows.ConnectNamedPipe(h, &l.pending)
	for errors.Is(err, windows.ERROR_IO_PENDING) {
		select {
		case <-l.ended:
			_ = windows.CancelIoEx(h, &l.pending)
			_, _ = windows.WaitForSingleObject(event, windows.INFINITE)
			return nil, errors.Join(net.ErrClosed, windows.CloseHandle(h))
		default:
		}
		if signaled, _ := windows.WaitForSingleObject(event, 20); signaled == windows.WAIT_OBJECT_0 {
			err = nil
		}
	}
	if err != nil && !errors.Is(err, windows.ERROR_PIPE_CONNECTED) {
		return nil, fmt.Errorf("waiting for a client: %w", errors.Join(err, windows.CloseHandle(h)))
	}
	return pipe.Conn{File: os.NewFile(uintptr(h), testPipe)}, nil
}

func (l *pipeListener) Close() error {
	l.once.Do(func() {
		close(l.ended)
		for _, h := range l.first {
			_ = windows.CloseHandle(h)
		}
	})
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipe.Addr(testPipe) }

// TestProbeWritesBeforeServerReads uses a server that does not read before the client has read its first write, like grpc-go's.
func TestProbeWritesBeforeServerReads(t *testing.T) {
	listener := listenPipe(t)
	done := make(chan error, 1)
	go func() {
		c, err := listener.Accept()
		if err == nil {
			defer c.Close()
			_, err = c.Write([]byte("hello"))
		}
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, 5))
		}
		done <- err
	}()
	dialed, err := pipe.Dial(t.Context(), testPipe)
	if err != nil {
		t.Fatal(err)
	}
	c := readAhead(dialed)
	wrote := make(chan error, 1)
	go func() { _, err := c.Write([]byte("world")); wrote <- err }()
	select {
	case err := <-wrote:
		if err := errors.Join(err, <-done); err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("each waits until the other reads")
	}
	output := make([]byte, 5)
	if _, err := io.ReadFull(c, output); err != nil || string(output) != "hello" {
		t.Errorf("the server wrote %q, %v", output, err)
	}
	_ = c.Close()
}

func TestProbeReturnsRuntimeError(t *testing.T) {
	serveRuntime(t, func() (string, string) { return "14", "server is not initialized yet" })
	err := probes{}.Probe(t.Context(), testPipeAddress)
	for _, want := range []string{testPipeAddress, "code 14", "not initialized yet"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Probe() = %v, want %q in it", err, want)
		}
	}
}

func TestProbeTimesOut(t *testing.T) {
	release := make(chan struct{})
	serveRuntime(t, func() (string, string) { <-release; return "0", "" })
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := (probes{}).Probe(ctx, testPipeAddress); err == nil {
		t.Error("no error")
	}
}

func TestOtherAddressesAreRejected(t *testing.T) {
	for _, address := range []string{"", "tcp://127.0.0.1:1", "npipe://other/pipe/x", `C:\file`} {
		if err := (probes{}).Probe(t.Context(), address); err == nil {
			t.Errorf("%q: no error", address)
		}
	}
}
