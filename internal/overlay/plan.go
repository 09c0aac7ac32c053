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

// unusable is a Node whose pods are unreachable, and why.
type unusable struct {
	node string
	err  error
}

// remotes returns the remote subnets of other nodes, sorted; which Node has which subnet; and the Nodes of the overlay that are
// unusable.
func (s Settings) remotes(own Node, others []Node, held holders) (remotes []hns.RemoteSubnet, has holders, without []unusable) {
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
		var remote hns.RemoteSubnet
		if err == nil {
			remote, err = c.node.remote(c.subnet)
		}
		if err == nil && remote.Host == ownAddress {
			err = fmt.Errorf("its InternalIP %s is that of this host", remote.Host)
		}
		switch {
		case err == nil:
			remotes = append(remotes, remote)
		case !errors.Is(err, errIncomplete) && c.node.RouterMAC != "":
			without = append(without, unusable{c.node.Name, err})
		}
	}
	slices.SortFunc(remotes, byPrefix)
	return remotes, subnets.holders, without
}

// holders has the names of Nodes by their subnet. No two subnets overlap.
type holders map[netip.Prefix]string

// taken are the subnets that Nodes have.
type taken struct {
	holders holders
	ordered []netip.Prefix
}

// take gives a subnet to a Node, unless another has some of its addresses.
func (t *taken) take(subnet netip.Prefix, node string) error {
	at, _ := slices.BinarySearchFunc(t.ordered, subnet, comparePrefixes)
	for _, next := range t.ordered[max(at-1, 0):min(at+1, len(t.ordered))] {
		if next.Overlaps(subnet) {
			return fmt.Errorf("its subnet %s overlaps %s, which node %s has", subnet, next, t.holders[next])
		}
	}
	t.ordered = slices.Insert(t.ordered, at, subnet)
	t.holders[subnet] = node
	return nil
}

// holdersOf finds the Nodes of existing remote subnets.
func (s Settings) holdersOf(remotes []hns.RemoteSubnet, own Node, all []Node) holders {
	there := map[hns.RemoteSubnet]bool{}
	for _, w := range remotes {
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
		if remote, err := c.node.remote(c.subnet); err == nil && there[remote] {
			held[c.subnet] = c.node.Name
		}
	}
	return held
}

// claim is the subnet that another Node claims, or why it cannot have it.
type claim struct {
	node   Node
	subnet netip.Prefix
	err    error
}

// claims are the claims of the other Nodes, strongest first. A Node can claim the subnet of another, so annotations alone do not
// decide: the Node that has a subnet keeps it; a subnet that no Node has goes to the older Node.
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

// byAge sorts older Nodes first, and Nodes of unknown age last.
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
