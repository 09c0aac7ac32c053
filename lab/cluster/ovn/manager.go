package ovn

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// A Manager does what the cluster manager does for Nodes: it gives them subnets, and Linux nodes an ID and an address at the transit
// switch as well. It only decides: its caller reads and writes Nodes.
type Manager struct {
	config          Config
	cluster, hybrid *pool
	ids             numbers
	known           map[string]knownNode
	waiting         map[string]bool // for a subnet: none is free
}

type knownNode struct {
	uid    types.UID
	hybrid bool // whether it was a node of the hybrid overlay
}

// Changes are annotations to write; nil removes one.
type Changes map[string]*string

// NewManager starts with the Nodes that exist. The error is an *ExitError.
func NewManager(c Config, nodes []corev1.Node) (*Manager, error) {
	m := &Manager{config: c, ids: numbers{next: firstID, owners: map[int]string{}}, known: map[string]knownNode{}, waiting: map[string]bool{}}
	var err error
	if m.cluster, err = newPool(c.Cluster); err != nil {
		return nil, err
	}
	if m.hybrid, err = newPool(c.Hybrid); err != nil {
		return nil, err
	}
	for i := range nodes {
		n := &nodes[i]
		if id, err := strconv.Atoi(n.Annotations[NodeIDAnnotation]); err == nil {
			m.ids.owners[id] = n.Name
		}
		if m.isHybrid(n) {
			if subnet, ok := hybridSubnet(n); ok {
				m.hybrid.keep(n.Name, subnet)
			}
			continue
		}
		for _, subnet := range nodeSubnets(n) {
			m.cluster.keep(n.Name, subnet)
		}
	}
	return m, nil
}

// isHybrid reports whether a node is not OVN's.
func (m *Manager) isHybrid(n *corev1.Node) bool {
	return m.config.NoHostSubnet != nil && m.config.NoHostSubnet.Matches(labels.Set(n.Labels))
}

// Sync decides what to write on each Node. A Node is judged when it is new, when it lacks an annotation and when it changes sides: what
// others write later stays. Nodes for which no subnet was free are judged again only with retry. The error is an *ExitError.
func (m *Manager) Sync(nodes []corev1.Node, retry bool) (map[string]Changes, error) {
	m.forgetAllBut(nodes)
	all := map[string]Changes{}
	for i := range nodes {
		n := &nodes[i]
		before, known := m.known[n.Name]
		now := knownNode{n.UID, m.isHybrid(n)}
		m.known[n.Name] = now
		changes := Changes{}
		if now.hybrid && m.config.HybridOverlay {
			if len(m.config.Hybrid) == 0 {
				return all, &ExitError{Code: 2, Text: "hybrid overlay has no range for node " + n.Name}
			}
			m.leaveCluster(n, known && !before.hybrid, changes)
			_, ok := n.Annotations[SubnetAnnotation]
			if !known || !ok {
				m.giveHybrid(n, retry, changes)
			}
		} else {
			m.identify(n, changes)
			if !now.hybrid && (!known || before.hybrid || !m.hasFamilies(nodeSubnets(n))) {
				m.giveCluster(n, changes)
			}
		}
		if len(changes) > 0 {
			all[n.Name] = changes
		}
	}
	return all, nil
}

// forgetAllBut releases what deleted Nodes had, those that exist again as well.
func (m *Manager) forgetAllBut(nodes []corev1.Node) {
	for name, k := range m.known {
		if slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == name && n.UID == k.uid }) {
			continue
		}
		m.cluster.release(name)
		m.hybrid.release(name)
		m.ids.release(name)
		delete(m.known, name)
		delete(m.waiting, name)
	}
}

// leaveCluster removes the subnets of a node that was OVN's a moment ago. Its ID and its address at the transit switch stay, as do
// subnets of a time before the start.
func (m *Manager) leaveCluster(n *corev1.Node, left bool, changes Changes) {
	if left && n.Annotations[NodeSubnetsAnnotation] != "" {
		m.cluster.release(n.Name)
		changes[NodeSubnetsAnnotation] = nil
	}
}

