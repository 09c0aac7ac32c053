package network

import (
	"net/netip"

	"golang.org/x/sys/windows"
)

// StaticRoute is a static IPv4 route; Windows creates the routes to the subnets of an interface itself.
type StaticRoute struct {
	To      netip.Prefix
	Gateway netip.Addr
	Metric  uint32
}

// StaticRoutes returns the routes of the interface with an address. If there is none, the error is fs.ErrNotExist.
func StaticRoutes(address netip.Addr) ([]StaticRoute, error) {
	index, err := InterfaceWith(address)
	if err != nil {
		return nil, err
	}
	var found []StaticRoute
	err = EachRoute(func(row *windows.MibIpForwardRow2) {
		if row.InterfaceIndex == index && row.Protocol == windows.MIB_IPPROTO_NETMGMT {
			to := netip.PrefixFrom(IPv4(row.DestinationPrefix.Prefix), int(row.DestinationPrefix.PrefixLength))
			found = append(found, StaticRoute{To: to, Gateway: IPv4(row.NextHop), Metric: row.Metric})
		}
	})
	return found, err
}

// AddStaticRoute adds a route to the interface with an address. It lasts until the next start of Windows. An existing one is no
// error.
func AddStaticRoute(address netip.Addr, r StaticRoute) error {
	index, err := InterfaceWith(address)
	if err != nil {
		return err
	}
	_, err = AddRoute(index, r.To, r.Gateway, r.Metric)
	return err
}
