package overlay

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// reconcileRemotes adds and removes the remote subnets of other nodes according to the decision.
func (r *networkReconciler) reconcileRemotes(ctx context.Context, own Node, all []Node, d decision) error {
	n := named(r.networks, Network)
	if n == nil {
		return fmt.Errorf("network %s: %w", Network, hns.ErrNotFound)
	}
	if !r.holders.known {
		r.holders.addExisting(r.settings.holdersOf(n.Remotes, own, all))
		d = r.settings.decide(own, all, r.holders.have)
	}
	r.holders.have = d.holders
	r.logNeighbors(d)
	wanted := d.remotes
	remove, add := changeRemotes(n.Remotes, wanted)
	if len(remove)+len(add) == 0 {
		return nil
	}
	if err := r.removeRemotes(ctx, n, remove); err != nil {
		return err
	}
	if err := r.addRemotes(ctx, n, add); err != nil {
		return err
	}
	r.log.Info("Remote subnets changed", "added", subnetsOf(add), "removed", subnetsOf(remove), "all", len(wanted))
	return nil
}

func (r *networkReconciler) removeRemotes(ctx context.Context, n *hns.Network, remove []hns.RemoteSubnet) error {
	return inBatches(ctx, remove, func(ctx context.Context, some []hns.RemoteSubnet) error {
		if err := r.hns.RemoveRemotes(ctx, n.ID, some); err != nil {
			return fmt.Errorf("removing remote subnets %s from network %s: %w", subnetsOf(some), n.Name, err)
		}
		n.Remotes = slices.DeleteFunc(slices.Clone(n.Remotes), func(r hns.RemoteSubnet) bool { return slices.Contains(some, r) })
		return nil
	})
}

func (r *networkReconciler) addRemotes(ctx context.Context, n *hns.Network, add []hns.RemoteSubnet) error {
	return inBatches(ctx, add, func(ctx context.Context, some []hns.RemoteSubnet) error {
		if err := r.hns.AddRemotes(ctx, n.ID, some); err != nil {
			return fmt.Errorf("adding remote subnets %s to network %s: %w", subnetsOf(some), n.Name, err)
		}
		n.Remotes = slices.Concat(n.Remotes, some)
		return nil
	})
}

// inBatches calls do with all remote subnets in batches.
func inBatches(ctx context.Context, all []hns.RemoteSubnet, do func(context.Context, []hns.RemoteSubnet) error) (err error) {
	for some := range slices.Chunk(all, batchSize) {
		err = errors.Join(err, inHalves(ctx, some, do))
		if isUnusable(err) {
			return err
		}
	}
	return err
}

// inHalves calls do with all of them. If Windows rejects the call, it retries with each half, so that one bad remote subnet does not block the
// others.
func inHalves(ctx context.Context, some []hns.RemoteSubnet, do func(context.Context, []hns.RemoteSubnet) error) error {
	within, cancel := context.WithTimeout(ctx, callTimeout)
	err := do(within, some)
	cancel()
	if err == nil || len(some) == 1 || isUnusable(err) || ctx.Err() != nil {
		return err
	}
	half := len(some) / 2
	err = inHalves(ctx, some[:half], do)
	if isUnusable(err) {
		return err
	}
	return errors.Join(err, inHalves(ctx, some[half:], do))
}

// isUnusable reports whether the network cannot be changed, so that further calls would fail, too.
func isUnusable(err error) bool {
	return errors.Is(err, hns.ErrUnavailable) || errors.Is(err, hns.ErrNotFound)
}

// subnetsOf lists a few subnets for a message.
func subnetsOf(some []hns.RemoteSubnet) string {
	const few = 5
	var names []string
	for _, r := range some {
		names = append(names, r.Prefix.String())
	}
	return truncate.List(names, few, ", ")
}

// logNeighbors logs problems with the subnet or the address of each Node once.
func (r *networkReconciler) logNeighbors(d decision) {
	reported := map[string]bool{}
	log := func(neighbors []neighbor, what string) {
		for _, n := range neighbors {
			text := n.node + ": " + n.err.Error()
			if !r.reported[text] {
				r.log.Warn(what, "node", n.node, "error", n.err.Error())
			}
			reported[text] = true
		}
	}
	log(d.limited, "Pods of a node are unreachable from some nodes")
	log(d.refused, "Pods of a node are unreachable")
	r.reported = reported
}
