package overlay

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/hns"
)

// Names and numbers of the hybrid overlay. kube-proxy, the CNI plugin and the Linux nodes use the same.
const (
	// BaseNetwork has no pods. It survives restarts of Windows, and with it the host's virtual switch does. So only the first start
	// cuts the host's connections.
	BaseNetwork = "BaseOVNKubernetesHybridOverlayNetwork"
	// Network is the network of pods.
	Network = "OVNKubernetesHybridOverlayNetwork"
	// VNI is the virtual network identifier of Network.
	VNI = 4097

	baseVNI    = VNI + 1
	baseSubnet = "100.64.0.0/30"
)

// Settings are the settings of the networks besides the subnet.
type Settings struct {
	// VXLANPort is the UDP port; 0 means 4789.
	VXLANPort uint16
	// Adapter is the name of the interface for the overlay; empty leaves the choice to Windows.
	Adapter string
	// Ranges are the ranges of the nodes' subnets.
	Ranges Ranges
}

// networks returns the networks of a host with that subnet, in the order of their creation.
func (s Settings) networks(own netip.Prefix) []hns.Network {
	port := hns.OwnVXLANPort(s.VXLANPort)
	base, adapter := netip.MustParsePrefix(baseSubnet), physical(s.Adapter)
	return []hns.Network{{
		Name: BaseNetwork, Type: hns.Overlay, Adapter: adapter, VXLANPort: port, Persistent: true,
		Subnets: []hns.Subnet{{Prefix: base, Gateway: base.Addr().Next().Next(), VNI: baseVNI}},
	}, {
		Name: Network, Type: hns.Overlay, Adapter: adapter, VXLANPort: port, HostRoute: true, AutomaticDNS: true,
		Subnets: []hns.Subnet{{Prefix: own, Gateway: own.Addr().Next(), VNI: VNI}},
	}}
}

// physical is the name of the adapter below a virtual one. The first overlay network of a host creates the virtual adapter and moves
// the host's address to it.
func physical(adapter string) string {
	if inner, ok := strings.CutPrefix(adapter, "vEthernet ("); ok && strings.HasSuffix(inner, ")") {
		return strings.TrimSuffix(inner, ")")
	}
	return adapter
}

// satisfies reports whether a network can stand for the wanted one. Settings that Windows does not report or chooses itself are not
// compared. A network without a route from the host is incomplete, unless it has remote subnets: those are added last.
func satisfies(is, wanted hns.Network) bool {
	return is.Type == wanted.Type && slices.Equal(is.Subnets, wanted.Subnets) && hns.OwnVXLANPort(is.VXLANPort) == wanted.VXLANPort &&
		(is.HostRoute || !wanted.HostRoute || len(is.Remotes) > 0) &&
		(wanted.Adapter == "" || is.Adapter == "" || strings.EqualFold(is.Adapter, wanted.Adapter))
}

// networkChange has the changes after which each wanted network exists once.
type networkChange struct {
	// remove are networks with our names that cannot be used: another subnet, port or adapter, or a duplicate.
	remove []hns.Network
	// create are wanted networks that do not exist, in their order.
	create []hns.Network
	// why has the reasons for the log, in the order of create.
	why []string
}

func (c networkChange) isEmpty() bool { return len(c.remove)+len(c.create) == 0 }

// changeNetworks compares. It ignores networks with other names.
func changeNetworks(have, wanted []hns.Network) networkChange {
	var c networkChange
	for _, w := range wanted {
		found, why := false, "it does not exist"
		for _, h := range have {
			switch {
			case h.Name != w.Name:
			case !found && satisfies(h, w):
				found = true
			default:
				c.remove = append(c.remove, h)
				why = "the existing one is " + describe(h)
			}
		}
		if !found {
			c.create = append(c.create, w)
			c.why = append(c.why, why)
		}
	}
	// The network of pods is removed first: it needs the switch of the base network.
	slices.Reverse(c.remove)
	return c
}

func describe(n hns.Network) string {
	var subnets []string
	for _, s := range n.Subnets {
		subnets = append(subnets, fmt.Sprintf("%s (VNI %d)", s.Prefix, s.VNI))
	}
	return fmt.Sprintf("of type %s, subnets %s, VXLAN port %d, adapter %q, host route %t",
		n.Type, strings.Join(subnets, " and "), cmp.Or(n.VXLANPort, hns.DefaultVXLANPort), n.Adapter, n.HostRoute)
}

// named finds a network by its name.
func named(networks []hns.Network, name string) *hns.Network {
	for i := range networks {
		if networks[i].Name == name {
			return &networks[i]
		}
	}
	return nil
}

func byPrefix(a, b hns.RemoteSubnet) int { return comparePrefixes(a.Prefix, b.Prefix) }

// comparePrefixes compares by first address, then by length, so that overlapping prefixes are neighbors.
func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// changeRemotes compares remote subnets. It ignores those with another VNI. Both results are sorted by subnet; remove has them exactly
// as in have.
func changeRemotes(have, wanted []hns.RemoteSubnet) (remove, add []hns.RemoteSubnet) {
	missing := map[hns.RemoteSubnet]bool{}
	for _, w := range wanted {
		missing[w] = true
	}
	seen := map[hns.RemoteSubnet]bool{}
	for _, h := range have {
		if h.VNI != VNI {
			continue
		}
		known := h
		if mac, err := parseMAC(h.RouterMAC); err == nil {
			known.RouterMAC = mac
		}
		switch {
		case missing[known]:
			delete(missing, known)
			seen[known] = true
		case !seen[known]:
			remove = append(remove, h)
		}
	}
	for _, w := range wanted {
		if missing[w] {
			add = append(add, w)
		}
	}
	slices.SortFunc(remove, byPrefix)
	return remove, add
}
