package win

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/windows-machine-config/wmco/internal/node/win/network"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// interfaces returns the network interfaces that are up, without the loopback, and the hardware adapters.
func interfaces() (found []wicdapi.Interface, hardware []wicdapi.Adapter, err error) {
	adapters, err := network.Adapters()
	if err != nil || len(adapters) == 0 {
		return nil, nil, err
	}
	routes, err := defaultRoutes()
	if err != nil {
		return nil, nil, err
	}
	kinds := network.Kinds()
	for _, k := range kinds {
		if k.Hardware {
			hardware = append(hardware, wicdapi.Adapter{Name: k.Name, MAC: k.MAC})
		}
	}
	slices.SortFunc(hardware, func(a, b wicdapi.Adapter) int { return strings.Compare(a.Name, b.Name) })
	hardware = hardware[:min(len(hardware), mostAdapters)]
	best := -1
	for _, a := range adapters {
		current := describe(a)
		if k, known := kinds[a.Luid]; known {
			current.Virtual, current.Connector = !k.Hardware, k.Connector
		}
		if metric, ok := routes[a.Luid]; ok {
			current.Metric = metric + a.Ipv4Metric // as Windows adds them
			if best < 0 || current.Metric < found[best].Metric {
				best = len(found)
			}
		}
		found = append(found, current)
	}
	if best >= 0 {
		found[best].DefaultRoute = true
	}
	return found, hardware, nil
}

// mostAdapters is the maximum number of adapters in facts.
const mostAdapters = 128

func describe(a *windows.IpAdapterAddresses) wicdapi.Interface {
	name := windows.BytePtrToString(a.AdapterName)
	return wicdapi.Interface{
		Name:      windows.UTF16PtrToString(a.FriendlyName),
		Index:     a.IfIndex,
		GUID:      strings.ToLower(strings.Trim(name, "{}")),
		MAC:       network.MAC(a.PhysicalAddress[:a.PhysicalAddressLength]),
		Addresses: network.Addresses(a),
		VLAN:      vlan(name),
		States:    states(a),
		DHCP:      network.HasDHCP(a),
		DNS:       network.DNSServers(a),
		Suffix:    windows.UTF16PtrToString(a.DnsSuffix),
		MTU:       network.MTU(a),
	}
}

func states(a *windows.IpAdapterAddresses) (all []wicdapi.AddressState) {
	for _, s := range network.States(a) {
		all = append(all, wicdapi.AddressState{
			Address: s.Prefix.Addr(), Static: s.Static, State: s.State, SkipAsSource: s.SkipAsSource, Cluster: s.Transient,
		})
	}
	return all
}

// networkAdapters is the class of drivers below which each adapter has a key with a number.
const networkAdapters = `SYSTEM\CurrentControlSet\Control\Class\{4d36e972-e325-11ce-bfc1-08002be10318}`

// vlan returns the VLAN ID configured for an adapter's driver with Windows' standardized keyword VlanID (NDIS); 0 if none.
func vlan(adapter string) uint16 {
	class, err := registry.OpenKey(registry.LOCAL_MACHINE, networkAdapters, registry.ENUMERATE_SUB_KEYS|registry.WOW64_64KEY)
	if err != nil {
		return 0
	}
	defer class.Close()
	keys, _ := class.ReadSubKeyNames(-1) // some cannot be read
	for _, key := range keys {
		path := networkAdapters + `\` + key
		if !strings.EqualFold(text(path, "NetCfgInstanceId"), adapter) {
			continue
		}
		id, err := strconv.ParseUint(text(path, "VlanID"), 10, 12)
		if err != nil {
			id = number(path, "VlanID")
		}
		return uint16(id)
	}
	return 0
}

// defaultRoutes maps the LUID of an interface to the lowest metric of its IPv4 default routes.
func defaultRoutes() (map[uint64]uint32, error) {
	routes := map[uint64]uint32{}
	err := network.EachRoute(func(r *windows.MibIpForwardRow2) {
		if r.DestinationPrefix.PrefixLength != 0 {
			return
		}
		if metric, ok := routes[r.InterfaceLuid]; !ok || r.Metric < metric {
			routes[r.InterfaceLuid] = r.Metric
		}
	})
	return routes, err
}
