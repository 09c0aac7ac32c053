package remote

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The link that the documented numbers apply to: 100 Mbit/s, 10 ms round trip.
const (
	linkRate  = 100e6 / 8
	linkDelay = 5 * time.Millisecond
)

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// transfers are the two ways to send large data to a host.
func transfers() map[string]func(context.Context, *Host, int64) error {
	return map[string]func(context.Context, *Host, int64) error{
		"Run": func(ctx context.Context, h *Host, size int64) error {
			return h.Run(ctx, "count", io.LimitReader(zeros{}, size), nil)
		},
		"Put": func(ctx context.Context, h *Host, size int64) error {
			return h.Put(ctx, "big", io.LimitReader(zeros{}, size), size)
		},
	}
}

func TestTransfersFillALinkOf100MbitWith10msRoundTrip(t *testing.T) {
	const size = 32 << 20
	for name, transfer := range transfers() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := newMemory()
				host := newHost(t, network)
				h := network.dial(t, &link{rate: linkRate, delay: linkDelay}, host, Options{})
				start := time.Now()
				if err := transfer(t.Context(), h, size); err != nil {
					t.Fatal(err)
				}
				share := size / time.Since(start).Seconds() / linkRate
				t.Logf("%s reached %.3f of the link", name, share)
				if share < 0.9 {
					t.Errorf("%s reached %.3f of the link, want at least 0.9", name, share)
				}
			})
		})
	}
}

func BenchmarkTransferOverALinkOf100MbitWith10msRoundTrip(b *testing.B) {
	benchmarkTransfers(b, &link{rate: linkRate, delay: linkDelay})
}

func BenchmarkTransferOverLoopback(b *testing.B) { benchmarkTransfers(b, nil) }

func benchmarkTransfers(b *testing.B, l *link) {
	const size = 64 << 20
	for name, transfer := range transfers() {
		b.Run(name, func(b *testing.B) {
			host := startHost(b)
			if l != nil {
				host.through(b, l)
			}
			h := host.dial(b, Options{})
			b.SetBytes(size)
			for b.Loop() {
				if err := h.Put(b.Context(), "big", strings.NewReader(""), 0); err != nil { // so that the next Put copies
					b.Fatal(err)
				}
				if err := transfer(b.Context(), h, size); err != nil {
					b.Fatal(err)
				}
			}
			if l != nil {
				b.ReportMetric(size*float64(b.N)/b.Elapsed().Seconds()/linkRate, "link_share")
			}
		})
	}
}

func BenchmarkDial(b *testing.B) {
	host := startHost(b)
	for b.Loop() {
		h, err := Dial(b.Context(), host.target, Options{})
		if err != nil {
			b.Fatal(err)
		}
		h.Close()
	}
}

func BenchmarkRun(b *testing.B) {
	h := startHost(b).dial(b, Options{})
	for b.Loop() {
		var out bytes.Buffer
		if err := h.Run(b.Context(), "echo facts", nil, &out); err != nil {
			b.Fatal(err)
		}
	}
}
