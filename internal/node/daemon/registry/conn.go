package registry

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/registryclient"
)

// TLS reads and writes record by record (16 KB), and each such system call costs about as much as the encryption of a record, on Wine several
// times that. So connections are read and written in larger pieces.
const (
	bufferSize = 64 << 10
	// gatheredPieces are the pieces of a layer that are sent at once, maxGathering how many layers may do so at the same time:
	// the others send each piece separately, which needs less memory.
	gatheredPieces = 4
	maxGathering   = 8
	// recordsOverhead is at least what TLS adds to a piece: 22 bytes for each of its records, and its headers.
	recordsOverhead = 1 << 10
)

// wideReader is a connection that is read in large pieces.
type wideReader struct {
	net.Conn
	in *bufio.Reader
}

// Read implements io.Reader.
func (c *wideReader) Read(p []byte) (int, error) { return c.in.Read(p) }

// dialWide returns a Dial whose connections are read in large pieces.
func dialWide(dial registryclient.Dial) registryclient.Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &wideReader{connection, bufio.NewReaderSize(connection, bufferSize)}, nil
	}
}

// gatherer is a connection that can buffer what TLS writes to it and send it at once.
type gatherer struct {
	net.Conn

	mu                     sync.Mutex
	isGathering, isSending bool
	gathered               []byte
}

// errSending rejects TLS's own messages while data is being sent: when a connection is closed, TLS would otherwise wait until they are sent, and a
// client that does not read would never let that happen.
var errSending = errors.New("other data is being sent")

// Write implements io.Writer.
func (c *gatherer) Write(p []byte) (int, error) {
	switch done, err := c.buffer(p); {
	case err != nil:
		return 0, err
	case done:
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// buffer buffers p if the connection is gathering.
func (c *gatherer) buffer(p []byte) (done bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.isSending:
		return false, errSending
	case c.isGathering:
		c.gathered = append(c.gathered, p...)
		return true, nil
	}
	return false, nil
}

// gather buffers all writes until send; capacity is their expected size in bytes.
func (c *gatherer) gather(capacity int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isGathering = true
	if cap(c.gathered) < capacity {
		c.gathered = append(make([]byte, 0, capacity), c.gathered...)
	}
}

// send sends what was buffered.
func (c *gatherer) send() error {
	gathered := c.begin()
	if len(gathered) == 0 {
		return nil
	}
	_, err := c.Conn.Write(gathered)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isSending, c.gathered = false, gathered[:0]
	return err
}

// begin takes the buffer in order to send it.
func (c *gatherer) begin() (gathered []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gathered, c.gathered = c.gathered, nil
	c.isGathering, c.isSending = false, len(gathered) > 0
	return gathered
}

// free releases the buffer.
func (c *gatherer) free() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gathered = nil
}

// gatheringListener accepts connections that can gather.
type gatheringListener struct{ net.Listener }

// Accept implements net.Listener.
func (l gatheringListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &gatherer{Conn: c}, nil
}

type connectionKey struct{}

// withConnection stores the connection in the context of its requests.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	if tlsConn, ok := c.(*tls.Conn); ok {
		c = tlsConn.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// layerWriter sends the pieces of a layer.
type layerWriter struct {
	w  http.ResponseWriter
	to *gatherer
	// most is how many pieces are sent at once, pieces how many are buffered; since is the time of the first.
	most, pieces int
	since        time.Time
	timeout      time.Duration
	// release frees the slot among the gathering layers.
	release func()
}

func (s *requestHandler) newLayerWriter(ctx context.Context, w http.ResponseWriter) *layerWriter {
	o := &layerWriter{w: w, most: 1, timeout: s.limits.gather, release: func() {}}
	o.to, _ = ctx.Value(connectionKey{}).(*gatherer)
	select {
	case s.gathering <- struct{}{}:
		o.most, o.release = gatheredPieces, func() { <-s.gathering }
	default:
	}
	return o
}

// write sends a piece, or buffers it until there are more; the last one is sent at once.
func (o *layerWriter) write(piece []byte, isLast bool) error {
	if err := http.NewResponseController(o.w).SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if o.to == nil {
		_, err := o.w.Write(piece)
		return err
	}
	if o.pieces == 0 {
		o.since = time.Now()
	}
	o.to.gather(o.most * (bufferSize + recordsOverhead))
	if _, err := o.w.Write(piece); err != nil {
		return err
	}
	o.pieces++
	if !isLast && o.pieces < o.most && time.Since(o.since) < o.timeout {
		return nil
	}
	o.pieces = 0
	return o.to.send()
}

// close sends the rest: containerd keeps what it received of an interrupted layer.
func (o *layerWriter) close() {
	if o.to != nil {
		_ = o.to.send()
		o.to.free()
	}
	o.release()
}
