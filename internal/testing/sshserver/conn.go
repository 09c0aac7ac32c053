package sshserver

import (
	"bufio"
	"io"
	"net"
)

// conn counts the bytes of a connection and cuts it according to its fault. SSH reads and writes a connection with one goroutine
// at a time in each direction, so that the fields need no lock.
type conn struct {
	net.Conn
	reader          io.Reader
	server          *Server
	leftIn, leftOut int64 // bytes until the cut; negative: never cut
}

func newConn(c net.Conn, s *Server, f Fault) *conn {
	limit := func(n int64) int64 {
		if n == 0 {
			return -1
		}
		return n
	}
	admitted := &conn{Conn: c, reader: c, server: s, leftIn: limit(f.CutAfterIn), leftOut: limit(f.CutAfterOut)}
	if size := s.options.ReadBuffer; size > 0 {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(size)
			_ = tcp.SetWriteBuffer(size)
		}
		admitted.reader = bufio.NewReaderSize(c, size)
	}
	return admitted
}

func (c *conn) Read(p []byte) (int, error) {
	if c.leftIn == 0 {
		c.Close()
		return 0, io.EOF
	}
	if c.leftIn > 0 {
		p = p[:min(int64(len(p)), c.leftIn)]
	}
	n, err := c.reader.Read(p)
	c.server.in.Add(int64(n))
	if c.leftIn > 0 {
		c.leftIn -= int64(n)
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	allowed := p
	if c.leftOut >= 0 {
		allowed = p[:min(int64(len(p)), c.leftOut)]
	}
	n, err := c.Conn.Write(allowed)
	c.server.out.Add(int64(n))
	if c.leftOut < 0 {
		return n, err
	}
	if c.leftOut -= int64(n); c.leftOut == 0 {
		c.Close()
	}
	if err == nil && n < len(p) {
		err = io.ErrClosedPipe
	}
	return n, err
}
