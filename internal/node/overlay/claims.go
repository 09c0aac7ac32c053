package overlay

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// claim is the subnet that a Node claims. A kubelet may write the annotation of its own Node, so a claim alone decides nothing.
type claim struct {
	node Node
	// subnet is not valid if the Node has no readable one.
	subnet netip.Prefix
	hybrid bool
	// err is why the Node cannot have the subnet.
	err error
}

// claims returns the claims of all Nodes, each Node once, sorted by subnet and name.
func (r Ranges) claims(own Node, others []Node) []claim {
	all := make([]claim, 0, len(others)+1)
	for i := range len(others) + 1 {
		n := own
		if i < len(others) {
			if n = others[i]; n.Name == own.Name {
				continue
			}
		}
		c := claim{node: n}
		if c.subnet, c.hybrid, c.err = n.prefix(); c.err == nil {
			c.err = r.check(c.subnet, c.hybrid)
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b claim) int {
		return cmp.Or(a.subnet.Compare(b.subnet), cmp.Compare(a.node.Name, b.node.Name))
	})
	return all
}

// holders maps each subnet to the name of the Node that has it. No two subnets overlap.
type holders map[netip.Prefix]string

// settle decides which Nodes have their subnet, and sets err of all other claims. claims are sorted.
//
// A Node that has its subnet keeps it. The rest are claims that no one held before. A claim that contains subnets of several other Nodes is refused,
// because those are more likely to be right. Of other overlapping claims, it is unknown which is right, and all are refused.
func settle(claims []claim, held holders) holders {
	existing := held.kept(claims)
	taken := existing.subnets()
	var open []*claim
	for i := range claims {
		c := &claims[i]
		if c.err != nil || existing[c.subnet] == c.node.Name {
			continue
		}
		if other, overlaps := overlapping(taken, c.subnet); overlaps {
			c.err = fmt.Errorf("its subnet %s overlaps %s, which node %s has", c.subnet, other, existing[other])
			continue
		}
		open = append(open, c)
	}
	for _, c := range settleOpen(open) {
		existing[c.subnet] = c.node.Name
	}
	return existing
}

// kept returns the holders that still exist. A Node that is gone, or has another subnet, no longer holds its former one.
func (h holders) kept(claims []claim) holders {
	subnets := make(map[string]netip.Prefix, len(claims))
	for i := range claims {
		if c := &claims[i]; c.err == nil || !c.subnet.IsValid() {
			subnets[c.node.Name] = c.subnet
		}
	}
	kept := make(holders, len(h))
	for subnet, node := range h {
		if now, exists := subnets[node]; exists && (now == subnet || !now.IsValid()) {
			kept[subnet] = node
		}
	}
	return kept
}

// add adds the holders of subnets that do not overlap existing ones.
func (h holders) add(more holders) {
	taken := h.subnets()
	for _, subnet := range more.subnets() {
		if _, overlaps := overlapping(taken, subnet); !overlaps {
			at, _ := slices.BinarySearchFunc(taken, subnet, netip.Prefix.Compare)
			taken = slices.Insert(taken, at, subnet)
			h[subnet] = more[subnet]
		}
	}
}

// subnets returns the subnets, sorted.
func (h holders) subnets() []netip.Prefix {
	return slices.SortedFunc(maps.Keys(h), netip.Prefix.Compare)
}

// overlapping finds a subnet that overlaps in a sorted list of disjoint subnets.
func overlapping(sorted []netip.Prefix, subnet netip.Prefix) (netip.Prefix, bool) {
	at, _ := slices.BinarySearchFunc(sorted, subnet, netip.Prefix.Compare)
	for _, near := range sorted[max(at-1, 0):min(at+1, len(sorted))] {
		if near.Overlaps(subnet) {
			return near, true
		}
	}
	return netip.Prefix{}, false
}

// claimed is a subnet that Nodes claim.
type claimed struct {
	subnet netip.Prefix
	by     []*claim
	parent *claimed
	// inside are the subnets directly within this one.
	inside []*claimed
	// several is true if two subnets within this one do not overlap.
	several bool
}

// settleOpen returns the claims that are granted, and sets err of the others. open is sorted.
func settleOpen(open []*claim) (granted []*claim) {
	all := nest(open)
	for _, c := range slices.Backward(all) { // inner subnets first
		c.several = c.several || len(c.inside) > 1
		if c.several && c.parent != nil {
			c.parent.several = true
		}
	}
	for _, c := range all {
		if c.several {
			for _, refused := range c.by {
				refused.err = fmt.Errorf("its subnet %s overlaps those of several other nodes, such as %s of node %s",
					c.subnet, c.inside[0].subnet, c.inside[0].by[0].node.Name)
			}
			continue
		}
		if c.parent != nil && !c.parent.several {
			continue // decided with its parent
		}
		together := slices.Clone(c.by)
		for within := c.inside; len(within) > 0; within = within[0].inside {
			together = append(together, within[0].by...)
		}
		if len(together) == 1 {
			granted = append(granted, together[0])
			continue
		}
		for i, refused := range together {
			other := together[(i+1)%len(together)]
			refused.err = fmt.Errorf("its subnet %s overlaps %s, which node %s claims, and it is unknown which had it first",
				refused.subnet, other.subnet, other.node.Name)
		}
	}
	return granted
}

