package overlay

import (
	"os"
	"time"

	"github.com/windows-machine-config/wmco/internal/identity"
)

// The identity of nodes to OVN-Kubernetes, which approves such requests and lets a node change its own annotations.
const (
	userPrefix = "system:ovn-node:"
	userGroup  = "system:ovn-nodes"
)

func nameOf(node string) identity.Name {
	return identity.Name{User: userPrefix + node, Group: userGroup}
}

// readIdentity returns the certificate in a file when it is valid now, and the node's.
func readIdentity(name, node string, now time.Time) (identity.Identity, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return identity.Identity{}, err
	}
	return identity.Parse(b, nameOf(node), now)
}

// pendingRequest returns the request that is under way, or makes one with a new key.
func pendingRequest(file, node string) (identity.Pending, error) {
	read := func() ([]byte, error) { return os.ReadFile(file) }
	write := func(b []byte) error { return writeFile(file, b) }
	return identity.Ask(nameOf(node), "hybrid-overlay-node-", read, write)
}
