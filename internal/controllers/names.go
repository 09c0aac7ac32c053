package controllers

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// names remembers which instance has which node name, so that two hosts with the same name that join in the
// same moment, before either is in a status that the other can read, do not both get it.
type names struct {
	mu    sync.Mutex
	owner map[string]types.NamespacedName
}

// claim gives a node name to an instance, or says which instance has it.
func (n *names) claim(node string, who types.NamespacedName) (holder types.NamespacedName, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.owner == nil {
		n.owner = map[string]types.NamespacedName{}
	}
	if holder, taken := n.owner[node]; taken && holder != who {
		return holder, false
	}
	n.owner[node] = who
	return who, true
}

// release gives back every name of an instance.
func (n *names) release(who types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for node, holder := range n.owner {
		if holder == who {
			delete(n.owner, node)
		}
	}
}
