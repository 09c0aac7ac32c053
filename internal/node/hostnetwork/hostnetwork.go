// Package hostnetwork compares the network settings of a host before and after its first pod network is created: Windows then moves the host's
// address to a virtual adapter, and can lose the rest. The package is pure: its callers read and change Windows.
package hostnetwork

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Adapter is a network interface of the host with its IPv4 settings.
type Adapter struct {
	Name  string `json:"name"`
	Index uint32 `json:"index,omitempty"`
	// Addresses are IPv4 addresses.
	Addresses []Address `json:"addresses"`
	// DNS are its DNS servers, Suffix is its connection-specific DNS suffix.
	DNS    []netip.Addr `json:"dns,omitempty"`
	Suffix string       `json:"suffix,omitempty"`
	// DHCP means that the interface uses DHCP, StaticDNS that its servers or suffix are nevertheless configured by hand.
	DHCP      bool   `json:"dhcp,omitempty"`
	StaticDNS bool   `json:"staticDNS,omitempty"`
	MTU       uint32 `json:"mtu,omitempty"`
	// Metric is the configured metric; 0 if Windows chooses it.
	Metric uint32 `json:"metric,omitempty"`
}

// Address is one address of an interface.
type Address struct {
	Prefix netip.Prefix `json:"prefix"`
	// Static means that it was configured by hand.
	Static bool `json:"static,omitempty"`
	// SkipAsSource means that Windows does not use it for its own connections.
	SkipAsSource bool `json:"skipAsSource,omitempty"`
}

// Route is a static IPv4 route. Routes to the interface's own subnets, which Windows creates, are not included.
type Route struct {
	To netip.Prefix
	// Gateway is 0.0.0.0 if the destination is on the link.
	Gateway netip.Addr
	Metric  uint32
}

// With returns the interface that has an address.
func With(all []Adapter, a netip.Addr) (Adapter, bool) {
	i := slices.IndexFunc(all, func(existing Adapter) bool { return existing.has(a) })
	if i < 0 {
		return Adapter{}, false
	}
	return all[i], true
}

func (a Adapter) has(address netip.Addr) bool {
	return slices.ContainsFunc(a.Addresses, func(current Address) bool { return current.Prefix.Addr() == address })
}

// Encapsulation is the size of VXLAN's headers in bytes. The host's packets to pods of other nodes are encapsulated, too, so the virtual adapter's
// MTU must be that much smaller than that of the adapter below it.
const Encapsulation = 50

// podMTU is the MTU that Windows gives to pod interfaces on a host with a virtual switch, whatever its adapter has. Its API has no setting for it
// (mtu-with-new-hnsnetwork.txt of https://github.com/pjh/SDN, https://github.com/microsoft/SDN/issues/517).
const podMTU = 1450

// TooSmall returns a message if an adapter's MTU has no room for encapsulated pod packets; empty otherwise. An MTU of 0 is unknown.
func TooSmall(adapter string, mtu uint32) string {
	if mtu == 0 || mtu >= podMTU+Encapsulation {
		return ""
	}
	return fmt.Sprintf("adapter %q has an MTU of %d: the MTU of pods is %d, and VXLAN adds %d bytes, so that large packets to pods of other nodes can be lost; "+
		"set the MTU of the network and the adapter to %d", adapter, mtu, podMTU, Encapsulation, podMTU+Encapsulation)
}

// minMTU is the smallest MTU of an IPv6 link (RFC 8200). A smaller one is not set.
const minMTU = 1280

// Loss is what an adapter had before and lacks now. Zero fields are not lost.
type Loss struct {
	// Addresses are configured addresses that no interface has.
	Addresses []Address
	// DNS are all former servers, even if only some are missing.
	DNS    []netip.Addr
	Suffix string
	// MTU is the maximum for the virtual adapter, if it has more.
	MTU    uint32
	Metric uint32
}

// Compare returns what an adapter lost; now is the interface that has its address now, and all are all interfaces. Settings that DHCP provides are
// left to DHCP. A smaller MTU is no loss: packets still arrive.
func Compare(before, now Adapter, all []Adapter) Loss {
	var l Loss
	for _, a := range before.Addresses {
		if _, found := With(all, a.Prefix.Addr()); a.Static && !found {
			l.Addresses = append(l.Addresses, a)
		}
	}
	byDHCP := before.DHCP && now.DHCP && !before.StaticDNS
	lacks := func(server netip.Addr) bool { return !slices.Contains(now.DNS, server) }
	if slices.ContainsFunc(before.DNS, lacks) && !byDHCP {
		l.DNS = slices.Clone(before.DNS)
	}
	if !strings.EqualFold(before.Suffix, now.Suffix) && !byDHCP {
		l.Suffix = before.Suffix
	}
	if most := before.MTU - Encapsulation; before.MTU >= minMTU+Encapsulation && now.MTU > most && now.Name != before.Name {
		l.MTU = most
	}
	if before.Metric != now.Metric {
		l.Metric = before.Metric
	}
	return l
}

// IsEmpty reports whether nothing was lost.
func (l Loss) IsEmpty() bool { return l.String() == "" }

// String describes the loss.
func (l Loss) String() string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	for _, a := range l.Addresses {
		add("address %s", a.Prefix)
	}
	if len(l.DNS) > 0 {
		add("DNS servers %s", strings.Trim(fmt.Sprint(l.DNS), "[]"))
	}
	if l.Suffix != "" {
		add("DNS suffix %s", l.Suffix)
	}
	if l.MTU > 0 {
		add("MTU %d", l.MTU)
	}
	if l.Metric > 0 {
		add("interface metric %d", l.Metric)
	}
	return strings.Join(parts, ", ")
}
