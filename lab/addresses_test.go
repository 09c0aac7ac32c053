//go:build linux

package lab

import (
	"net"
	"os"
	"testing"
	"time"
)

// TestAddressesAcceptListeners checks that programs reach each other at the addresses of a range, that ranges do not conflict,
// and that Close removes everything.
func TestAddressesAcceptListeners(t *testing.T) {
	if err := CanHaveHosts(); err != nil {
		t.Skip("SKIPPED:", err)
	}
	var both []*Addresses
	for range 2 {
		a, err := OpenAddresses(t.Context(), os.Stderr)
		must(t, err)
		defer a.Close()
		both = append(both, a)
	}
	for _, a := range both {
		for range 300 { // beyond one /24
			if a.Next().IsLoopback() {
				t.Fatal("a range contains loopback addresses")
			}
		}
		for range 2 {
			at := a.Next().String()
			l, err := net.Listen("tcp4", net.JoinHostPort(at, "22"))
			must(t, err)
			defer l.Close()
			conn, err := net.DialTimeout("tcp4", l.Addr().String(), 5*time.Second)
			must(t, err)
			if remote, _, _ := net.SplitHostPort(conn.RemoteAddr().String()); remote != at {
				t.Errorf("got a connection to %s, want %s", remote, at)
			}
			conn.Close()
		}
		if _, err := net.InterfaceByName(a.link); err != nil {
			t.Fatal(err)
		}
		a.Close()
		waitUntil(t, "Close removes the link", func() string {
			if _, err := net.InterfaceByName(a.link); err == nil {
				return a.link + " still exists"
			}
			return ""
		})
	}
}
