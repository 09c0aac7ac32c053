package registry

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// countingListener counts what its connections write.
type countingListener struct {
	net.Listener
	writes *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countingConn{c, l.writes}, err
}

type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// TestLayersAreSentInLargePieces, each of which has many TLS records; more than maxGathering layers at once work as well.
func TestLayersAreSentInLargePieces(t *testing.T) {
	const pieces = 40
	blob := strings.Repeat("content ", pieces*bufferSize/8) + "end"
	w := newWorld(t, entries(mirrors.NeverContactSource, "", "first.test"), "", map[string]http.Handler{"first.test": newFakeRegistry("app", blob)})
	path := "app/blobs/" + digestOf("", []byte(blob))
	w.expect(http.MethodGet, path, http.StatusOK, blob)
	if n, most := w.writes.Load(), int64(pieces/gatheredPieces+8); n > most { // 8 for the handshake, headers and the end
		t.Errorf("%d pieces are sent by %d calls, want at most %d", pieces, n, most)
	}
	w.server.limits = defaultLimits() // so many at once take some time on a busy machine
	again := w.config
	again.Certificates += "\n"
	if err := w.server.Use(again); err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	for range maxGathering + 4 {
		work.Go(func() { w.expect(http.MethodGet, path, http.StatusOK, blob) })
	}
	work.Wait()
	for range maxGathering { // the client may finish reading a layer before the server's handler returns
		select {
		case w.server.gathering <- struct{}{}:
		case <-time.After(10 * time.Second):
			t.Fatal("a layer still occupies its slot")
		}
	}
}

// TestSlowLayerIsStreamed, and so is the beginning of one that is interrupted.
func TestSlowLayerIsStreamed(t *testing.T) {
	blob := strings.Repeat("content ", 4*bufferSize/8)
	var w *world
	slow := func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" { // for the rest
			rw.WriteHeader(http.StatusNotFound)
			return
		}
		rw.Header().Set("Content-Length", strconv.Itoa(len(blob)))
		for n := range 3 {
			before, end := w.writes.Load(), time.Now().Add(10*w.server.limits.gather)
			_, _ = io.WriteString(rw, blob[n*bufferSize:(n+1)*bufferSize])
			_ = http.NewResponseController(rw).Flush()
			time.Sleep(2 * w.server.limits.gather)
			for n == 1 && w.writes.Load() == before {
				if time.Now().After(end) {
					t.Error("data is not forwarded immediately")
					break
				}
				time.Sleep(time.Millisecond)
			}
		}
		panic(http.ErrAbortHandler)
	}
	w = newWorld(t, entries(mirrors.NeverContactSource, "", "first.test"), "", map[string]http.Handler{"first.test": http.HandlerFunc(slow)})
	r := w.request(http.MethodGet, "app/blobs/"+digestOf("", []byte(blob)))
	if r.err == nil || len(r.body) != 3*bufferSize || !strings.HasPrefix(blob, r.body) {
		t.Errorf("received %d bytes of %d (%v)", len(r.body), len(blob), r.err)
	}
}

// TestStalledClientDoesNotDelayShutdown of the server, for example when the service stops.
func TestStalledClientDoesNotDelayShutdown(t *testing.T) {
	blob := strings.Repeat("content ", 3<<20) // more than the buffers of a connection
	w := newWorld(t, entries(mirrors.NeverContactSource, "", "first.test"), "", map[string]http.Handler{"first.test": newFakeRegistry("app", blob)})
	client, err := tls.Dial("tcp", w.address, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{certificateOf(t, w.config.Endpoint.Client)}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := io.WriteString(client, "GET /v2/app/blobs/"+digestOf("", []byte(blob))+"?ns=src.test HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	for before := int64(-1); before != w.writes.Load() || before < 5; time.Sleep(100 * time.Millisecond) {
		before = w.writes.Load()
	}
	began := time.Now()
	if err := w.server.Use(Config{}); err != nil {
		t.Fatal(err)
	}
	for time.Since(began) < 4*time.Second { // TLS waits up to 5 s to send its close notification
		c, err := net.Dial("tcp", w.address)
		if err != nil && len(w.server.gathering) == 0 {
			return
		}
		if err == nil {
			_ = c.Close()
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("a client that does not read keeps the server running")
}

// endlessConn always has more to read.
type endlessConn struct {
	net.Conn
	reads int
}

func (c *endlessConn) Read(p []byte) (int, error) {
	c.reads++
	return len(p), nil
}

func TestRegistriesAreReadInLargePieces(t *testing.T) {
	endless := &endlessConn{}
	dial := dialWide(func(context.Context, string, string) (net.Conn, error) { return endless, nil })
	connection, err := dial(t.Context(), "tcp", "first.test:443")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.ReadFull(bufio.NewReaderSize(connection, 16<<10), make([]byte, 8*bufferSize-1)); err != nil || endless.reads > 8 {
		t.Errorf("%d bytes (%v) took %d reads", n, err, endless.reads)
	}
}
