package overlay

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/hns"
)

// Names and numbers of the hybrid overlay, which kube-proxy, the network plugin and the Linux nodes know, too.
const (
	// BaseNetwork is never used by a pod. It stays when Windows restarts, and with it the virtual switch of the host: so only the
	// first start cuts the host's connections.
	BaseNetwork = "BaseOVNKubernetesHybridOverlayNetwork"
	// Network is the one of pods.
	Network = "OVNKubernetesHybridOverlayNetwork"
	// VNI is the virtual network identifier of Network.
	VNI = 4097

	baseVNI    = VNI + 1
	baseSubnet = "100.64.0.0/30"
)

// Settings are what the networks have besides the subnet.
type Settings struct {
	// VXLANPort is the UDP port; 0 means 4789.
	VXLANPort uint16
	// Adapter is the name of the interface for the overlay; empty leaves the choice to Windows.
	Adapter string
	// Ranges are those of which nodes have their subnets.
	Ranges Ranges
}

// networks returns what a host with that subnet must have, in the order in which they are created.
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

// physical is the adapter below the virtual one that the first overlay network puts in its place, whose name is made of it: once the
// host has the network, its address is on the virtual one.
func physical(adapter string) string {
	if inner, ok := strings.CutPrefix(adapter, "vEthernet ("); ok && strings.HasSuffix(inner, ")") {
		return strings.TrimSuffix(inner, ")")
	}
	return adapter
}

// serves tells whether a network that is there can be the wanted one. What does not show from outside, or Windows chose, is not
// compared. A network without a route from the host was not finished, unless there are ways to other nodes already: those come last.
func serves(is, wanted hns.Network) bool {
	return is.Type == wanted.Type && slices.Equal(is.Subnets, wanted.Subnets) && hns.OwnVXLANPort(is.VXLANPort) == wanted.VXLANPort &&
		(is.HostRoute || !wanted.HostRoute || len(is.Remotes) > 0) &&
		(wanted.Adapter == "" || is.Adapter == "" || strings.EqualFold(is.Adapter, wanted.Adapter))
}

// networkChange is what must happen so that the wanted networks are there, once each.
type networkChange struct {
	// remove are networks of our names that cannot be used: with another subnet, port or adapter, or there twice.
	remove []hns.Network
	// create are wanted networks that are absent, in their order.
	create []hns.Network
	// why says for people, in the order of create, what was wrong.
	why []string
}

func (c networkChange) isEmpty() bool { return len(c.remove)+len(c.create) == 0 }

// changeNetworks compares. Networks of other names belong to somebody else.
func changeNetworks(have, wanted []hns.Network) networkChange {
	var c networkChange
	for _, w := range wanted {
		found, why := false, "it is not there"
		for _, h := range have {
			switch {
			case h.Name != w.Name:
			case !found && serves(h, w):
				found = true
			default:
				c.remove = append(c.remove, h)
				why = "what has its name is " + describe(h)
			}
		}
		if !found {
			c.create = append(c.create, w)
			c.why = append(c.why, why)
		}
	}
	// The network of the pods goes first: it needs the switch that the other keeps.
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

// unusable is a Node to whose pods there is no way, and why.
type unusable struct {
	node string
	err  error
}

// remotes returns the ways to the pods of other nodes, ordered by subnet, who has which subnet, and the Nodes that have no way although
// they seem to be of the overlay.
func (s Settings) remotes(own Node, others []Node, held holders) (ways []hns.RemoteSubnet, has holders, without []unusable) {
	ownAddress, _ := own.address()
	subnets := taken{holders: holders{}}
	if prefix, _, err := own.prefix(); err == nil {
		_ = subnets.take(prefix, own.Name) // the first
	}
	for _, c := range s.claims(own, others, held) {
		err := c.err
		if err == nil {
			err = subnets.take(c.subnet, c.node.Name)
		}
		var way hns.RemoteSubnet
		if err == nil {
			way, err = c.node.remote(c.subnet)
		}
		if err == nil && way.Host == ownAddress {
			err = fmt.Errorf("its InternalIP %s is that of this host", way.Host)
		}
		switch {
		case err == nil:
			ways = append(ways, way)
		case !errors.Is(err, errIncomplete) && c.node.RouterMAC != "":
			without = append(without, unusable{c.node.Name, err})
		}
	}
	slices.SortFunc(ways, byPrefix)
	return ways, subnets.holders, without
}

// holders are the names of the Nodes that have a subnet, by subnets, of which no two share addresses.
type holders map[netip.Prefix]string

// taken are subnets that are somebody's.
type taken struct {
	holders holders
	ordered []netip.Prefix
}

// take gives a subnet to a Node, unless another has some of its addresses.
func (t *taken) take(subnet netip.Prefix, node string) error {
	at, _ := slices.BinarySearchFunc(t.ordered, subnet, comparePrefixes)
	for _, next := range t.ordered[max(at-1, 0):min(at+1, len(t.ordered))] {
		if next.Overlaps(subnet) {
			return fmt.Errorf("its subnet %s shares addresses with %s, which node %s has", subnet, next, t.holders[next])
		}
	}
	t.ordered = slices.Insert(t.ordered, at, subnet)
	t.holders[subnet] = node
	return nil
}

// holdersOf tells whose the ways are that were there before.
func (s Settings) holdersOf(ways []hns.RemoteSubnet, own Node, all []Node) holders {
	there := map[hns.RemoteSubnet]bool{}
	for _, w := range ways {
		if mac, err := parseMAC(w.RouterMAC); err == nil {
			w.RouterMAC = mac
		}
		there[w] = true
	}
	held := holders{}
	for _, c := range s.claims(own, all, nil) {
		if _, isHeld := held[c.subnet]; c.err != nil || isHeld {
			continue
		}
		if way, err := c.node.remote(c.subnet); err == nil && there[way] {
			held[c.subnet] = c.node.Name
		}
	}
	return held
}

// claim is the subnet that another Node says it has, or why it cannot have it.
type claim struct {
	node   Node
	subnet netip.Prefix
	err    error
}

// claims are those of the other Nodes in the order in which they count. A Node can claim what is another's, so whose it is does not
// follow from what Nodes say now: who holds the subnet keeps it, and where nobody does, the older Node has it.
func (s Settings) claims(own Node, others []Node, held holders) (all []claim) {
	for _, n := range others {
		if n.Name == own.Name {
			continue
		}
		subnet, hybrid, err := n.prefix()
		if err == nil {
			err = s.Ranges.check(subnet, hybrid)
		}
		all = append(all, claim{n, subnet, err})
	}
	slices.SortFunc(all, func(a, b claim) int {
		if aHolds, bHolds := held[a.subnet] == a.node.Name, held[b.subnet] == b.node.Name; aHolds != bHolds {
			return firstIf(aHolds)
		}
		return cmp.Or(byAge(a.node, b.node), cmp.Compare(a.node.Name, b.node.Name))
	})
	return all
}

// byAge compares Nodes so that the older one comes first, and one whose age is not known last.
func byAge(a, b Node) int {
	if a.Created.IsZero() != b.Created.IsZero() {
		return firstIf(!a.Created.IsZero())
	}
	return a.Created.Compare(b.Created)
}

func firstIf(first bool) int {
	if first {
		return -1
	}
	return 1
}

func byPrefix(a, b hns.RemoteSubnet) int { return comparePrefixes(a.Prefix, b.Prefix) }

// comparePrefixes compares by the first address, then by length, so that prefixes which share addresses are neighbors.
func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// changeRemotes compares the ways to other nodes. Those with another VNI belong to somebody else. What goes is given as it is there.
// Both are ordered by subnet.
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
