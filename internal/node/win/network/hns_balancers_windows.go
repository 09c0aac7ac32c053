package network

import (
	"context"
	"strings"

	"github.com/Microsoft/hcsshim/hcn"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// CreateLoadBalancer creates a load balancer as kube-proxy does, and returns its ID. The product itself creates none.
func (h *HNS) CreateLoadBalancer(ctx context.Context, b hns.LoadBalancer) (id string, err error) {
	wanted := &hcn.HostComputeLoadBalancer{
		HostComputeEndpoints: b.Endpoints, SchemaVersion: hcn.V2SchemaVersion(),
		PortMappings: []hcn.LoadBalancerPortMapping{{Protocol: uint32(b.Protocol), ExternalPort: b.External, InternalPort: b.Internal}},
	}
	if b.SourceVIP.IsValid() {
		wanted.SourceVIP = b.SourceVIP.String()
	}
	for _, vip := range b.VIPs {
		wanted.FrontendVIPs = append(wanted.FrontendVIPs, vip.String())
	}
	if b.DSR {
		wanted.Flags = hcn.LoadBalancerFlagsDSR
	}
	err = h.change(ctx, "creating a load balancer", func() error {
		made, err := wanted.Create()
		if err == nil {
			id = strings.ToLower(made.Id)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return id, nil
}
