package podnetwork

import (
	"context"
	"time"

	"github.com/windows-machine-config/wmco/api"
)

// portsEvery is how often Windows is asked for its ports: ranges change with a start of Windows, or by hand.
const portsEvery = time.Hour

// readPorts asks Windows for its ports, unless that was a short time ago. Without an answer, nothing is told of them.
func (n *reconciliation) readPorts(ctx context.Context) {
	if !n.portsAt.IsZero() && time.Since(n.portsAt) < portsEvery {
		return
	}
	n.portsAt = time.Now()
	is, err := n.Host.HostNetwork.Ports(ctx)
	if err != nil {
		n.Log.Info("Reading the ranges of ports of Windows failed", "error", err.Error())
		return
	}
	n.ports = is
}

// judgePorts tells of ports that programs of the node cannot have, and of ports that become too few. Neither is a fault of the network.
func (p *networkPlan) judgePorts(v networkView, ours []uint16) {
	if message := v.ports.ExcludedOf(ours); message != "" {
		p.limits = append(p.limits, networkProblem{api.ReasonPortsExcluded, message})
	}
	if v.told == nil {
		return
	}
	if message := v.ports.ShortFor(v.told.withAddress()); message != "" {
		p.limits = append(p.limits, networkProblem{api.ReasonDynamicPortsShort, message})
	}
}

// withAddress is the number of Services that have an address of their own, and so load balancers.
func (f *frontends) withAddress() (count int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.services {
		if s.service != nil && s.service.ClusterIP.IsValid() {
			count++
		}
	}
	return count
}
