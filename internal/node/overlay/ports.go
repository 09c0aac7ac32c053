package overlay

import (
	"context"
	"net/netip"

	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// HNS is the part of Windows' Host Network Service that an overlay needs. Calls return the errors of package hns where one of them
// applies. A service that does not answer is hns.ErrUnavailable, never an empty list of networks.
type HNS interface {
	Networks
	// AddHostRoute adds the host's own route to the endpoints of a network, which Windows may have refused when the network was created.
	AddHostRoute(ctx context.Context, network string) error
	// HasNetwork finds a network by ID independently of Networks, with the first generation of the API.
	HasNetwork(ctx context.Context, id string) (bool, error)
	// Watch sends a message each time the service has stopped or started, until ctx is done; then it closes the channel. The service may have lost its
	// networks.
	Watch(ctx context.Context) (<-chan struct{}, error)
}

// Networks are the networks of the service.
type Networks interface {
	// Networks returns all networks with their remote subnets, including those of other programs.
	Networks(ctx context.Context) ([]hns.Network, error)
	// CreateNetwork creates a network and returns it. Windows sets RouterMAC and ManagementIP a while later; after an error there may be a network
	// without them. A VXLAN port that this build of Windows cannot set is an error. If Windows refuses the host's route, HostRoute of the result is
	// false. If Windows finds no adapter for the network, the error is hns.ErrAdapter.
	//
	// The first overlay network of a host interrupts its connections for up to a minute, because the adapter's address moves to a virtual one.
	CreateNetwork(ctx context.Context, n hns.Network) (hns.Network, error)
	// DeleteNetwork removes a network with its endpoints. A missing one is hns.ErrNotFound. Deleting the last overlay network restores the host's
	// adapter, which interrupts its connections again.
	DeleteNetwork(ctx context.Context, id string) error
	// AddRemotes adds the subnets of other hosts to a network, given by its ID, in one request. RemoveRemotes removes them; each must
	// be as in Network.Remotes, and a missing one is not an error. A network that does not exist is hns.ErrNotFound.
	AddRemotes(ctx context.Context, network string, remotes []hns.RemoteSubnet) error
	RemoveRemotes(ctx context.Context, network string, remotes []hns.RemoteSubnet) error
}

// Adapters are the network interfaces of this host.
type Adapters interface {
	// Adapters returns the interfaces that are up, without the loopback.
	Adapters(ctx context.Context) ([]hostnetwork.Adapter, error)
	// Restore restores what the interface with an address lost. It continues after a failure, and returns all failures; for settings that this
	// Windows cannot set, the error is errors.ErrUnsupported.
	Restore(ctx context.Context, address netip.Addr, l hostnetwork.Loss) error
}
