package overlay

import (
	"context"

	"github.com/windows-machine-config/wmco/internal/hns"
)

// HNS is the part of Windows' Host Network Service that makes an overlay. Calls that fail give the errors of package hns where one
// of them fits. A service that does not answer is hns.ErrUnavailable, and never one without networks.
type HNS interface {
	// Networks returns all networks with their remote subnets, those of other programs, too.
	Networks(ctx context.Context) ([]hns.Network, error)
	// CreateNetwork makes a network and returns it as it is then. Windows tells RouterMAC and ManagementIP a while later; after an
	// error there may be a network without them. A port for VXLAN that this build of Windows cannot set is an error.
	//
	// The first overlay network of a host cuts its connections for up to a minute, because the adapter's address moves to a virtual one.
	CreateNetwork(ctx context.Context, n hns.Network) (hns.Network, error)
	// DeleteNetwork removes a network with its endpoints. An absent one is hns.ErrNotFound. Without its last overlay network, the host gets
	// its adapter back, which cuts its connections again.
	DeleteNetwork(ctx context.Context, id string) error
	// AddRemotes gives a network, by its ID, the ways to subnets of other hosts, in one request; RemoveRemotes takes such ways off,
	// each given as it is in Network.Remotes; those that are not there are no error. A network that is gone is hns.ErrNotFound.
	AddRemotes(ctx context.Context, network string, remotes []hns.RemoteSubnet) error
	RemoveRemotes(ctx context.Context, network string, remotes []hns.RemoteSubnet) error
}

// Watcher tells when the Host Network Service has stopped or started: then it may have forgotten what it had.
type Watcher interface {
	// Watch sends a message each time, until ctx is done; then it closes the channel.
	Watch(ctx context.Context) (<-chan struct{}, error)
}
