package win

import (
	"context"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/win/network"
)

// hostNetwork is the host's own network.
type hostNetwork struct{}

// Ports implements hostapi.HostNetwork.
func (hostNetwork) Ports(ctx context.Context) (hostapi.Ports, error) {
	dynamic, excluded, err := network.Ports(ctx)
	p := hostapi.Ports{Dynamic: hostapi.PortRange(dynamic)}
	for _, r := range excluded {
		p.Excluded = append(p.Excluded, hostapi.PortRange(r))
	}
	return p, err
}
