package proxy

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

func TestForwardDelaysAndLimitsRate(t *testing.T) {
	for _, c := range []struct {
		name  string
		delay time.Duration
		rate  int64
		bytes int
		want  time.Duration
	}{
		{"no limits", 0, 0, 1 << 20, 0},
		{"delay only", 5 * time.Millisecond, 0, 1 << 20, 5 * time.Millisecond},
		{"rate only", 0, 1 << 20, 3 << 20, 3 * time.Second},
		{"100 Mbit/s with 10 ms round trip", 5 * time.Millisecond, 12_500_000, 12_500_000, 1005 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := bytes.Repeat([]byte("wmco"), c.bytes/4)
				var got bytes.Buffer
				start := time.Now()
				l := link{delay: c.delay, rate: c.rate}
				if err := l.forward(bytes.NewReader(sent), &got); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took < c.want || took > c.want+time.Millisecond {
					t.Errorf("%d bytes took %v, want %v", c.bytes, took, c.want)
				}
				if !bytes.Equal(got.Bytes(), sent) {
					t.Errorf("received %d bytes that differ from the %d bytes sent", got.Len(), len(sent))
				}
			})
		})
	}
}

// TestLinkIsAccurateInRealTime uses a link like that of the transfer benchmarks.
func TestLinkIsAccurateInRealTime(t *testing.T) {
	const rate, size = 12_500_000, 6_250_000
	c := mustDial(t, mustListen(t, Options{Listen: "127.0.0.1:0", Target: echo(t), Delay: 5 * time.Millisecond, Rate: rate}))
	start := time.Now()
	go func() {
		_, _ = c.Write(make([]byte, size))
		_ = c.CloseWrite()
	}()
	n, err := io.Copy(io.Discard, c)
	if err != nil || n != size {
		t.Fatalf("read %d bytes (error %v), want %d", n, err, size)
	}
	// Both directions transfer data at the same time. On a busy machine, the transfer can take longer, but never less time.
	if took, want := time.Since(start), 510*time.Millisecond; took < want || took > 10*want {
		t.Errorf("%d bytes took %v, want about %v", size, took, want)
	} else {
		t.Logf("%d bytes took %v; the link alone takes %v", size, took, want)
	}
}

func TestConnectionsShareRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := link{rate: 1 << 20}
		start := time.Now()
		done := make(chan error)
		for range 2 {
			go func() { done <- l.forward(bytes.NewReader(make([]byte, 1<<20)), io.Discard) }()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took < 2*time.Second || took > 2*time.Second+time.Millisecond {
			t.Errorf("two transfers of 1 MiB at 1 MiB/s took %v, want 2s", took)
		}
	})
}

func TestRateLimitDoesNotDelaySmallMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := link{rate: 12_500_000, delay: 5 * time.Millisecond}
		near, far := net.Pipe()
		in, out := net.Pipe()
		go l.forward(far, in)
		for range 10 {
			start := time.Now()
			go near.Write([]byte("ping"))
			if _, err := io.ReadFull(out, make([]byte, 4)); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took > 6*time.Millisecond {
				t.Errorf("four bytes took %v, want 5ms", took)
			}
		}
		near.Close()
		out.Close()
	})
}

// echo starts an echo server, and returns its address.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

func mustDial(t *testing.T, p *Proxy) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", p.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

func mustListen(t *testing.T, o Options) *Proxy {
	t.Helper()
	p, err := Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestHalfClosedConnectionDeliversTheRest(t *testing.T) {
	c := mustDial(t, mustListen(t, Options{Listen: "127.0.0.1:0", Target: echo(t), Delay: time.Millisecond}))
	sent := bytes.Repeat([]byte("abc"), 1<<18)
	go func() {
		_, _ = c.Write(sent)
		_ = c.CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("read %d bytes, error %v; want the %d bytes sent", len(got), err, len(sent))
	}
}
