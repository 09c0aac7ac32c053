package win

import (
	"context"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/win/network"
)

// Ports implements hostapi.Inventory.
func (inventory) Ports(ctx context.Context) (hostapi.Ports, error) {
	dynamic, excluded, err := network.Ports(ctx)
	p := hostapi.Ports{Dynamic: hostapi.PortRange(dynamic)}
	for _, r := range excluded {
		p.Excluded = append(p.Excluded, hostapi.PortRange(r))
	}
	return p, err
}
