package overlay

import (
	"context"
	"net/netip"

	"github.com/windows-machine-config/wmco/internal/hns"
	"github.com/windows-machine-config/wmco/internal/hostnetwork"
)

// HNS is the part of Windows' Host Network Service that an overlay needs. Calls return the errors of package hns where one of them
// applies. A service that does not answer is hns.ErrUnavailable, never an empty list of networks.
type HNS interface {
	// Networks returns all networks with their remote subnets, those of other programs, too.
	Networks(ctx context.Context) ([]hns.Network, error)
	// CreateNetwork creates a network and returns it. Windows sets RouterMAC and ManagementIP a while later; after an error there may
	// be a network without them. A VXLAN port that this build of Windows cannot set is an error. Where Windows refuses the host's route, the
	// result has none (HostRoute). A network for which Windows finds no adapter is hns.ErrAdapter.
	//
	// The first overlay network of a host cuts its connections for up to a minute, because the adapter's address moves to a virtual one.
	CreateNetwork(ctx context.Context, n hns.Network) (hns.Network, error)
	// DeleteNetwork removes a network with its endpoints. A missing one is hns.ErrNotFound. Without its last overlay network, the host gets
	// its adapter back, which cuts its connections again.
	DeleteNetwork(ctx context.Context, id string) error
	// AddRemotes adds the subnets of other hosts to a network, given by its ID, in one request. RemoveRemotes removes them; each must
	// be as in Network.Remotes, and a missing one is no error. A network that does not exist is hns.ErrNotFound.
	AddRemotes(ctx context.Context, network string, remotes []hns.RemoteSubnet) error
	RemoveRemotes(ctx context.Context, network string, remotes []hns.RemoteSubnet) error
}

// HostRouter adds to a network the host's own route to its endpoints, which Windows may have refused when the network was created.
type HostRouter interface {
	AddHostRoute(ctx context.Context, network string) error
}

// Finder finds a network by its ID in another way than Networks: by the first generation of the API.
type Finder interface {
	HasNetwork(ctx context.Context, id string) (bool, error)
}

// Watcher reports when the Host Network Service has stopped or started: then it may have lost its networks.
type Watcher interface {
	// Watch sends a message each time, until ctx is done; then it closes the channel.
	Watch(ctx context.Context) (<-chan struct{}, error)
}

// Adapters are the network interfaces of this host.
type Adapters interface {
	// Adapters returns the interfaces that are up, without the loopback.
	Adapters(ctx context.Context) ([]hostnetwork.Adapter, error)
	// Restore sets on the interface that has an address what it lost. It goes on after a failure, and returns all of them; what this
	// Windows cannot set is errors.ErrUnsupported.
	Restore(ctx context.Context, address netip.Addr, l hostnetwork.Loss) error
}
