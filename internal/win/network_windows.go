package win

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/agent"
)

// interfaces are the network interfaces that are up, without the loopback.
func interfaces() ([]agent.Interface, error) {
	buffer, err := answer(func(buffer *byte, size uint32, needed *uint32) error {
		*needed = size
		const skip = windows.GAA_FLAG_SKIP_ANYCAST | windows.GAA_FLAG_SKIP_MULTICAST | windows.GAA_FLAG_SKIP_DNS_SERVER
		first := (*windows.IpAdapterAddresses)(unsafe.Pointer(buffer))
		return windows.GetAdaptersAddresses(windows.AF_UNSPEC, skip, 0, first, needed)
	})
	if errors.Is(err, windows.ERROR_NO_DATA) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	routes, err := defaultRoutes()
	if err != nil {
		return nil, err
	}
	var found []agent.Interface
	best, bestMetric := -1, uint32(0)
	for a := (*windows.IpAdapterAddresses)(unsafe.Pointer(&buffer[0])); a != nil; a = a.Next {
		if a.OperStatus != windows.IfOperStatusUp || a.IfType == windows.IF_TYPE_SOFTWARE_LOOPBACK {
			continue
		}
		// Windows adds the metric of the interface to that of the route.
		if metric, ok := routes[a.Luid]; ok && (best < 0 || metric+a.Ipv4Metric < bestMetric) {
			best, bestMetric = len(found), metric+a.Ipv4Metric
		}
		found = append(found, agent.Interface{Name: windows.UTF16PtrToString(a.FriendlyName), Addresses: addresses(a)})
	}
	if best >= 0 {
		found[best].DefaultRoute = true
	}
	return found, nil
}

func addresses(a *windows.IpAdapterAddresses) []string {
	all := []string{}
	for u := a.FirstUnicastAddress; u != nil; u = u.Next {
		if ip := u.Address.IP(); ip != nil {
			all = append(all, ip.String())
		}
	}
	return all
}

// defaultRoutes maps the LUID of an interface to the lowest metric of its IPv4 default routes.
func defaultRoutes() (map[uint64]uint32, error) {
	var table *windows.MibIpForwardTable2
	err := windows.GetIpForwardTable2(windows.AF_INET, &table)
	if errors.Is(err, windows.ERROR_NOT_FOUND) {
		return nil, nil // a host without any route
	}
	if err != nil {
		return nil, err
	}
	defer windows.FreeMibTable(unsafe.Pointer(table))
	routes := map[uint64]uint32{}
	for _, r := range table.Rows() {
		if r.DestinationPrefix.PrefixLength != 0 {
			continue
		}
		if metric, ok := routes[r.InterfaceLuid]; !ok || r.Metric < metric {
			routes[r.InterfaceLuid] = r.Metric
		}
	}
	return routes, nil
}
