package join

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// NodeIP returns the IPv4 address of the host's node: an address of the interface with the default route, or of the one that the instance selects. Of
// several addresses, it is the most preferred one. It is empty if Check rejects the host for its address.
func NodeIP(f wicdapi.Facts, n *v1alpha1.InstanceNetwork) string {
	chosen, problem := choose(f, n)
	if problem != "" {
		return ""
	}
	return chosen.address.String()
}

// Adapter returns the name of the adapter that has NodeIP, in the form that network providers take: the hardware adapter's name, even if a virtual
// switch on it has the address by now. It is empty if the adapter is unknown, which leaves the choice to Windows.
func Adapter(f wicdapi.Facts, n *v1alpha1.InstanceNetwork) string {
	chosen, _ := choose(f, n)
	i := slices.IndexFunc(f.Host.Interfaces, func(i wicdapi.Interface) bool { return i.Name == chosen.name })
	if i < 0 {
		return ""
	}
	return adapterOf(f.Host, f.Host.Interfaces[i])
}

func checkAddress(f wicdapi.Facts, s CheckInput) *Unsupported {
	if _, problem := choose(f, s.Interface); problem != "" {
		return unsupported(api.ReasonAddressMissing, "%s", problem)
	}
	return nil
}

type candidate struct {
	name    string
	address netip.Addr
}

// choose returns the address of the node, or describes why there is none.
func choose(f wicdapi.Facts, n *v1alpha1.InstanceNetwork) (found candidate, problem string) {
	list, all := f.Host.Interfaces, candidates(f)
	switch {
	case n != nil && n.Interface != "":
		return chooseByName(list, all, n.Interface)
	case n != nil && n.CIDR != "":
		return chooseByRange(list, all, n.CIDR)
	}
	for _, i := range list {
		at := slices.IndexFunc(all, func(p candidate) bool { return p.name == i.Name })
		if at >= 0 && i.DefaultRoute {
			return all[at], ""
		}
	}
	switch {
	case len(all) > 0:
		return candidate{}, "no interface of the host has both a default route and an IPv4 address, so the node's address is ambiguous; " +
			"select one with spec.network.interface or spec.network.cidr; " + interfaces(list)
	case hasIPv6(list):
		return candidate{}, "the host has only IPv6 addresses, and a Windows node needs an IPv4 address: assign one to an interface; " + interfaces(list)
	}
	return candidate{}, "no interface of the host has an IPv4 address; " + interfaces(list)
}

func chooseByName(list []wicdapi.Interface, all []candidate, name string) (candidate, string) {
	isChosen := func(current string) bool {
		below, _ := hns.AdapterBelow(current)
		return strings.EqualFold(current, name) || strings.EqualFold(below, name)
	}
	for _, p := range all {
		if isChosen(p.name) {
			return p, ""
		}
	}
	if slices.ContainsFunc(list, func(i wicdapi.Interface) bool { return isChosen(i.Name) }) {
		return candidate{}, fmt.Sprintf("spec.network.interface is %q, which has no IPv4 address; assign one, or select another interface; %s", name, interfaces(list))
	}
	return candidate{}, fmt.Sprintf("spec.network.interface is %q, and no interface of this name is up on the host; %s", name, interfaces(list))
}

func chooseByRange(list []wicdapi.Interface, all []candidate, cidr string) (candidate, string) {
	within, err := netip.ParsePrefix(cidr)
	if err != nil {
		return candidate{}, fmt.Sprintf("spec.network.cidr is %q; it must be an IPv4 range such as 10.0.8.0/24", cidr)
	}
	for _, p := range all {
		if within.Contains(p.address) {
			return p, ""
		}
	}
	return candidate{}, fmt.Sprintf("spec.network.cidr is %s, and no interface of the host has an address in it; %s", cidr, interfaces(list))
}

// candidates returns the addresses that a node can have, grouped by interface, best first: IPv4 only, without loopback and link-local addresses
// (169.254.0.0/16).
func candidates(f wicdapi.Facts) []candidate {
	var all []candidate
	for _, i := range f.Host.Interfaces {
		var own []candidate
		for _, a := range i.Addresses {
			if ip := a.Addr(); ip.Is4() && ip.IsGlobalUnicast() {
				own = append(own, candidate{i.Name, ip})
			}
		}
		slices.SortStableFunc(own, func(a, b candidate) int { return cmp.Compare(preference(f, i, b.address), preference(f, i, a.address)) })
		all = append(all, own...)
	}
	return all
}

// preference ranks an address of an interface; higher is better. A node keeps its address. A new node gets the address at which the operator reached the
// host, which is known to be reachable, or else one that Windows uses by default. The address of a failover cluster comes last, because it moves to
// another host.
func preference(f wicdapi.Facts, i wicdapi.Interface, a netip.Addr) int {
	at := slices.IndexFunc(i.States, func(s wicdapi.AddressState) bool { return s.Address == a })
	state := wicdapi.AddressState{State: preferred}
	if at >= 0 {
		state = i.States[at]
	}
	switch {
	case state.Cluster:
		return 0
	case f.Joined != nil && f.Joined.NodeIP == a.String():
		return 4
	case f.Reached == a:
		return 3
	case state.State == preferred && !state.SkipAsSource:
		return 2
	}
	return 1
}

// preferred is the state of an address that Windows uses as the source of new connections.
const preferred = "Preferred"

func hasIPv6(list []wicdapi.Interface) bool {
	return slices.ContainsFunc(list, func(i wicdapi.Interface) bool {
		return slices.ContainsFunc(i.Addresses, func(a netip.Prefix) bool { return a.Addr().Is6() && a.Addr().IsGlobalUnicast() })
	})
}

// Limits of what a message lists.
const (
	listedInterfaces = 16
	listedAddresses  = 4
)

func interfaces(list []wicdapi.Interface) string {
	var all []string
	for _, i := range list[:min(len(list), listedInterfaces)] {
		var parts []string
		for _, a := range i.Addresses[:min(len(i.Addresses), listedAddresses)] {
			parts = append(parts, a.String())
		}
		if more := len(i.Addresses) - listedAddresses; more > 0 {
			parts = append(parts, fmt.Sprintf("%d more", more))
		}
		if len(parts) == 0 {
			parts = []string{"no address"}
		}
		if i.DefaultRoute {
			parts = append(parts, "default route")
		}
		all = append(all, fmt.Sprintf("%q (%s)", truncate.Text(i.Name, truncate.Quoted), strings.Join(parts, ", ")))
	}
	if more := len(list) - listedInterfaces; more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	if len(all) == 0 {
		return "no interface is up"
	}
	return "interfaces: " + strings.Join(all, ", ")
}
