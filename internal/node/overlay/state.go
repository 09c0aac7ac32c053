package overlay

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// state contains the Nodes of the cluster, and what this host must publish. It implements kubeapi.Store. Three goroutines share it: one follows Nodes,
// one reconciles the networks, one publishes.
type state struct {
	own string

	mu sync.Mutex
	// nodes are all Nodes, or empty until all are known. A Node that it lacks does not exist.
	nodes map[types.NamespacedName]Node
	// mac is the address of this host's router; empty until it is known.
	mac string

	// changed receives a message when nodes have changed, macChanged when mac or the own Node has.
	changed, macChanged chan struct{}
}

func newState(own string) *state {
	return &state{own: own, nodes: map[types.NamespacedName]Node{}, changed: make(chan struct{}, 1), macChanged: make(chan struct{}, 1)}
}

// wake sends a message, unless one is pending.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// key returns the key of the own Node.
func (s *state) key() types.NamespacedName { return types.NamespacedName{Name: s.own} }

// Put implements kubeapi.Store. A Node without relevant changes is ignored: most events of Nodes are heartbeats.
func (s *state) Put(key types.NamespacedName, n Node) {
	n.Windows = n.Windows || n.Name == s.own
	s.mu.Lock()
	defer s.mu.Unlock()
	if previous, known := s.nodes[key]; known && same(previous, n) {
		return
	}
	s.nodes[key] = n
	s.notify(key)
}

// Remove implements kubeapi.Store.
func (s *state) Remove(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.nodes[key]; known {
		delete(s.nodes, key)
		s.notify(key)
	}
}

// Replace implements kubeapi.Store.
func (s *state) Replace(nodes map[types.NamespacedName]Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own, exists := nodes[s.key()]; exists {
		own.Windows = true // regardless of its label
		nodes[s.key()] = own
	}
	if maps.EqualFunc(s.nodes, nodes, same) {
		return
	}
	s.nodes = nodes
	s.notify(s.key())
}

// notify sends the messages about a Node. The caller holds the lock.
func (s *state) notify(key types.NamespacedName) {
	wake(s.changed)
	if key == s.key() {
		wake(s.macChanged)
	}
}

func same(a, b Node) bool {
	return a.Name == b.Name && a.Windows == b.Windows && a.Subnet == b.Subnet && a.LinuxSubnets == b.LinuxSubnets && a.RouterMAC == b.RouterMAC &&
		slices.Equal(a.InternalIPs, b.InternalIPs)
}

// known returns the own Node and all Nodes. It returns false while the own one is unknown or does not exist: then a missing Node must not be treated as deleted.
func (s *state) known() (own Node, all []Node, exists bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, exists = s.nodes[s.key()]
	return own, slices.Collect(maps.Values(s.nodes)), exists
}

// setMAC stores the address of this host's router.
func (s *state) setMAC(mac string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mac != s.mac {
		s.mac = mac
		wake(s.macChanged)
	}
}

// unpublishedMAC returns the address that the own Node must get, or false.
func (s *state) unpublishedMAC() (mac string, differs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, exists := s.nodes[s.key()]
	return s.mac, exists && s.mac != "" && !sameMAC(own.RouterMAC, s.mac)
}

// setPublished records that the own Node has the address. Its next event confirms that.
func (s *state) setPublished(mac string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own, exists := s.nodes[s.key()]; exists {
		own.RouterMAC = mac
		s.nodes[s.key()] = own
	}
}