// giveHybrid keeps a valid subnet, and else gives one. There is IPv4 only.
func (m *Manager) giveHybrid(n *corev1.Node, retry bool, changes Changes) {
	if !m.hybrid.has(true) || m.waiting[n.Name] && !retry {
		return
	}
	subnet, ok := hybridSubnet(n)
	if !ok || !m.hybrid.keep(n.Name, subnet) {
		if subnet, ok = m.hybrid.give(n.Name, true); !ok {
			m.waiting[n.Name] = true
			return
		}
	}
	delete(m.waiting, n.Name)
	if n.Annotations[SubnetAnnotation] != subnet.String() {
		changes.set(SubnetAnnotation, subnet.String())
	}
}

// identify gives a node an ID, and the address at the transit switch that goes with it.
func (m *Manager) identify(n *corev1.Node, changes Changes) {
	id, err := strconv.Atoi(n.Annotations[NodeIDAnnotation])
	if err != nil || !m.ids.keep(n.Name, id) {
		id = m.ids.give(n.Name)
		changes.set(NodeIDAnnotation, strconv.Itoa(id))
	}
	if n.Annotations[TransitAnnotation] == "" || changes[NodeIDAnnotation] != nil {
		changes.set(TransitAnnotation, m.transit(id))
	}
}

// transit is the address of an ID at the transit switch, in the families of the cluster.
func (m *Manager) transit(id int) string {
	addresses := map[string]string{}
	for _, p := range m.config.Transit {
		address := p.Addr()
		if !m.cluster.has(address.Is4()) {
			continue
		}
		for range id {
			address = address.Next()
		}
		addresses[map[bool]string{true: "ipv4", false: "ipv6"}[address.Is4()]] = fmt.Sprintf("%s/%d", address, p.Bits())
	}
	text, _ := json.Marshal(addresses)
	return string(text)
}

// hasFamilies reports whether there is one subnet for each address family of the cluster.
func (m *Manager) hasFamilies(subnets []netip.Prefix) bool {
	var v4, v6 int
	for _, s := range subnets {
		if s.Addr().Is4() {
			v4++
		} else {
			v6++
		}
	}
	wanted := func(is4 bool) int { return map[bool]int{true: 1}[m.cluster.has(is4)] }
	return v4 == wanted(true) && v6 == wanted(false)
}

// giveCluster gives a Linux node the subnets that it lacks.
func (m *Manager) giveCluster(n *corev1.Node, changes Changes) {
	var subnets []netip.Prefix
	before := nodeSubnets(n)
	for _, is4 := range []bool{true, false} {
		i := slices.IndexFunc(before, func(p netip.Prefix) bool { return p.Addr().Is4() == is4 })
		switch {
		case !m.cluster.has(is4):
		case i >= 0 && m.cluster.keep(n.Name, before[i]):
			subnets = append(subnets, before[i])
		default:
			subnet, ok := m.cluster.give(n.Name, is4)
			if !ok {
				return
			}
			subnets = append(subnets, subnet)
		}
	}
	if !slices.Equal(subnets, before) {
		text, _ := json.Marshal(map[string][]netip.Prefix{"default": subnets})
		changes.set(NodeSubnetsAnnotation, string(text))
	}
}

func (c Changes) set(key, value string) { c[key] = &value }

// hybridSubnet is the subnet in a Node's annotation; an address becomes that of its subnet.
func hybridSubnet(n *corev1.Node) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(n.Annotations[SubnetAnnotation])
	return p.Masked(), err == nil && p.Addr().Is4()
}

// nodeSubnets are the subnets of a Linux node in the default network.
func nodeSubnets(n *corev1.Node) []netip.Prefix {
	var networks map[string][]netip.Prefix
	if json.Unmarshal([]byte(n.Annotations[NodeSubnetsAnnotation]), &networks) != nil {
		return nil
	}
	return networks["default"]
}

// firstID is the ID of the first node: 1 is that of the cluster's own.
const firstID = 2

// numbers are IDs and their owners. One that was released is not given again at once.
type numbers struct {
	next   int
	owners map[int]string
}

func (s *numbers) keep(owner string, id int) bool {
	s.owners[id] = cmp.Or(s.owners[id], owner)
	return s.owners[id] == owner
}

// give returns the ID of an owner, or the next free one.
func (s *numbers) give(owner string) int {
	for id, other := range s.owners {
		if other == owner {
			return id
		}
	}
	for s.owners[s.next] != "" {
		s.next++
	}
	s.owners[s.next] = owner
	s.next++
	return s.next - 1
}

func (s *numbers) release(owner string) {
	for id, other := range s.owners {
		if other == owner {
			delete(s.owners, id)
		}
	}
}
