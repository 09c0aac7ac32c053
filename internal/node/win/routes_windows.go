package win

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/win/network"
)

// routes is the IPv4 routing table of this Windows.
type routes struct {
	// notified is Windows' callback for changed routes; see newRoutes.
	notified uintptr
}

// newRoutes uses one of the limited callbacks. Windows calls it on its own thread, with the routeWatch that registered it.
func newRoutes() routes {
	return routes{notified: windows.NewCallback(func(w *routeWatch, _, _ uintptr) uintptr {
		select {
		case w.changes <- struct{}{}:
		default: // a message is already pending
		}
		return 0
	})}
}

// Ensure implements hostapi.Routes.
func (routes) Ensure(_ context.Context, r hostapi.Route) (changed bool, err error) {
	index, err := network.InterfaceWith(r.From)
	if err != nil {
		return false, err
	}
	var gateway netip.Addr
	var metric uint32
	found := false
	err = network.EachRoute(func(row *windows.MibIpForwardRow2) {
		if row.InterfaceIndex != index {
			return
		}
		to := netip.PrefixFrom(network.IPv4(row.DestinationPrefix.Prefix), int(row.DestinationPrefix.PrefixLength))
		found = found || to == r.To
		if to.Bits() == 0 && (!gateway.IsValid() || row.Metric < metric) {
			gateway, metric = network.IPv4(row.NextHop), row.Metric
		}
	})
	if err != nil || found {
		return false, err
	}
	if !r.Gateway || !gateway.IsValid() {
		gateway = netip.IPv4Unspecified() // the destination is on the link
	}
	return network.AddRoute(index, r.To, gateway, 0) // does nothing if another program has added it in the meantime
}

// routeWatch is a registered watch.
type routeWatch struct{ changes chan struct{} }

// Watch implements hostapi.Routes.
func (r routes) Watch(ctx context.Context) (<-chan struct{}, error) {
	w := &routeWatch{changes: make(chan struct{}, 1)}
	pinned := &runtime.Pinner{}
	pinned.Pin(w)
	var notices windows.Handle
	if err := windows.NotifyRouteChange2(windows.AF_INET, r.notified, unsafe.Pointer(w), false, &notices); err != nil {
		pinned.Unpin()
		return nil, fmt.Errorf("requesting notification of changed routes: %w", err)
	}
	context.AfterFunc(ctx, func() {
		_ = windows.CancelMibChangeNotify2(notices) // waits for running calls
		close(w.changes)
		pinned.Unpin()
	})
	return w.changes, nil
}
