package win

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/daemon"
)

// routes is the table of IPv4 routes of this Windows.
type routes struct {
	// told is what Windows calls when a route changed; see newRoutes.
	told uintptr
}

// newRoutes takes one of the callbacks that there are. Windows calls it on a thread of its own, with the routeWatch that asked for it.
func newRoutes() routes {
	return routes{told: windows.NewCallback(func(w *routeWatch, _, _ uintptr) uintptr {
		select {
		case w.changes <- struct{}{}:
		default: // one is waiting to be read
		}
		return 0
	})}
}

// Ensure implements daemon.Routes.
func (routes) Ensure(_ context.Context, r daemon.Route) (changed bool, err error) {
	index, err := interfaceWith(r.From)
	if err != nil {
		return false, err
	}
	var gateway netip.Addr
	var metric uint32
	there := false
	err = eachRoute(func(row *windows.MibIpForwardRow2) {
		if row.InterfaceIndex != index {
			return
		}
		to := netip.PrefixFrom(ipv4(row.DestinationPrefix.Prefix), int(row.DestinationPrefix.PrefixLength))
		there = there || to == r.To
		if to.Bits() == 0 && (!gateway.IsValid() || row.Metric < metric) {
			gateway, metric = ipv4(row.NextHop), row.Metric
		}
	})
	if err != nil || there {
		return false, err
	}
	if !r.Gateway || !gateway.IsValid() {
		gateway = netip.IPv4Unspecified() // the destination is on the link
	}
	err = addRoute(index, r.To, gateway, 0)
	if errors.Is(err, windows.ERROR_OBJECT_ALREADY_EXISTS) {
		return false, nil // somebody was faster
	}
	return err == nil, err
}

// interfaceWith returns the index of the interface that has an address.
func interfaceWith(address netip.Addr) (uint32, error) {
	list, err := interfaces()
	if err != nil {
		return 0, fmt.Errorf("listing network interfaces: %w", err)
	}
	at := slices.IndexFunc(list, func(i agent.Interface) bool {
		return slices.ContainsFunc(i.Addresses, func(a netip.Prefix) bool { return a.Addr() == address })
	})
	if at < 0 {
		return 0, fmt.Errorf("an interface with address %s: %w", address, daemon.ErrNotFound)
	}
	return list[at].Index, nil
}

// eachRoute hands all IPv4 routes to a function.
func eachRoute(use func(*windows.MibIpForwardRow2)) error {
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

// ipv4 is the address in a SOCKADDR_INET of family AF_INET, where it is what follows the port.
func ipv4(a windows.RawSockaddrInet) netip.Addr {
	return netip.AddrFrom4(*(*[4]byte)(unsafe.Pointer(&a.Data[0])))
}

func setIPv4(a *windows.RawSockaddrInet, ip netip.Addr) {
	a.Family = windows.AF_INET
	*(*[4]byte)(unsafe.Pointer(&a.Data[0])) = ip.As4()
}

// addRoute adds a route that lasts until the next start of Windows. golang.org/x/sys lacks what it takes.
func addRoute(index uint32, to netip.Prefix, gateway netip.Addr, metric uint32) error {
	dll := windows.NewLazySystemDLL("iphlpapi.dll")
	prepare, create := dll.NewProc("InitializeIpForwardEntry"), dll.NewProc("CreateIpForwardEntry2")
	if err := errors.Join(prepare.Find(), create.Find()); err != nil {
		return fmt.Errorf("adding a route: %w (%w)", errors.ErrUnsupported, err)
	}
	var row windows.MibIpForwardRow2
	_, _, _ = prepare.Call(uintptr(unsafe.Pointer(&row))) // gives no result
	row.InterfaceIndex, row.Metric = index, metric
	setIPv4(&row.DestinationPrefix.Prefix, to.Addr())
	row.DestinationPrefix.PrefixLength = uint8(to.Bits())
	setIPv4(&row.NextHop, gateway)
	if code, _, _ := create.Call(uintptr(unsafe.Pointer(&row))); code != 0 {
		return fmt.Errorf("adding a route to %s by %s: %w", to, gateway, syscall.Errno(code))
	}
	return nil
}

// routeWatch is one that asked to be told.
type routeWatch struct{ changes chan struct{} }

// Watch implements daemon.Routes.
func (r routes) Watch(ctx context.Context) (<-chan struct{}, error) {
	w := &routeWatch{changes: make(chan struct{}, 1)}
	pinned := &runtime.Pinner{}
	pinned.Pin(w)
	var notices windows.Handle
	if err := windows.NotifyRouteChange2(windows.AF_INET, r.told, unsafe.Pointer(w), false, &notices); err != nil {
		pinned.Unpin()
		return nil, fmt.Errorf("asking to be told of changed routes: %w", err)
	}
	context.AfterFunc(ctx, func() {
		_ = windows.CancelMibChangeNotify2(notices) // waits for calls that are under way
		close(w.changes)
		pinned.Unpin()
	})
	return w.changes, nil
}
