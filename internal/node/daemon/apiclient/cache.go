package apiclient

import (
	"crypto/x509"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/identity"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// Cache holds the connection to the API server. A new session with the same identity reuses it: when a thousand nodes follow a change, a thousand
// handshakes would be most of the work.
type Cache struct {
	// Clock is the API server's clock, read from its responses.
	Clock Clock

	client *Client
	server wicdapi.Bootstrap
	leaf   *x509.Certificate
}

// Get returns a client for this server and identity.
func (n *Cache) Get(h hostapi.Host, server wicdapi.Bootstrap, id identity.Identity) (*Client, error) {
	if n.client != nil && n.server == server && n.leaf.Equal(id.Leaf) {
		return n.client, nil
	}
	client, err := newClient(h, server, credential{certificate: &id.Certificate}, &n.Clock)
	if err != nil {
		return nil, err
	}
	n.Close()
	n.client, n.server, n.leaf = client, server, id.Leaf
	return client, nil
}

// Close closes the connection, if there is one.
func (n *Cache) Close() {
	if n.client != nil {
		n.client.Close()
	}
}
