package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
)

// StaticRoutes returns the routes of the interface with an address. If there is none, the error is fs.ErrNotExist.
func StaticRoutes(address netip.Addr) ([]hostnetwork.Route, error) {
	index, err := InterfaceWith(address)
	if err != nil {
		return nil, err
	}
	var found []hostnetwork.Route
	err = EachRoute(func(row *windows.MibIpForwardRow2) {
		if row.InterfaceIndex == index && row.Protocol == windows.MIB_IPPROTO_NETMGMT {
			to := netip.PrefixFrom(IPv4(row.DestinationPrefix.Prefix), int(row.DestinationPrefix.PrefixLength))
			found = append(found, hostnetwork.Route{To: to, Gateway: IPv4(row.NextHop), Metric: row.Metric})
		}
	})
	return found, err
}

// AddStaticRoute adds a route to the interface with an address. It lasts until the next start of Windows. An existing one is no
// error.
func AddStaticRoute(address netip.Addr, r hostnetwork.Route) error {
	index, err := InterfaceWith(address)
	if err != nil {
		return err
	}
	_, err = AddRoute(index, r.To, r.Gateway, r.Metric)
	return err
}

// persistentTimeout limits how long netsh.exe may take.
const persistentTimeout = 15 * time.Second

// PersistentRoutes returns the routes that Windows keeps across restarts and that can be those of the interface with an address. Windows
// has bound them to another interface if the address has moved since. Those that another interface has are not included.
func PersistentRoutes(ctx context.Context, address netip.Addr) ([]hostnetwork.Route, error) {
	adapter, err := adapterWith(address)
	if err != nil {
		return nil, err
	}
	all, err := readPersistentRoutes(ctx)
	found := routesOn(all, Addresses(adapter))
	err = errors.Join(err, EachRoute(func(row *windows.MibIpForwardRow2) {
		to := netip.PrefixFrom(IPv4(row.DestinationPrefix.Prefix), int(row.DestinationPrefix.PrefixLength))
		found = slices.DeleteFunc(found, func(r hostnetwork.Route) bool {
			return row.InterfaceIndex != adapter.IfIndex && r.To == to && r.Gateway == IPv4(row.NextHop)
		})
	}))
	return found, err
}

// readPersistentRoutes reads the routes that route.exe and New-NetRoute have stored. No call of iphlpapi.dll returns them.
func readPersistentRoutes(ctx context.Context) (all []hostnetwork.Route, err error) {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Services\Tcpip\Parameters\PersistentRoutes`, registry.QUERY_VALUE)
	if err == nil {
		var names []string
		names, err = key.ReadValueNames(0)
		all = parseRouteNames(names)
		_ = key.Close()
	}
	if errors.Is(err, registry.ErrNotExist) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("reading the persistent routes of the registry: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, persistentTimeout)
	defer cancel()
	system, failed := windows.GetSystemDirectory()
	if failed == nil {
		var table string
		table, failed = runProgram(ctx, filepath.Join(system, "netsh.exe"), "interface", "ipv4", "show", "route", "store=persistent")
		all = append(all, parseNetshRoutes(table)...)
	}
	if failed != nil {
		err = errors.Join(err, fmt.Errorf("listing persistent routes with netsh: %w", failed))
	}
	return all, err
}
