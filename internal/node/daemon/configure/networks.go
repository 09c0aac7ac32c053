package configure

import (
	"context"
	"fmt"
	"slices"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// removeNetworks removes networks with their endpoints, and all load balancers: kube-proxy, too, regards every load balancer as its own.
func removeNetworks(ctx context.Context, all hostapi.Networks, names []string) (removed []string, err error) {
	current, err := all.List(ctx)
	if err != nil {
		return nil, err
	}
	obsolete := hns.State{Networks: slices.DeleteFunc(current.Networks, func(n hns.Network) bool { return !slices.Contains(names, n.Name) })}
	if len(obsolete.Networks) == 0 {
		return nil, nil
	}
	obsolete.LoadBalancers = current.LoadBalancers
	for _, e := range current.Endpoints {
		if slices.ContainsFunc(obsolete.Networks, func(n hns.Network) bool { return n.ID == e.Network }) {
			obsolete.Endpoints = append(obsolete.Endpoints, e)
		}
	}
	if err := all.Remove(ctx, obsolete); err != nil {
		return nil, fmt.Errorf("removing networks: %w", err)
	}
	for _, n := range obsolete.Networks {
		removed = append(removed, n.Name)
	}
	return removed, nil
}

// networks manages the networks that the operator's services create.
type networks struct {
	work
	wanted *desired.Network
	former *desired.Network
}

// removeFormer removes networks that are no longer wanted: those of another provider, or with another name. The services that created them have
// stopped. Pods on them get new networks from the new provider, or when they are recreated.
func (n networks) removeFormer(ctx context.Context) error {
	if n.former == nil {
		return nil
	}
	names := n.former.Names()
	if n.wanted != nil {
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(n.wanted.Names(), name) })
	}
	if len(names) == 0 {
		return nil
	}
	removed, err := removeNetworks(ctx, n.Networks, names)
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		n.recordChange("removing the former network failed: %v", err)
	}
	for _, name := range removed {
		n.recordChange("network %s removed: it is no longer needed", name)
	}
	return nil
}

// removeAll removes the networks that the operator's services created. This may cut the caller's connection; the next leave continues.
func (n networks) removeAll(ctx context.Context) error {
	if n.former == nil {
		return nil
	}
	removed, err := removeNetworks(ctx, n.Networks, n.former.Names())
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		n.remains.note("pod networks: %v", err)
	}
	for _, name := range removed {
		n.recordChange("network %s removed", name)
	}
	return nil
}
