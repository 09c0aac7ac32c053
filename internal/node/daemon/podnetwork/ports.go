package podnetwork

import (
	"context"
	"time"

	"github.com/windows-machine-config/wmco/api"
)

// portsInterval is how often Windows' port ranges are read: they change when Windows starts, or manually.
const portsInterval = time.Hour

// readPorts reads Windows' port ranges, at most every portsInterval. If that fails, it keeps the previous ones.
func (n *reconciliation) readPorts(ctx context.Context) {
	if !n.portsAt.IsZero() && time.Since(n.portsAt) < portsInterval {
		return
	}
	n.portsAt = time.Now()
	current, err := n.Host.Inventory.Ports(ctx)
	if err != nil {
		n.Log.Info("Reading the port ranges of Windows failed", "error", err.Error())
		return
	}
	n.ports = current
}

// addPortLimits reports ports that the node's programs cannot have, and ports that become scarce. Neither is a fault of the network.
func (p *networkPlan) addPortLimits(v networkView, needed []uint16) {
	if message := v.ports.ExcludedOf(needed); message != "" {
		p.limits = append(p.limits, networkProblem{api.ReasonPortsExcluded, message})
	}
	if v.cluster == nil {
		return
	}
	if message := v.ports.ShortFor(v.cluster.size()); message != "" {
		p.limits = append(p.limits, networkProblem{api.ReasonDynamicPortsShort, message})
	}
}

// size returns the number of Services that have an address, and of the load balancers that kube-proxy creates for them.
func (f *frontends) size() (services, balancers int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.services {
		if s.service == nil || !s.service.ClusterIP.IsValid() {
			continue
		}
		if s.isStale {
			s.compute(f.onHost)
		}
		services, balancers = services+1, balancers+len(s.balancers)
	}
	return services, balancers
}
