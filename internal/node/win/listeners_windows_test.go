package win

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// TestListenersOnNodePortsAreFound listens on one port for each protocol.
func TestListenersOnNodePortsAreFound(t *testing.T) {
	tcp, err := net.Listen("tcp4", "127.0.0.1:10280")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	other, err := net.Listen("tcp4", "127.0.0.1:0") // not a port of a node
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	udp, err := windows.Socket(windows.AF_INET, windows.SOCK_DGRAM, 0) // Wine rejects an option that package net sets
	if err != nil {
		t.Fatal(err)
	}
	defer windows.Closesocket(udp)
	if err := windows.Bind(udp, &windows.SockaddrInet4{Port: 4789, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	got, err := listeners()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if got := programOf(uint32(os.Getpid())); !strings.EqualFold(got, self) {
		t.Errorf("the program of this process is %q, want %q", got, self)
	}
	for _, want := range []wicdapi.Listener{{Port: 10280}, {Port: 4789, UDP: true}} {
		if !slices.ContainsFunc(got, func(l wicdapi.Listener) bool {
			isNamed := l.PID == uint32(os.Getpid()) && strings.EqualFold(l.Program, self)
			return l.Port == want.Port && l.UDP == want.UDP && l.Address == netip.MustParseAddr("127.0.0.1") && (isNamed || onWine() && l.PID == 0) // Wine does not always return the process
		}) {
			t.Errorf("listeners are %+v, want one like %+v of %s (process %d)", got, want, self, os.Getpid())
		}
	}
	if port := netip.MustParseAddrPort(other.Addr().String()).Port(); slices.ContainsFunc(got, func(l wicdapi.Listener) bool { return l.Port == port }) {
		t.Errorf("port %d, which no node needs, is among %+v", port, got)
	}
}

// TestNamedPipeIsDetectedWithoutConnecting expects that for busy and idle pipes.
func TestNamedPipeIsDetectedWithoutConnecting(t *testing.T) {
	const name = `\\.\pipe\wicd-test-is-there`
	if got, err := hasPipe(name); got || err != nil {
		t.Errorf("before its creation: %v, %v", got, err)
	}
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		t.Fatal(err)
	}
	const one, buffer = 1, 64
	pipe, err := windows.CreateNamedPipe(text, windows.PIPE_ACCESS_DUPLEX, windows.PIPE_TYPE_BYTE, one, buffer, buffer, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer windows.CloseHandle(pipe)
	if got, err := hasPipe(name); !got || err != nil {
		t.Errorf("without a listener: %v, %v", got, err)
	}
}
