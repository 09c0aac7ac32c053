package remote

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// link is a network between two connections, with a delay and a rate in each direction.
type link struct {
	delay  time.Duration // one way
	rate   int           // bytes per second in each direction; 0 means no limit
	silent atomic.Bool   // nothing arrives any more, without an error
}

type packet struct {
	data []byte
	due  time.Time
}

// join copies bytes both ways until one side closes, and then closes both.
func (l *link) join(a, b net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { l.carry(a, b) })
	both.Go(func() { l.carry(b, a) })
	both.Wait()
}

func (l *link) carry(from, to net.Conn) {
	way := make(chan packet, 1<<12) // more than the SSH windows of the tests allow, so that the sender is never blocked here
	go func() {
		defer from.Close()
		defer close(way)
		free := time.Now() // when the line is free again
		for {
			p := packet{data: make([]byte, 16<<10)}
			n, err := from.Read(p.data)
			if err != nil {
				return
			}
			if now := time.Now(); free.Before(now) {
				free = now
			}
			if l.rate > 0 {
				free = free.Add(time.Duration(n) * time.Second / time.Duration(l.rate))
			}
			p.data, p.due = p.data[:n], free.Add(l.delay)
			way <- p
		}
	}()
	defer to.Close()
	broken := false
	for p := range way {
		if wait := time.Until(p.due); wait > 0 {
			<-time.After(wait)
		}
		if !broken && !l.silent.Load() {
			_, err := to.Write(p.data)
			broken = err != nil
		}
	}
}

// through serves a proxy to the host on a loopback socket, and makes it the target.
func (h *testHost) through(t testing.TB, l *link) {
	t.Helper()
	front, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := hostPort(h.target)
	var open sync.WaitGroup
	open.Go(func() {
		for {
			a, err := front.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp4", host)
			if err != nil {
				a.Close()
				return
			}
			open.Go(func() { l.join(a, b) })
		}
	})
	t.Cleanup(func() {
		front.Close()
		h.Cut()
		open.Wait()
	})
	h.target.Port = front.Addr().(*net.TCPAddr).Port
}

// memory is a network without sockets, for tests in simulated time.
type memory struct {
	calls chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newMemory() *memory { return &memory{calls: make(chan net.Conn), done: make(chan struct{})} }

// Accept waits for the next connection.
func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.calls:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (m *memory) Close() error {
	m.once.Do(func() { close(m.done) })
	return nil
}

// Addr returns an address to which no one else can connect.
func (m *memory) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// dial logs in to the host behind m, over l, until the test ends.
func (m *memory) dial(t testing.TB, l *link, h *testHost, o Options) *Host {
	t.Helper()
	near, a := net.Pipe()
	b, far := net.Pipe()
	var carried sync.WaitGroup
	carried.Go(func() { l.join(a, b) })
	m.calls <- far
	c, err := login(context.Background(), near, h.target, o.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		carried.Wait() // simulated time stops when the test ends, also for data in transit
	})
	return c
}
