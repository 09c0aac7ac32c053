package join

import (
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// adapterOf returns the adapter below an interface. The virtual interface that the Host Network Service creates on an adapter has the adapter's MAC
// address and is named after it. Because a user may give a virtual switch such a name, too, the name counts only if an adapter of that name exists.
func adapterOf(h wicdapi.HostFacts, i wicdapi.Interface) string {
	below, isVirtual := hns.AdapterBelow(i.Name)
	if !isVirtual {
		return i.Name
	}
	if name := onlyWith(h.Adapters, i.MAC); name != "" {
		return name
	}
	for _, a := range h.Adapters {
		if strings.EqualFold(a.Name, below) {
			return a.Name
		}
	}
	for _, other := range h.Interfaces {
		if strings.EqualFold(other.Name, below) {
			return other.Name
		}
	}
	return ""
}

// onlyWith returns the only adapter with a MAC address; empty if there is none or several, such as the members of a team.
func onlyWith(adapters []wicdapi.Adapter, mac string) (name string) {
	for _, a := range adapters {
		switch {
		case mac == "" || !strings.EqualFold(a.MAC, mac):
		case name != "":
			return ""
		default:
			name = a.Name
		}
	}
	return name
}

// checkAdapter rejects an interface on which the Host Network Service cannot create a network: it needs an adapter without a switch. It rejects
// neither a host whose adapters Windows does not report nor a host that has joined.
func checkAdapter(f wicdapi.Facts, s CheckInput) *Unsupported {
	chosen, _ := choose(f, s.Interface)
	at := slices.IndexFunc(f.Host.Interfaces, func(i wicdapi.Interface) bool { return i.Name == chosen.name })
	if at < 0 || f.Joined != nil || len(f.Host.Adapters) == 0 {
		return nil
	}
	i := f.Host.Interfaces[at]
	below, isSwitch := hns.AdapterBelow(i.Name)
	isOnAdapter := slices.ContainsFunc(f.Host.Adapters, func(a wicdapi.Adapter) bool { return strings.EqualFold(a.Name, below) })
	switch {
	case !i.Virtual || isOnAdapter:
		return nil
	case isSwitch:
		return unsupported(api.ReasonAdapterUnsupported, "the node's address %s is on %q, the interface of Hyper-V virtual switch %q, and no adapter has that name: "+
			"the Host Network Service cannot put the pod network on an adapter that has a switch; remove the switch (Remove-VMSwitch), or connect another adapter and "+
			"select it with spec.network; if the adapter of the switch was renamed after a pod network was created on it, restore its former name", chosen.address, i.Name, below)
	case !i.Connector:
		return unsupported(api.ReasonAdapterUnsupported, "the node's address %s is on %q, which is not a hardware adapter (for example a team or a VPN), and the Host Network Service can put "+
			"the pod network only on a hardware adapter; assign the address to such an adapter, or select another interface with spec.network", chosen.address, i.Name)
	}
	return nil
}

// checkTrunk rejects an adapter whose driver tags packets: a virtual switch on it, which connects the pods, does not.
func checkTrunk(f wicdapi.Facts, s CheckInput) *Unsupported {
	adapter := Adapter(f, s.Interface)
	for _, i := range f.Host.Interfaces {
		if i.VLAN != 0 && adapter != "" && strings.EqualFold(adapterOf(f.Host, i), adapter) {
			return unsupported(api.ReasonTrunkPortUnsupported,
				"adapter %q, which would carry the pod network, tags its packets with VLAN %d (setting VlanID of its driver), so it is on a "+
					"trunk port of a switch; connect it to an access port, or select another interface with spec.network", i.Name, i.VLAN)
		}
	}
	return nil
}
