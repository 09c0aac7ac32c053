package configure

import (
	"context"
	"fmt"
	"slices"

	"github.com/windows-machine-config/wmco/internal/hns"
	"github.com/windows-machine-config/wmco/internal/host"
)

// removeNetwork removes the networks that a service of ours made. The connection that asks for it may be cut meanwhile; the next leave
// goes on.
func (d *decommissioner) removeNetwork(ctx context.Context) error {
	if d.formerWanted.Network == nil {
		return nil
	}
	removed, err := removeNetworks(ctx, d.Networks, d.formerWanted.Network.Names())
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		d.noteRemaining("the networks of pods: %v", err)
	}
	for _, name := range removed {
		d.recordChange("network %s removed", name)
	}
	return nil
}

// removeFormerNetwork removes the networks that were wanted before, and are not any more: of another provider, or with another name. What
// made them has stopped. Pods on them get other networks from the new one, or when somebody makes them anew.
func (c *configurator) removeFormerNetwork(ctx context.Context) error {
	former, wanted := c.formerWanted.Network, c.wanted.Network
	if former == nil {
		return nil
	}
	names := former.Names()
	if wanted != nil {
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(wanted.Names(), name) })
	}
	if len(names) == 0 {
		return nil
	}
	removed, err := removeNetworks(ctx, c.Networks, names)
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		c.recordChange("the former network stays: %v", err)
	}
	for _, name := range removed {
		c.recordChange("network %s removed: it is wanted no more", name)
	}
	return nil
}

// removeNetworks removes networks with what is in them, and all load balancers: kube-proxy takes each for its own, too.
func removeNetworks(ctx context.Context, networks host.Networks, names []string) (removed []string, err error) {
	is, err := networks.Look(ctx)
	if err != nil {
		return nil, err
	}
	gone := hns.State{Networks: slices.DeleteFunc(is.Networks, func(n hns.Network) bool { return !slices.Contains(names, n.Name) })}
	if len(gone.Networks) == 0 {
		return nil, nil
	}
	gone.LoadBalancers = is.LoadBalancers
	for _, e := range is.Endpoints {
		if slices.ContainsFunc(gone.Networks, func(n hns.Network) bool { return n.ID == e.Network }) {
			gone.Endpoints = append(gone.Endpoints, e)
		}
	}
	if err := networks.Remove(ctx, gone); err != nil {
		return nil, fmt.Errorf("removing networks: %w", err)
	}
	for _, n := range gone.Networks {
		removed = append(removed, n.Name)
	}
	return removed, nil
}