// nest groups claims by their subnet, and finds which subnets are within others. open is sorted, and so is the result.
func nest(open []*claim) (all []*claimed) {
	var around *claimed
	for _, c := range open {
		if n := len(all); n > 0 && all[n-1].subnet == c.subnet {
			all[n-1].by = append(all[n-1].by, c)
			continue
		}
		for around != nil && !around.subnet.Overlaps(c.subnet) {
			around = around.parent
		}
		item := &claimed{subnet: c.subnet, by: []*claim{c}, parent: around}
		if around != nil {
			around.inside = append(around.inside, item)
		}
		all, around = append(all, item), item
	}
	return all
}

// neighbor is another Node with a problem to report.
type neighbor struct {
	node string
	err  error
}

// decision is the result of deciding on the Nodes.
type decision struct {
	// remotes are the remote subnets of other nodes, sorted.
	remotes []hns.RemoteSubnet
	holders holders
	// refused are the Nodes of the overlay to which this host has no route; limited are those to which other nodes have none, or cannot have one.
	refused, limited []neighbor
	// own is why other nodes have no route to the pods of this host.
	own error
}

// decide decides which remote subnets this host has. The result does not depend on the order of the Nodes.
func (s Settings) decide(own Node, others []Node, held holders) decision {
	claims := s.Ranges.claims(own, others)
	d := decision{holders: settle(claims, held)}
	d.own = s.ownProblem(own, claims)
	ownSubnet, _, _ := own.prefix()
	ownAddress, _ := own.address()
	addresses := map[netip.Addr]string{}
	for i := range claims {
		c := &claims[i]
		if c.node.Name == own.Name {
			continue
		}
		remote, err := c.remote(ownSubnet, ownAddress)
		switch {
		case err == nil:
			d.remotes = append(d.remotes, remote)
			if other, twice := addresses[remote.Host]; twice {
				d.limited = append(d.limited, neighbor{c.node.Name, fmt.Errorf("its InternalIP %s is also that of node %s", remote.Host, other)})
			}
			addresses[remote.Host] = c.node.Name
			if err := s.unrouted(*c); err != nil {
				d.limited = append(d.limited, neighbor{c.node.Name, err})
			}
		case !errors.Is(err, errIncomplete) && c.node.RouterMAC != "":
			d.refused = append(d.refused, neighbor{c.node.Name, err})
		}
	}
	slices.SortFunc(d.refused, byNode)
	slices.SortFunc(d.limited, byNode)
	return d
}

func byNode(a, b neighbor) int { return cmp.Compare(a.node, b.node) }

// remote returns the remote subnet of another Node. This host cannot have a route to a part of its own subnet, or to itself.
func (c *claim) remote(ownSubnet netip.Prefix, ownAddress netip.Addr) (hns.RemoteSubnet, error) {
	if c.err != nil {
		return hns.RemoteSubnet{}, c.err
	}
	if c.subnet.Overlaps(ownSubnet) {
		return hns.RemoteSubnet{}, fmt.Errorf("its subnet %s overlaps %s, the subnet of this node", c.subnet, ownSubnet)
	}
	remote, err := c.node.remote(c.subnet)
	if err == nil && remote.Host == ownAddress {
		err = fmt.Errorf("its InternalIP %s is that of this node", remote.Host)
	}
	return remote, err
}

// ownProblem returns why other nodes refuse the subnet of this one. They use the same rules.
func (s Settings) ownProblem(own Node, claims []claim) error {
	at := slices.IndexFunc(claims, func(c claim) bool { return c.node.Name == own.Name })
	err := claims[at].err
	if err == nil {
		_, err = own.address()
	}
	if err == nil {
		err = s.unrouted(claims[at])
	}
	if errors.Is(err, errIncomplete) {
		return nil
	}
	return err
}

// unrouted returns why Linux nodes have no route to a subnet.
func (s Settings) unrouted(c claim) error {
	if !c.hybrid || s.Ranges.isRouted(c.subnet) {
		return nil
	}
	return fmt.Errorf("its subnet %s is not in %s: OVN-Kubernetes routes only the first range of the hybrid cluster network to Linux nodes",
		c.subnet, s.Ranges.Hybrid[0])
}

// holdersOf finds the Nodes of existing remote subnets. If several Nodes have the same, it is unknown which one held it.
func (s Settings) holdersOf(remotes []hns.RemoteSubnet, own Node, others []Node) holders {
	existing := map[hns.RemoteSubnet]bool{}
	for _, r := range remotes {
		if mac, err := parseMAC(r.RouterMAC); err == nil {
			r.RouterMAC = mac
		}
		existing[r] = true
	}
	found, several := holders{}, map[netip.Prefix]bool{}
	for _, c := range s.Ranges.claims(own, others) {
		if c.err != nil {
			continue
		}
		if remote, err := c.node.remote(c.subnet); err != nil || !existing[remote] {
			continue
		}
		_, twice := found[c.subnet]
		several[c.subnet] = twice
		found[c.subnet] = c.node.Name
	}
	for subnet, twice := range several {
		if twice {
			delete(found, subnet)
		}
	}
	held := holders{}
	held.add(found)
	return held
}
