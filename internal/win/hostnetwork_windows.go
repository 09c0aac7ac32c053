package win

import (
	"context"

	"github.com/windows-machine-config/wmco/internal/host"
	"github.com/windows-machine-config/wmco/internal/win/network"
)

// hostNetwork is the host's own network.
type hostNetwork struct{}

// Ports implements host.HostNetwork.
func (hostNetwork) Ports(ctx context.Context) (host.Ports, error) {
	dynamic, excluded, err := network.Ports(ctx)
	p := host.Ports{Dynamic: host.PortRange(dynamic)}
	for _, r := range excluded {
		p.Excluded = append(p.Excluded, host.PortRange(r))
	}
	return p, err
}
