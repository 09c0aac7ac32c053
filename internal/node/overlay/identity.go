package overlay

import (
	"os"

	"github.com/windows-machine-config/wmco/internal/node/identity"
)

// The identity of nodes in OVN-Kubernetes, which approves such requests and lets a node change its own annotations.
const (
	userPrefix = "system:ovn-node:"
	userGroup  = "system:ovn-nodes"
)

func nameOf(node string) identity.Name {
	return identity.Name{User: userPrefix + node, Group: userGroup}
}

// certificateFiles stores the node's certificate and the request for the next one. It implements identity.Store.
type certificateFiles struct{}

// Read implements identity.Store.
func (certificateFiles) Read(name string) ([]byte, error) { return readFile(name) }

// Write implements identity.Store.
func (certificateFiles) Write(name string, content []byte) error { return writeFile(name, content) }

// Remove implements identity.Store.
func (certificateFiles) Remove(name string) error { return os.Remove(name) }
