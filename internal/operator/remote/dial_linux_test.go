package remote

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

// silentPort returns a TCP port that never answers: its backlog is full, so Linux drops further connections.
func silentPort(t *testing.T) Target {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	target := Target{Address: "127.0.0.1", Port: name.(*syscall.SockaddrInet4).Port, User: user, Key: newKey(t, "ed25519")}
	full := false
	for range 8 {
		c, err := net.DialTimeout("tcp4", hostPort(target), 100*time.Millisecond)
		if err != nil {
			full = true
			break
		}
		t.Cleanup(func() { c.Close() })
	}
	if !full {
		t.Fatal("the queue of the port never fills")
	}
	return target
}

func TestUnansweredTCPIsTimeout(t *testing.T) {
	target := silentPort(t)
	_, err := Dial(t.Context(), target, Options{DialTimeout: 50 * time.Millisecond})
	expectKind(t, err, Timeout)

	t.Run("canceled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		_, err := Dial(ctx, target, Options{})
		var e *Error
		if !errors.Is(err, context.Canceled) || errors.As(err, &e) {
			t.Errorf("got %v, want a plain cancellation", err)
		}
	})
}

func TestSilentAddressLeavesTimeForNext(t *testing.T) {
	silent := silentPort(t)
	silent.Address = "win.example"
	_, err := Dial(t.Context(), silent, Options{DialTimeout: 200 * time.Millisecond, Lookup: func(context.Context, string, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")}, nil // the second refuses connections
	}})
	e := expectKind(t, err, Timeout)
	if e.Host != hostPort(silent) {
		t.Errorf("the error is about %s, want %s", e.Host, hostPort(silent))
	}
}

func TestNetworkWithoutRouteIsUnreachable(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EHOSTUNREACH, syscall.ENETUNREACH} {
		if k := tcpKind(&net.OpError{Op: "dial", Err: errno}); k != Unreachable {
			t.Errorf("%v is %s, want Unreachable", errno, k)
		}
	}
}
