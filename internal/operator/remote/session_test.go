package remote

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
)

func TestSilentHostIsLostAfterThreeKeepalives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, cable := newMemory(), &link{delay: linkDelay}
		h := network.dial(t, cable, newHost(t, network), Options{})
		<-time.After(time.Hour) // an idle connection stays open
		if err := h.Run(t.Context(), "exit 0", nil, nil); err != nil {
			t.Fatal(err)
		}
		if u := h.Usage(); u.BytesIn > 50_000 {
			t.Errorf("an idle hour took %d bytes from the host", u.BytesIn)
		}
		cable.silent.Store(true)
		start := time.Now()
		err := h.Run(t.Context(), "exit 0", nil, nil)
		e := expectKind(t, err, Lost)
		if !strings.Contains(e.Error(), "no data received for 30s") {
			t.Errorf("got %v", e)
		}
		if d := time.Since(start); d < 30*time.Second || d > 41*time.Second {
			t.Errorf("noticed after %s, want 30 s after the first question without an answer", d)
		}
	})
}

func TestKeepaliveAnswersBehindSlowTransferCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newMemory()
		h := network.dial(t, &link{rate: 20_000}, newHost(t, network), Options{}) // 2 MiB in transit take 105 s
		if err := h.Run(t.Context(), "count", io.LimitReader(zeros{}, 4<<20), nil); err != nil {
			t.Error(err)
		}
	})
}

func TestSilentHostIsLostOverRealSockets(t *testing.T) {
	host := startHost(t)
	cable := &link{}
	host.through(t, cable)
	h := host.dial(t, Options{KeepAlive: 20 * time.Millisecond})
	err := expectRunning(t, t.Context(), h, func() { cable.silent.Store(true) })
	expectKind(t, err, Lost)
}

func TestCanceledCallOnSilentHostEndsAfterGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, cable := newMemory(), &link{}
		h := network.dial(t, cable, newHost(t, network), Options{})
		cable.silent.Store(true)
		for name, call := range map[string]func(context.Context) error{
			"Run": func(ctx context.Context) error { return h.Run(ctx, "exit 0", nil, nil) },
			"Put": func(ctx context.Context) error { return h.Put(ctx, "x", strings.NewReader("x"), 1) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			start := time.Now()
			err := call(ctx)
			cancel()
			if d := time.Since(start); d > 3*time.Second {
				t.Errorf("%s took %s, want a second and the grace", name, d)
			}
			if e := (*Error)(nil); !errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &e) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
}

func TestCallsReportLostConnection(t *testing.T) {
	host := startHost(t)
	for range 100 {
		h := host.dial(t, Options{Grace: time.Second})
		go host.Cut()
		var err error
		for err == nil {
			err = h.Run(t.Context(), "exit 0", nil, nil)
		}
		expectKind(t, err, Lost)
		h.Close()
	}
}

func TestNoGoroutinesLeak(t *testing.T) {
	host := startHost(t)
	host.dial(t, Options{}).Close()
	everything := func() {
		h, err := Dial(t.Context(), host.target, Options{Grace: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_ = h.Run(t.Context(), "cat", io.LimitReader(zeros{}, 1<<20), nil)
		_ = h.Run(t.Context(), "exit 0", zeros{}, nil)
		_ = h.Run(t.Context(), "flood", nil, errWriter{io.ErrShortWrite})
		_ = h.Run(t.Context(), "cat", errReader{io.ErrNoProgress}, nil)
		_ = h.Put(t.Context(), "x", io.LimitReader(zeros{}, 1<<20), 1<<20)
		_ = h.Put(t.Context(), "y", errReader{io.ErrNoProgress}, 1<<20)
		_ = h.Put(t.Context(), "no/folder", strings.NewReader("x"), 1)
		_ = h.Run(ctx, "hang", nil, nil)
		_ = h.Put(ctx, "z", zeros{}, 1<<40)
		h.Close()
		_ = h.Run(t.Context(), "exit 0", nil, nil)
		for _, f := range []sshserver.Fault{{Stall: true}, {RefuseLogin: true}, {CutAfterIn: 500}, {CutAfterOut: 500}} {
			host.SetFaults(func(int) sshserver.Fault { return f })
			if _, err := Dial(t.Context(), host.target, Options{HandshakeTimeout: 20 * time.Millisecond}); err == nil {
				t.Fatalf("%+v did no harm", f)
			}
		}
		host.SetFaults(nil)
	}
	before := runtime.NumGoroutine()
	for range 5 {
		everything()
	}
	deadline := time.After(20 * time.Second)
	for runtime.NumGoroutine() > before {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}
