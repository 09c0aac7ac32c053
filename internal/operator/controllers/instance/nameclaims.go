package instance

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// NameClaims records which instance has which node name, so that two hosts of the same name cannot both get it by joining at the same moment, before
// either is in a status that the other can read.
type NameClaims struct {
	mu    sync.Mutex
	owner map[string]types.NamespacedName
}

// Claim assigns a node name to an instance and releases any other that it had, or returns which instance has the name.
func (n *NameClaims) Claim(node string, instance types.NamespacedName) (holder types.NamespacedName, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.owner == nil {
		n.owner = map[string]types.NamespacedName{}
	}
	if holder, taken := n.owner[node]; taken && holder != instance {
		return holder, false
	}
	n.remove(instance)
	n.owner[node] = instance
	return instance, true
}

func (n *NameClaims) release(instance types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.remove(instance)
}

func (n *NameClaims) remove(instance types.NamespacedName) {
	maps.DeleteFunc(n.owner, func(_ string, holder types.NamespacedName) bool { return holder == instance })
}
