package overlay

import (
	"maps"
	"slices"
	"sync"
)

// state is what is known of the cluster, and what the cluster is to be told of this host. One goroutine follows Nodes, one keeps the
// networks, one tells.
type state struct {
	own string

	mu sync.Mutex
	// nodes are all Nodes, or none while not all are known: a Node that is not among them does not exist.
	nodes map[string]Node
	// mac of this host's router, empty while it is not known.
	mac string

	// changed has a message when nodes are others than before, unreported when mac or the own Node is.
	changed, unreported chan struct{}
}

func newState(own string) *state {
	return &state{own: own, nodes: map[string]Node{}, changed: make(chan struct{}, 1), unreported: make(chan struct{}, 1)}
}

// wake leaves a message, unless there is one.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// put takes notice of a Node. Nothing happens when it says what it said before: most changes of Nodes are heartbeats.
func (s *state) put(n Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, known := s.nodes[n.Name]; known && same(was, n) {
		return
	}
	s.nodes[n.Name] = n
	s.tell(n.Name)
}

func (s *state) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.nodes[name]; known {
		delete(s.nodes, name)
		s.tell(name)
	}
}

// replace takes notice of all Nodes at once.
func (s *state) replace(nodes map[string]Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if maps.EqualFunc(s.nodes, nodes, same) {
		return
	}
	s.nodes = nodes
	s.tell(s.own)
}

// tell leaves messages about a Node. The caller holds the lock.
func (s *state) tell(name string) {
	wake(s.changed)
	if name == s.own {
		wake(s.unreported)
	}
}

func same(a, b Node) bool {
	return a.Name == b.Name && a.Windows == b.Windows && a.Subnet == b.Subnet && a.LinuxSubnets == b.LinuxSubnets && a.RouterMAC == b.RouterMAC &&
		slices.Equal(a.InternalIPs, b.InternalIPs) && a.Created.Equal(b.Created)
}

// known returns the own Node and all Nodes. It returns false while the own one is not known, or does not exist: then nothing follows
// from what is not there.
func (s *state) known() (own Node, all []Node, exists bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, exists = s.nodes[s.own]
	return own, slices.Collect(maps.Values(s.nodes)), exists
}

// setMAC takes notice of the address of this host's router.
func (s *state) setMAC(mac string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mac != s.mac {
		s.mac = mac
		wake(s.unreported)
	}
}

// toTell returns the address that the own Node does not have and should, or false.
func (s *state) toTell() (mac string, differs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, exists := s.nodes[s.own]
	return s.mac, exists && s.mac != "" && !sameMAC(own.RouterMAC, s.mac)
}

// told takes notice that the own Node has the address, which its next event will show.
func (s *state) told(mac string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own, exists := s.nodes[s.own]; exists {
		own.RouterMAC = mac
		s.nodes[s.own] = own
	}
}
