package overlay

import (
	"os"
	"path/filepath"

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

// certificateFiles stores the node's certificate and the request for the next one in a folder. It implements identity.Store.
type certificateFiles struct{ dir string }

func (f certificateFiles) current() string { return filepath.Join(f.dir, currentFile) }
func (f certificateFiles) pending() string { return filepath.Join(f.dir, pendingFile) }

// ReadIdentity implements identity.Store.
func (f certificateFiles) ReadIdentity() ([]byte, error) { return os.ReadFile(f.current()) }

// WriteIdentity implements identity.Store.
func (f certificateFiles) WriteIdentity(b []byte) error { return writeFile(f.current(), b) }

// ReadPending implements identity.Store.
func (f certificateFiles) ReadPending() ([]byte, error) { return os.ReadFile(f.pending()) }

// WritePending implements identity.Store.
func (f certificateFiles) WritePending(b []byte) error { return writeFile(f.pending(), b) }

// RemovePending implements identity.Store.
func (f certificateFiles) RemovePending() error { return os.Remove(f.pending()) }
