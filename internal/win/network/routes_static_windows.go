package network

import (
	"net/netip"

	"golang.org/x/sys/windows"
)

// StaticRoute is an IPv4 route that somebody has set; Windows makes those to the subnets of an interface itself.
type StaticRoute struct {
	To      netip.Prefix
	Gateway netip.Addr
	Metric  uint32
}

// StaticRoutes returns the routes of the interface that has an address. When none has it, that is fs.ErrNotExist.
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

// AddStaticRoute adds a route to the interface that has an address. It lasts until the next start of Windows. One that is there is no
// error.
func AddStaticRoute(address netip.Addr, r StaticRoute) error {
	index, err := InterfaceWith(address)
	if err != nil {
		return err
	}
	_, err = AddRoute(index, r.To, r.Gateway, r.Metric)
	return err
}
