package overlay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

const (
	// hostRouteInterval is how often a refused route of the host is retried.
	hostRouteInterval = time.Minute
	// unlistedTimeout is how long to wait for a network that is found by its ID but not listed.
	unlistedTimeout = 2 * time.Minute
)

// completeNetworks completes networks with what was stored about them, and reports contradictions by Windows.
func (r *networkReconciler) completeNetworks(networks []hns.Network) {
	var unexpected []string
	for i := range networks {
		n := &networks[i]
		if _, known := r.used[n.ID]; !known {
			r.used[n.ID] = r.createdNetworks.have[n.ID].HadAddresses || len(n.Remotes) > 0 && r.createdNetworks.have[n.ID].Name == ""
		}
		r.used[n.ID] = r.used[n.ID] || n.HasAddresses()
		if differs := r.createdNetworks.complete(n); differs != "" {
			unexpected = append(unexpected, fmt.Sprintf("network %s has %s", n.Name, differs))
		}
	}
	r.report.setNetworks(unexpected)
}

// isUnlisted reports whether one of these networks exists although it is not listed, or whether that is unknown: a service that has just started may
// not list all. Creating it again could create a second switch. After a while, the list decides.
func (r *networkReconciler) isUnlisted(ctx context.Context, missing []hns.Network) bool {
	if !r.missingSince.IsZero() && time.Since(r.missingSince) > unlistedTimeout {
		return false
	}
	for _, n := range missing {
		id := r.createdNetworks.idOf(n.Name)
		if id == "" || slices.ContainsFunc(r.networks, func(h hns.Network) bool { return h.ID == id }) {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		exists, err := r.hns.HasNetwork(ctx, id)
		cancel()
		if err == nil && !exists && !r.isIncomplete(n.Name) {
			continue
		}
		if r.missingSince.IsZero() {
			r.missingSince = time.Now()
		}
		r.logOnce(slog.LevelWarn, "A network is not listed but may exist; waiting for the Host Network Service", "network", n.Name, "id", id, "error", fmt.Sprint(err))
		return true
	}
	return false
}

// isIncomplete reports whether the service may have a network that it does not return yet, because it has just started. Whether it started with this
// program is unknown: then only the base network counts, because the network of pods is gone after each start of Windows.
func (r *networkReconciler) isIncomplete(name string) bool {
	return time.Since(r.restartedAt) < hns.IncompleteFor || name == BaseNetwork && time.Since(r.began) < hns.IncompleteFor
}

// createOnAdapter creates a network on the adapter with the node's address. The network of pods names no adapter unless Windows refuses that, or
// chooses another adapter.
func (r *networkReconciler) createOnAdapter(ctx context.Context, own Node, n hns.Network, reason string) error {
	created, err := r.createNetwork(ctx, own, n, reason)
	if n.Adapter != "" || n.Name != Network || r.settings.adapter() == "" || ctx.Err() != nil {
		return err
	}
	isWrong := err == nil && isOnOtherAdapter(created, own.addresses()) && !r.namedAdapter
	isRefused := err != nil && !isUnusable(err) && !errors.Is(err, hns.ErrExists)
	if !isWrong && !isRefused {
		return err
	}
	if isWrong {
		r.namedAdapter = true
		if err := r.removeNetwork(ctx, created, "address "+created.ManagementIP.String()+" of the host, which is not that of the node"); err != nil {
			return err
		}
	}
	n.Adapter = r.settings.adapter()
	_, again := r.createNetwork(ctx, own, n, "Windows needs the name of the adapter")
	if again != nil {
		return errors.Join(err, again)
	}
	return nil
}

// createNetwork creates one network. It logs first, because creation can interrupt the connection of the log's reader.
func (r *networkReconciler) createNetwork(ctx context.Context, own Node, n hns.Network, reason string) (hns.Network, error) {
	first, within := len(r.networks) == 0, createTimeout
	r.log.Info("Creating a network", "network", n.Name, "reason", reason, "wanted", describe(n), "mayCutConnections", first)
	if first {
		if err := r.guard.begin(ctx, own); err != nil {
			return hns.Network{}, err
		}
		if r.guard.isMaking() {
			within = addressGrace
		}
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	created, err := r.hns.CreateNetwork(ctx, n)
	if first {
		r.guard.created(errors.Is(err, context.DeadlineExceeded))
	}
	if first && (err == nil || time.Since(began) > maxImmediateFailure) { // a slow failure may have changed something
		r.onCut()
	}
	if err != nil {
		return hns.Network{}, fmt.Errorf("creating network %s: %w", n.Name, err)
	}
	r.log.Info("Network created", "network", n.Name, "id", created.ID, "seconds", time.Since(began).Seconds())
	r.createdNetworks.add(created, n)
	r.createdNetworks.complete(&created)
	r.used[created.ID] = created.HasAddresses()
	r.networks = append(r.networks, created)
	r.unsettledSince = time.Now()
	return created, nil
}

// addHostRoute adds the host's own route to the network of pods, if Windows refused it. Pods can use the network without it.
func (r *networkReconciler) addHostRoute(ctx context.Context) {
	n := named(r.networks, Network)
	if n == nil {
		return
	}
	_, known := r.createdNetworks.have[n.ID]
	if n.HostRoute || !known && len(n.Remotes) > 0 { // created by an earlier version, which added the route before the remote subnets
		r.report.setOne(api.ReasonOverlayHostRouteRefused, "")
		return
	}
	if time.Since(r.routedAt) < hostRouteInterval {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := r.hns.AddHostRoute(ctx, n.ID)
	if err != nil && !errors.Is(err, hns.ErrExists) {
		r.routedAt = time.Now()
		r.report.setOne(api.ReasonOverlayHostRouteRefused, fmt.Sprintf("the host cannot reach the pods of this node, and probes of the kubelet fail: Windows rejects a route to network %s: %v", n.Name, err))
		return
	}
	n.HostRoute = true
	r.createdNetworks.update(*n)
	r.log.Info("Route of the host to its pods added", "network", n.Name)
	r.report.setOne(api.ReasonOverlayHostRouteRefused, "")
}

// isOnOtherAdapter reports whether a network is on another adapter than the one with an address of the node. It is false if that is
// unknown.
func isOnOtherAdapter(n hns.Network, addresses []netip.Addr) bool {
	return n.ManagementIP.IsValid() && len(addresses) > 0 && !slices.Contains(addresses, n.ManagementIP)
}

// adapterProblem describes which networks are on another adapter.
func adapterProblem(networks []hns.Network, addresses []netip.Addr) string {
	for _, n := range networks {
		if isOnOtherAdapter(n, addresses) {
			return fmt.Sprintf("network %s is on an adapter with address %s, but the node has %s: other nodes cannot reach the pods of this node", n.Name, n.ManagementIP, addresses[0])
		}
	}
	return ""
}
