package overlay

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/windows-machine-config/wmco/internal/hns"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// makeRemotes makes the ways to other nodes what they must be.
func (k *keeper) makeRemotes(ctx context.Context, own Node, all []Node) error {
	n := named(k.have, Network)
	if n == nil {
		return fmt.Errorf("network %s: %w", Network, hns.ErrNotFound)
	}
	if k.holders == nil {
		k.holders = k.settings.holdersOf(n.Remotes, own, all)
	}
	wanted, holders, without := k.settings.remotes(own, all, k.holders)
	k.holders = holders
	k.sayUnusable(without)
	remove, add := changeRemotes(n.Remotes, wanted)
	if len(remove)+len(add) == 0 {
		return nil
	}
	if err := k.removeRemotes(ctx, n, remove); err != nil {
		return err
	}
	if err := k.addRemotes(ctx, n, add); err != nil {
		return err
	}
	k.log.Info("Remote subnets changed", "added", subnetsOf(add), "removed", subnetsOf(remove), "all", len(wanted))
	return nil
}

func (k *keeper) removeRemotes(ctx context.Context, n *hns.Network, remove []hns.RemoteSubnet) error {
	err := inBatches(ctx, remove, func(ctx context.Context, some []hns.RemoteSubnet) error {
		if err := k.hns.RemoveRemotes(ctx, n.ID, some); err != nil {
			return fmt.Errorf("removing the ways to %s from network %s: %w", subnetsOf(some), n.Name, err)
		}
		n.Remotes = slices.DeleteFunc(slices.Clone(n.Remotes), func(r hns.RemoteSubnet) bool { return slices.Contains(some, r) })
		return nil
	})
	return err
}

func (k *keeper) addRemotes(ctx context.Context, n *hns.Network, add []hns.RemoteSubnet) error {
	return inBatches(ctx, add, func(ctx context.Context, some []hns.RemoteSubnet) error {
		if err := k.hns.AddRemotes(ctx, n.ID, some); err != nil {
			return fmt.Errorf("adding the ways to %s to network %s: %w", subnetsOf(some), n.Name, err)
		}
		n.Remotes = slices.Concat(n.Remotes, some)
		return nil
	})
}

// inBatches does something with many ways in few calls.
func inBatches(ctx context.Context, all []hns.RemoteSubnet, do func(context.Context, []hns.RemoteSubnet) error) (err error) {
	for some := range slices.Chunk(all, batch) {
		err = errors.Join(err, inHalves(ctx, some, do))
		if gone(err) {
			return err
		}
	}
	return err
}

// inHalves does something with all of them. What Windows refuses is tried again by halves, so that one way that cannot be does not
// keep the others away.
func inHalves(ctx context.Context, some []hns.RemoteSubnet, do func(context.Context, []hns.RemoteSubnet) error) error {
	within, cancel := context.WithTimeout(ctx, callWithin)
	err := do(within, some)
	cancel()
	if err == nil || len(some) == 1 || gone(err) || ctx.Err() != nil {
		return err
	}
	half := len(some) / 2
	err = inHalves(ctx, some[:half], do)
	if gone(err) {
		return err
	}
	return errors.Join(err, inHalves(ctx, some[half:], do))
}

// gone tells that further calls would fail, too.
func gone(err error) bool {
	return errors.Is(err, hns.ErrUnavailable) || errors.Is(err, hns.ErrNotFound)
}

// subnetsOf names a few subnets for people.
func subnetsOf(some []hns.RemoteSubnet) string {
	const few = 5
	var names []string
	for _, r := range some {
		names = append(names, r.Prefix.String())
	}
	return shorten.List(names, few, ", ")
}

// sayUnusable tells each Node once that there is no way to.
func (k *keeper) sayUnusable(nodes []unusable) {
	told := map[string]string{}
	for _, n := range nodes {
		told[n.node] = n.err.Error()
		if k.unusable[n.node] != n.err.Error() {
			k.log.Warn("There is no way to the pods of a node", "node", n.node, "error", n.err.Error())
		}
	}
	k.unusable = told
}
