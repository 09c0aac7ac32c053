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

// A Manager computes the annotations that the cluster manager writes on Nodes: it assigns subnets, and to Linux nodes also an ID and an
// address on the transit switch. Its caller reads and writes the Nodes.
type Manager struct {
	config          Config
	cluster, hybrid *pool
	ids             idPool
	known           map[string]knownNode
	waiting         map[string]bool // nodes for which no subnet was free
}

type knownNode struct {
	uid    types.UID
	hybrid bool // whether the node belonged to the hybrid overlay
}

// Changes are annotations to write. An annotation with value nil is removed.
type Changes map[string]*string

// NewManager returns a Manager that keeps the subnets and IDs of existing Nodes. The error is an *ExitError.
func NewManager(c Config, nodes []corev1.Node) (*Manager, error) {
	m := &Manager{config: c, ids: idPool{next: firstID, owners: map[int]string{}}, known: map[string]knownNode{}, waiting: map[string]bool{}}
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

// isHybrid reports whether a node belongs to the hybrid overlay instead of OVN.
func (m *Manager) isHybrid(n *corev1.Node) bool {
	return m.config.NoHostSubnet != nil && m.config.NoHostSubnet.Matches(labels.Set(n.Labels))
}

// Sync returns the annotations to write on each Node. It checks a Node that is new, that lacks an annotation, or that moved
// between OVN and the hybrid overlay; it does not revert later changes by others. It checks Nodes for which no subnet was free
// again only if retry is set. The error is an *ExitError.
func (m *Manager) Sync(nodes []corev1.Node, retry bool) (map[string]Changes, error) {
	m.releaseDeleted(nodes)
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
				m.assignHybrid(n, retry, changes)
			}
		} else {
			m.assignID(n, changes)
			if !now.hybrid && (!known || before.hybrid || !m.hasFamilies(nodeSubnets(n))) {
				m.assignCluster(n, changes)
			}
		}
		if len(changes) > 0 {
			all[n.Name] = changes
		}
	}
	return all, nil
}

// releaseDeleted releases the subnets and IDs of deleted Nodes, including those of Nodes that have been created again.
func (m *Manager) releaseDeleted(nodes []corev1.Node) {
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

// leaveCluster removes the subnets of a node that has left OVN since the last Sync. The cluster manager keeps its ID and its address on
// the transit switch, and the subnets of nodes that left before it started.
func (m *Manager) leaveCluster(n *corev1.Node, left bool, changes Changes) {
	if left && n.Annotations[NodeSubnetsAnnotation] != "" {
		m.cluster.release(n.Name)
		changes[NodeSubnetsAnnotation] = nil
	}
}

// assignHybrid keeps the subnet of a Windows node if it is valid, and assigns one otherwise. The hybrid overlay supports only IPv4.
func (m *Manager) assignHybrid(n *corev1.Node, retry bool, changes Changes) {
	if !m.hybrid.has(true) || m.waiting[n.Name] && !retry {
		return
	}
	subnet, ok := hybridSubnet(n)
	if !ok || !m.hybrid.keep(n.Name, subnet) {
		if subnet, ok = m.hybrid.assign(n.Name, true); !ok {
			m.waiting[n.Name] = true
			return
		}
	}
	delete(m.waiting, n.Name)
	if n.Annotations[SubnetAnnotation] != subnet.String() {
		changes.set(SubnetAnnotation, subnet.String())
	}
}

// assignID assigns an ID to a node, and the address on the transit switch that follows from it.
func (m *Manager) assignID(n *corev1.Node, changes Changes) {
	id, err := strconv.Atoi(n.Annotations[NodeIDAnnotation])
	if err != nil || !m.ids.keep(n.Name, id) {
		id = m.ids.assign(n.Name)
		changes.set(NodeIDAnnotation, strconv.Itoa(id))
	}
	if n.Annotations[TransitAnnotation] == "" || changes[NodeIDAnnotation] != nil {
		changes.set(TransitAnnotation, m.transit(id))
	}
}

// transit returns the addresses of an ID on the transit switch, in the address families of the cluster, as JSON.
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

// hasFamilies reports whether subnets has exactly one subnet for each address family of the cluster.
func (m *Manager) hasFamilies(subnets []netip.Prefix) bool {
	var v4, v6 int
	for _, s := range subnets {
		if s.Addr().Is4() {
			v4++
		} else {
			v6++
		}
	}
	want := func(is4 bool) int { return map[bool]int{true: 1}[m.cluster.has(is4)] }
	return v4 == want(true) && v6 == want(false)
}

// assignCluster assigns the missing subnets to a Linux node.
func (m *Manager) assignCluster(n *corev1.Node, changes Changes) {
	var subnets []netip.Prefix
	before := nodeSubnets(n)
	for _, is4 := range []bool{true, false} {
		i := slices.IndexFunc(before, func(p netip.Prefix) bool { return p.Addr().Is4() == is4 })
		switch {
		case !m.cluster.has(is4):
		case i >= 0 && m.cluster.keep(n.Name, before[i]):
			subnets = append(subnets, before[i])
		default:
			subnet, ok := m.cluster.assign(n.Name, is4)
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

// hybridSubnet returns the subnet in a Node's annotation, with the host bits cleared.
func hybridSubnet(n *corev1.Node) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(n.Annotations[SubnetAnnotation])
	return p.Masked(), err == nil && p.Addr().Is4()
}

// nodeSubnets returns the subnets of a Linux node in the default network.
func nodeSubnets(n *corev1.Node) []netip.Prefix {
	var networks map[string][]netip.Prefix
	if json.Unmarshal([]byte(n.Annotations[NodeSubnetsAnnotation]), &networks) != nil {
		return nil
	}
	return networks["default"]
}

// firstID is the ID of the first node. OVN-Kubernetes reserves 1.
const firstID = 2

// An idPool assigns IDs to owners. It does not reuse a released ID at once.
type idPool struct {
	next   int
	owners map[int]string
}

func (s *idPool) keep(owner string, id int) bool {
	s.owners[id] = cmp.Or(s.owners[id], owner)
	return s.owners[id] == owner
}

// assign returns the ID of an owner, or assigns the next free one.
func (s *idPool) assign(owner string) int {
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

func (s *idPool) release(owner string) {
	for id, other := range s.owners {
		if other == owner {
			delete(s.owners, id)
		}
	}
}
