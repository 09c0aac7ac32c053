package network

import (
	"net/netip"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
)

func TestAddressRoundTrips(t *testing.T) {
	ip := netip.MustParseAddr("169.254.169.254")
	var a windows.RawSockaddrInet
	setIPv4(&a, ip)
	if a.Family != windows.AF_INET || IPv4(a) != ip {
		t.Errorf("family %d, address %s", a.Family, IPv4(a))
	}
	// In a SOCKADDR_IN, the address follows family and port.
	if in := (*windows.RawSockaddrInet4)(unsafe.Pointer(&a)); netip.AddrFrom4(in.Addr) != ip {
		t.Errorf("as SOCKADDR_IN it is %v", in.Addr)
	}
}
