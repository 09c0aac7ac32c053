package registry

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/mirrors"
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

// TestLayersAreSentInLargePieces, of which each holds many records of TLS; more layers at once than gather work as well.
func TestLayersAreSentInLargePieces(t *testing.T) {
	const pieces = 40
	blob := strings.Repeat("content ", pieces*bufferSize/8) + "end"
	w := newWorld(t, entries(mirrors.NeverContactSource, "", "first.test"), "", map[string]http.Handler{"first.test": newShelf("app", blob)})
	path := "app/blobs/" + digestOf("", []byte(blob))
	w.expect(http.MethodGet, path, http.StatusOK, blob)
	if n, most := w.writes.Load(), int64(pieces/gatheredPieces+8); n > most { // 8 for the handshake, headers and the end
		t.Errorf("%d pieces are sent by %d calls, want at most %d", pieces, n, most)
	}
	var work sync.WaitGroup
	for range 2 * gatheredMost {
		work.Go(func() { w.expect(http.MethodGet, path, http.StatusOK, blob) })
	}
	work.Wait()
	if n := len(w.server.gathering); n != 0 {
		t.Errorf("%d layers still have their place among those that gather", n)
	}
}

// TestASlowLayerIsHandedOnWhileItComes, and what came of one that breaks off.
func TestASlowLayerIsHandedOnWhileItComes(t *testing.T) {
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
					t.Error("what came is not handed on until there is more")
					break
				}
				time.Sleep(time.Millisecond)
			}
		}
		panic(http.ErrAbortHandler)
	}
	w = newWorld(t, entries(mirrors.NeverContactSource, "", "first.test"), "", map[string]http.Handler{"first.test": http.HandlerFunc(slow)})
	r := w.ask(http.MethodGet, "app/blobs/"+digestOf("", []byte(blob)))
	if r.err == nil || len(r.body) != 3*bufferSize || !strings.HasPrefix(blob, r.body) {
		t.Errorf("%d bytes of %d came (%v)", len(r.body), len(blob), r.err)
	}
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
	c := newClient(Config{}, func(context.Context, string, string) (net.Conn, error) { return endless, nil })
	connection, err := c.dialWide(t.Context(), "tcp", "first.test:443")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.ReadFull(bufio.NewReaderSize(connection, recordSize), make([]byte, 8*bufferSize-1)); err != nil || endless.reads > 8 {
		t.Errorf("%d bytes (%v) took %d reads", n, err, endless.reads)
	}
}
