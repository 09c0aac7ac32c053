package network

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// EachRoute calls a function with each IPv4 route.
func EachRoute(use func(*windows.MibIpForwardRow2)) error {
	var table *windows.MibIpForwardTable2
	err := windows.GetIpForwardTable2(windows.AF_INET, &table)
	if errors.Is(err, windows.ERROR_NOT_FOUND) {
		return nil // a host without any route
	}
	if err != nil {
		return fmt.Errorf("listing routes: %w", err)
	}
	defer windows.FreeMibTable(unsafe.Pointer(table))
	rows := table.Rows()
	for i := range rows {
		use(&rows[i])
	}
	return nil
}

// IPv4 returns the address in a SOCKADDR_INET of family AF_INET, in which it follows the port.
func IPv4(a windows.RawSockaddrInet) netip.Addr {
	return netip.AddrFrom4(*(*[4]byte)(unsafe.Pointer(&a.Data[0])))
}

func setIPv4(a *windows.RawSockaddrInet, ip netip.Addr) {
	a.Family = windows.AF_INET
	*(*[4]byte)(unsafe.Pointer(&a.Data[0])) = ip.As4()
}

// AddRoute adds a route that lasts until the next start of Windows. An existing one is not an error and is not changed. golang.org/x/sys lacks the call.
func AddRoute(index uint32, to netip.Prefix, gateway netip.Addr, metric uint32) (added bool, err error) {
	dll := windows.NewLazySystemDLL("iphlpapi.dll")
	prepare, create := dll.NewProc("InitializeIpForwardEntry"), dll.NewProc("CreateIpForwardEntry2")
	if err := errors.Join(prepare.Find(), create.Find()); err != nil {
		return false, fmt.Errorf("adding a route: %w (%w)", errors.ErrUnsupported, err)
	}
	var row windows.MibIpForwardRow2
	_, _, _ = prepare.Call(uintptr(unsafe.Pointer(&row))) // returns nothing
	row.InterfaceIndex, row.Metric = index, metric
	setIPv4(&row.DestinationPrefix.Prefix, to.Addr())
	row.DestinationPrefix.PrefixLength = uint8(to.Bits())
	setIPv4(&row.NextHop, gateway)
	switch code, _, _ := create.Call(uintptr(unsafe.Pointer(&row))); syscall.Errno(code) {
	case windows.ERROR_SUCCESS:
		return true, nil
	case windows.ERROR_OBJECT_ALREADY_EXISTS:
		return false, nil
	default:
		return false, fmt.Errorf("adding a route to %s by %s: %w", to, gateway, syscall.Errno(code))
	}
}
