package host

import (
	"context"

	"github.com/windows-machine-config/wmco/internal/hns"
)

// Networks is Windows' Host Network Service. Other programs of the host change it at the same time: the overlay, kube-proxy,
// and the network plugins of containerd. Calls that fail give the errors of package hns where one of them fits; a service that
// does not answer before ctx ends is hns.ErrUnavailable, too.
type Networks interface {
	// Look returns everything that the service has, each kind ordered by ID. A service that does not answer is
	// hns.ErrUnavailable, and never a state without objects; a Windows that has no such service at all has no objects.
	Look(ctx context.Context) (hns.State, error)
	// LookClosely is Look by the second generation of Windows' API, which reads each object by itself: it takes long where there are
	// thousands. Endpoints whose IDs are given are looked for by these, too.
	LookClosely(ctx context.Context, endpoints []string) (hns.State, error)
	// CreateEndpoint makes an endpoint on the network that e.Network names and returns it as it is then, with ID, MAC, and an
	// address of the network's first subnet when e has none. One with Host is attached to the host's compartment before it
	// returns; when that fails, there is no endpoint. When the network has one of that name, or another has its address, that is
	// hns.ErrExists and nothing changes; an absent network is hns.ErrNotFound.
	CreateEndpoint(ctx context.Context, e hns.Endpoint) (hns.Endpoint, error)
	// Remove removes the load balancers, endpoints and networks of a state by their IDs, in this order, and looks at nothing
	// else of them. Absent ones are no error. It goes on after a failure and tells all of them. Removing the last overlay cuts
	// the connections of the host for some seconds.
	Remove(ctx context.Context, s hns.State) error
	// Watch sends whenever the service has stopped or started, until ctx is done; then it closes the channel. Several changes
	// may become one message, and there may be messages without a change.
	Watch(ctx context.Context) (<-chan struct{}, error)
}
