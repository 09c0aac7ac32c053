package win

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/host"
	"github.com/windows-machine-config/wmco/internal/win/network"
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
func (routes) Ensure(_ context.Context, r host.Route) (changed bool, err error) {
	index, err := network.InterfaceWith(r.From)
	if err != nil {
		return false, err
	}
	var gateway netip.Addr
	var metric uint32
	there := false
	err = network.EachRoute(func(row *windows.MibIpForwardRow2) {
		if row.InterfaceIndex != index {
			return
		}
		to := netip.PrefixFrom(network.IPv4(row.DestinationPrefix.Prefix), int(row.DestinationPrefix.PrefixLength))
		there = there || to == r.To
		if to.Bits() == 0 && (!gateway.IsValid() || row.Metric < metric) {
			gateway, metric = network.IPv4(row.NextHop), row.Metric
		}
	})
	if err != nil || there {
		return false, err
	}
	if !r.Gateway || !gateway.IsValid() {
		gateway = netip.IPv4Unspecified() // the destination is on the link
	}
	return network.AddRoute(index, r.To, gateway, 0) // not, where somebody was faster
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
		return nil, fmt.Errorf("requesting notification of changed routes: %w", err)
	}
	context.AfterFunc(ctx, func() {
		_ = windows.CancelMibChangeNotify2(notices) // waits for calls that are under way
		close(w.changes)
		pinned.Unpin()
	})
	return w.changes, nil
}
