package configure

import (
	"context"
	"fmt"
	"slices"

	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/hns"
	"github.com/windows-machine-config/wmco/internal/host"
)

// removeNetworks removes networks with what is in them, and all load balancers: kube-proxy takes each for its own, too.
func removeNetworks(ctx context.Context, all host.Networks, names []string) (removed []string, err error) {
	is, err := all.Look(ctx)
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
	if err := all.Remove(ctx, gone); err != nil {
		return nil, fmt.Errorf("removing networks: %w", err)
	}
	for _, n := range gone.Networks {
		removed = append(removed, n.Name)
	}
	return removed, nil
}

// networks are those that a service of ours makes.
type networks struct {
	work
	wanted *desired.Network
	former *desired.Network
}

// removeFormer removes the networks that were wanted before, and are not any more: of another provider, or with another name. What
// made them has stopped. Pods on them get other networks from the new one, or when they are created again.
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
		n.recordChange("the former network stays: %v", err)
	}
	for _, name := range removed {
		n.recordChange("network %s removed: it is wanted no more", name)
	}
	return nil
}

// removeAll removes the networks that a service of ours made. The connection that asks for it may be cut meanwhile; the next leave
// goes on.
func (n networks) removeAll(ctx context.Context, r *remains) error {
	if n.former == nil {
		return nil
	}
	removed, err := removeNetworks(ctx, n.Networks, n.former.Names())
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		r.note("the networks of pods: %v", err)
	}
	for _, name := range removed {
		n.recordChange("network %s removed", name)
	}
	return nil
}
