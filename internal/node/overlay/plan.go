package overlay

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// Names and numbers of the hybrid overlay. kube-proxy, the CNI plugin and the Linux nodes use the same.
const (
	// BaseNetwork has no pods. It survives restarts of Windows, and so does the host's virtual switch. So only the first start interrupts the host's
	// connections.
	BaseNetwork = "BaseOVNKubernetesHybridOverlayNetwork"
	// Network is the network of pods.
	Network = "OVNKubernetesHybridOverlayNetwork"
	// VNI is the virtual network identifier of Network.
	VNI = 4097

	baseVNI    = VNI + 1
	baseSubnet = "100.64.0.0/30"
)

// Settings are the settings of the networks in addition to the subnet.
type Settings struct {
	// VXLANPort is the UDP port; 0 means 4789.
	VXLANPort uint16
	// Adapter is the name of the interface for the overlay; empty leaves the choice to Windows.
	Adapter string
	// Ranges are the ranges of the nodes' subnets.
	Ranges Ranges
}

// Networks returns the networks of a host with that subnet, in the order of their creation.
func (s Settings) Networks(own netip.Prefix) []hns.Network {
	port := hns.OwnVXLANPort(s.VXLANPort)
	base := netip.MustParsePrefix(baseSubnet)
	// The network of pods names no adapter: by then, the adapter has the switch of the base network, and the Host Network Service may refuse a second
	// one on it (0x803B0006).
	return []hns.Network{{
		Name: BaseNetwork, Type: hns.Overlay, Adapter: s.adapter(), VXLANPort: port, Persistent: true,
		Subnets: []hns.Subnet{{Prefix: base, Gateway: base.Addr().Next().Next(), VNI: baseVNI}},
	}, {
		Name: Network, Type: hns.Overlay, VXLANPort: port, HostRoute: true, AutomaticDNS: true,
		Subnets: []hns.Subnet{{Prefix: own, Gateway: own.Addr().Next(), VNI: VNI}},
	}}
}

// adapter returns the physical adapter. The first overlay network of a host creates a virtual one on it, to which the host's address moves.
func (s Settings) adapter() string {
	if below, isVirtual := hns.AdapterBelow(s.Adapter); isVirtual {
		return below
	}
	return s.Adapter
}

// contradiction returns what differs between a network and the wanted one; empty if nothing. What Windows does not return is unknown and contradicts
// nothing: it is not documented what it returns, and removing a network removes the endpoints of all pods. addresses are the node's: if the host has
// one of them on the network, the network is on the right adapter, whatever its name.
func contradiction(found, wanted hns.Network, addresses []netip.Addr) string {
	if found.Type != "" && !strings.EqualFold(string(found.Type), string(wanted.Type)) {
		return fmt.Sprintf("type %s instead of %s", found.Type, wanted.Type)
	}
	if text := subnetContradiction(found.Subnets, wanted.Subnets[0]); text != "" {
		return text
	}
	if found.VXLANPort != 0 && hns.OwnVXLANPort(found.VXLANPort) != wanted.VXLANPort {
		return fmt.Sprintf("VXLAN port %d instead of %d", found.VXLANPort, cmp.Or(wanted.VXLANPort, hns.DefaultVXLANPort))
	}
	if isOnOtherAdapter(found, addresses) && found.Adapter != "" && wanted.Adapter != "" && !hns.IsSameAdapter(found.Adapter, wanted.Adapter) {
		return fmt.Sprintf("adapter %q with address %s instead of %q", found.Adapter, found.ManagementIP, wanted.Adapter)
	}
	return ""
}

func subnetContradiction(found []hns.Subnet, wanted hns.Subnet) string {
	if len(found) == 0 {
		return ""
	}
	i := slices.IndexFunc(found, func(s hns.Subnet) bool { return !s.Prefix.IsValid() || s.Prefix.Masked() == wanted.Prefix })
	if i < 0 {
		return fmt.Sprintf("subnet %s instead of %s", found[0].Prefix, wanted.Prefix)
	}
	if s := found[i]; s.Gateway.IsValid() && s.Gateway != wanted.Gateway {
		return fmt.Sprintf("gateway %s instead of %s", s.Gateway, wanted.Gateway)
	} else if s.VNI != 0 && s.VNI != wanted.VNI {
		return fmt.Sprintf("VNI %d instead of %d", s.VNI, wanted.VNI)
	}
	return ""
}

// networkChange contains the changes after which each wanted network exists once.
type networkChange struct {
	// remove are networks with the overlay's names that cannot be used: another subnet, port or adapter, or a duplicate. unusable has the reasons.
	remove   []hns.Network
	unusable map[string]string
	// create are wanted networks that do not exist, in their order.
	create []hns.Network
	// why has the reasons for the log, in the order of create.
	why []string
}

func (c networkChange) isEmpty() bool { return len(c.remove)+len(c.create) == 0 }

// changeNetworks returns the necessary changes. It ignores networks with other names. Of duplicates, it keeps one that is in use.
func changeNetworks(have, wanted []hns.Network, addresses []netip.Addr) networkChange {
	c := networkChange{unusable: map[string]string{}}
	inUse := func(n hns.Network) int { return min(len(n.Remotes), 1) }
	have = slices.SortedStableFunc(slices.Values(have), func(a, b hns.Network) int { return inUse(b) - inUse(a) })
	for _, w := range wanted {
		kept, reason := "", "it does not exist"
		for _, h := range have {
			if h.Name != w.Name || h.ID == kept {
				continue
			}
			differs := contradiction(h, w, addresses)
			switch {
			case differs == "" && kept == "":
				kept = h.ID
				continue
			case differs == "":
				differs = "it is a duplicate of " + kept
			}
			c.remove = append(c.remove, h)
			c.unusable[h.ID] = differs
			reason = "the existing one has " + differs
		}
		if kept == "" {
			c.create = append(c.create, w)
			c.why = append(c.why, reason)
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

// named finds a network by name.
func named(networks []hns.Network, name string) *hns.Network {
	for i := range networks {
		if networks[i].Name == name {
			return &networks[i]
		}
	}
	return nil
}

func byPrefix(a, b hns.RemoteSubnet) int { return a.Prefix.Compare(b.Prefix) }

// changeRemotes compares remote subnets. It ignores those with another VNI. Both results are sorted by subnet; those in remove are identical to those
// in have.
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
