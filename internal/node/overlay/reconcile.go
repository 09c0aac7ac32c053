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
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

const (
	// resyncInterval is how often the networks are compared without any event. So something that is lost without a notification is restored within 30
	// seconds.
	resyncInterval = 15 * time.Second
	// pollInterval is how often a pending change is polled, such as the address that Windows reports a moment after a network was created. It limits
	// how fast a host joins.
	pollInterval = 250 * time.Millisecond
	// maxImmediateFailure is the longest time of a call that fails before it has changed anything.
	maxImmediateFailure = time.Second
	// missingGrace is how long a network must be missing before it is created again: a service that has just started may not have
	// read all networks yet, and creating one can cut the host's connections.
	missingGrace = 2 * time.Second
	// settleTimeout is the maximum time until a new network has its addresses, and the host its connections.
	settleTimeout = time.Minute
	// recreateAfter is when a network that still has no addresses is created again: no pod can use it. This must be before WICD restarts the service,
	// which it does after three minutes without a network.
	recreateAfter = 2 * time.Minute
	// createTimeout and callTimeout limit calls of the service.
	createTimeout = 3 * time.Minute
	callTimeout   = time.Minute
	// batchSize is how many remote subnets go into one request.
	batchSize = 250
)

// networkReconciler reconciles the networks of the Host Network Service with the Nodes. Between two reads it caches the state of the service, so that
// a change needs as few calls as possible.
type networkReconciler struct {
	hns      HNS
	settings Settings
	state    *state
	log      *slog.Logger
	// onCut is called when the connections of this host were interrupted.
	onCut func()
	// routes accesses the routes of this host; nil if they need not be moved.
	routes    Routes
	routeMove routeMove

	// networks are the networks as read at readAt, with all changes made since. They are valid while fresh is true.
	networks []hns.Network
	fresh    bool
	readAt   time.Time
	// createdNetworks are the networks that this program created. used are the IDs of networks that had addresses or remote subnets when
	// they were first seen.
	createdNetworks *createdFile
	used            map[string]bool
	// namedAdapter is set once the adapter of the network of pods was named, because Windows chose another one.
	namedAdapter bool
	// routedAt is when the host's route was last refused.
	routedAt time.Time
	// began is when the program started, restartedAt when the service last stopped or started; zero if it has not since.
	began, restartedAt time.Time
	// missingSince is when a network was first found missing; zero if none is missing.
	missingSince time.Time
	// unsettledSince is when a network was first found without addresses; zero if all have theirs.
	unsettledSince time.Time
	// lastLogged is the last problem that was logged. It is not logged twice.
	lastLogged string
	report     *reporter
	// guard protects the settings of this host's adapter.
	guard *hostGuard
	// holders are the Nodes that have their subnets.
	holders *holdersFile
	// reported contains what was logged about other Nodes.
	reported map[string]bool
	retry    *backoff.Backoff
}

// run reconciles the networks until ctx is done. A message on restarted means that the service may have lost its networks.
func (r *networkReconciler) run(ctx context.Context, restarted <-chan struct{}) {
	for ctx.Err() == nil {
		wait, err := r.reconcile(ctx)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			r.fresh = false
			wait = r.retry.Next()
			r.logOnce(slog.LevelWarn, "Configuring the overlay failed", "error", err.Error())
		} else {
			r.retry = newRetry()
		}
		if r.guard.isMaking() {
			wait = min(wait, pollInterval)
		}
		if !r.wait(ctx, wait, restarted) {
			restarted = nil
		}
	}
	r.holders.saveNow()
}

// wait returns when there may be something to do. It returns false if channel restarted is closed.
func (r *networkReconciler) wait(ctx context.Context, wait time.Duration, restarted <-chan struct{}) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-r.state.changed:
	case _, open := <-restarted:
		if !open {
			return false
		}
		r.log.Info("The Host Network Service stopped or started; reading its networks")
		r.fresh, r.restartedAt = false, time.Now()
		r.retry = newRetry()
	case <-t.C:
		r.fresh = false
	}
	return true
}

// reconcile makes all changes that are due, and returns the longest time until the next call.
func (r *networkReconciler) reconcile(ctx context.Context) (time.Duration, error) {
	switch r.guard.check(ctx, r.hasNetworks) { // first: without its address, the host receives no Nodes
	case hostLost:
		return resyncInterval, r.abandon(ctx)
	case hostWithoutAddress:
		return pollInterval, nil
	}
	own, all, ok := r.state.known()
	if !ok {
		r.report.setNodes(nil)
		r.logOnce(slog.LevelInfo, "Waiting for the Node of this host", "node", r.state.own)
		return resyncInterval, nil
	}
	d := r.settings.decide(own, all, r.holders.have)
	r.report.setNodes(nodeProblems(own, all, d))
	subnet, _, err := own.prefix()
	if err != nil {
		r.logOnce(slog.LevelInfo, "Waiting for OVN-Kubernetes to give this host a subnet", "node", own.Name, "reason", err.Error())
		return resyncInterval, nil
	}
	if err := r.readNetworks(ctx); err != nil {
		return 0, err
	}
	wait, err := r.reconcileNetworks(ctx, own, subnet)
	if wait > 0 || err != nil {
		return wait, err
	}
	r.report.setOne(api.ReasonOverlayAdapterUnexpected, adapterProblem(r.networks, own.addresses()))
	r.addHostRoute(ctx)
	if err := r.reconcileRemotes(ctx, own, all, d); err != nil {
		return 0, err
	}
	wait, err = r.publishRouter()
	if !r.moveRoutes(ctx, own) {
		wait = min(wait, pollInterval)
	}
	r.holders.save()
	return wait, err
}

// hasNetworks reports whether the overlay's networks exist.
func (r *networkReconciler) hasNetworks(ctx context.Context) (bool, error) {
	r.fresh = false
	err := r.readNetworks(ctx)
	return len(r.networks) > 0, err
}

// abandon removes all networks of the overlay, the network of pods first.
func (r *networkReconciler) abandon(ctx context.Context) error {
	if ok, err := r.hasNetworks(ctx); !ok || err != nil {
		return err
	}
	for _, name := range []string{Network, BaseNetwork} {
		for n := named(r.networks, name); n != nil; n = named(r.networks, name) {
			if err := r.removeNetwork(ctx, *n, "caused the host to lose its address"); err != nil {
				return err
			}
		}
	}
	r.onCut()
	return nil
}

// readNetworks reads the networks unless the cache is current.
func (r *networkReconciler) readNetworks(ctx context.Context) error {
	if r.fresh && time.Since(r.readAt) < resyncInterval {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	networks, err := r.hns.Networks(ctx)
	if err != nil {
		return fmt.Errorf("reading the networks: %w", err)
	}
	existing := slices.DeleteFunc(slices.Clone(networks), func(n hns.Network) bool { return n.Name != Network && n.Name != BaseNetwork })
	r.completeNetworks(existing)
	if r.missingSince.IsZero() && slices.ContainsFunc(r.networks, func(h hns.Network) bool { return named(existing, h.Name) == nil }) {
		r.log.Warn("A network is missing; it is created again unless it comes back")
		r.missingSince = time.Now()
	}
	r.networks, r.fresh, r.readAt = existing, true, time.Now()
	r.log.Debug("Networks read", "all", len(networks), "ours", len(existing))
	return nil
}

// reconcileNetworks creates and removes networks. It returns a pause if there is something to wait for.
func (r *networkReconciler) reconcileNetworks(ctx context.Context, own Node, subnet netip.Prefix) (time.Duration, error) {
	if err := r.removeUnsettled(ctx, own); err != nil {
		return 0, err
	}
	wanted := r.settings.Networks(subnet)
	c := changeNetworks(r.networks, wanted, own.addresses())
	if c.isEmpty() {
		r.missingSince = time.Time{}
		r.createdNetworks.adopt(r.networks, wanted)
		return 0, nil
	}
	if r.isUnlisted(ctx, c.create) {
		r.fresh = false
		return missingGrace, nil
	}
	if time.Since(r.missingSince) < missingGrace {
		r.fresh = false
		return pollInterval, nil
	}
	r.missingSince = time.Time{}
	for _, n := range c.remove {
		r.keepRoutes(ctx, own)
		if err := r.removeNetwork(ctx, n, c.unusable[n.ID]); err != nil {
			return 0, err
		}
	}
	for i, n := range c.create {
		if wait := r.waitForBase(n); wait > 0 {
			return wait, nil
		}
		r.keepRoutes(ctx, own)
		if err := r.createOnAdapter(ctx, own, n, c.why[i]); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// removeUnsettled removes the network of pods if Windows has never reported its addresses, so that it is created again. A network that was used is
// kept, because pods have endpoints on it.
func (r *networkReconciler) removeUnsettled(ctx context.Context, own Node) error {
	n := named(r.networks, Network)
	if n == nil || n.HasAddresses() || r.used[n.ID] || r.unsettledSince.IsZero() || time.Since(r.unsettledSince) < recreateAfter {
		return nil
	}
	r.unsettledSince = time.Time{}
	r.keepRoutes(ctx, own)
	return r.removeNetwork(ctx, *n, "no addresses")
}

func (r *networkReconciler) removeNetwork(ctx context.Context, n hns.Network, reason string) error {
	r.log.Warn("Removing a network that cannot be used", "network", n.Name, "id", n.ID, "reason", reason, "found", describe(n))
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	if err := r.hns.DeleteNetwork(ctx, n.ID); err != nil && !errors.Is(err, hns.ErrNotFound) {
		return fmt.Errorf("removing network %s (%s): %w", n.Name, n.ID, err)
	}
	r.networks = slices.DeleteFunc(r.networks, func(h hns.Network) bool { return h.ID == n.ID })
	r.createdNetworks.remove(n.ID)
	return nil
}

// waitForBase returns a pause while the switch below the network is not ready: the network cannot be created before.
func (r *networkReconciler) waitForBase(n hns.Network) time.Duration {
	base := named(r.networks, BaseNetwork)
	if n.Name == BaseNetwork || base == nil || base.ManagementIP.IsValid() {
		return 0
	}
	if r.unsettledSince.IsZero() {
		r.unsettledSince = time.Now()
	}
	if time.Since(r.unsettledSince) > settleTimeout {
		r.log.Warn("Windows has not reported the address of the virtual switch; continuing without it", "network", base.Name)
		return 0
	}
	r.fresh = false
	return pollInterval
}

// keepRoutes stores the static routes before a network is created or removed.
func (r *networkReconciler) keepRoutes(ctx context.Context, own Node) {
	if err := r.routeMove.begin(ctx, r.routes, own); err != nil {
		r.log.Warn("Reading the static routes of this host failed; they may be lost", "error", err.Error())
	}
}

// moveRoutes adds static routes that are missing on the interface with the host's address. It returns false until this is done.
func (r *networkReconciler) moveRoutes(ctx context.Context, own Node) bool {
	r.routeMove.start(r.routes, own)
	change, done, err := r.routeMove.advance(ctx)
	if len(change.moved) > 0 {
		r.log.Info("Routes moved to the virtual adapter", "routes", fmt.Sprint(change.moved))
	}
	if len(change.restored) > 0 {
		r.log.Info("Persistent routes added to the virtual adapter", "routes", fmt.Sprint(change.restored))
	}
	if len(change.unknown) > 0 {
		r.log.Warn("Persistent routes without a gateway are not added: their interface is unknown", "routes", fmt.Sprint(change.unknown))
	}
	if change.reading != nil {
		r.log.Warn("Reading the persistent routes of this host failed; some may be missing", "error", change.reading.Error())
	}
	if err != nil && done {
		r.log.Error("Adding the static routes of this host failed; they are lost, persistent ones until the next start", "error", err.Error())
	}
	return done
}

// publishRouter has the router's MAC address published as soon as Windows has reported it. It returns the time until the next reconcile.
func (r *networkReconciler) publishRouter() (time.Duration, error) {
	n := named(r.networks, Network)
	if n == nil {
		return 0, fmt.Errorf("network %s: %w", Network, hns.ErrNotFound)
	}
	mac, err := parseMAC(n.RouterMAC)
	if err == nil {
		r.state.setMAC(mac)
	}
	if err == nil && n.HasAddresses() {
		r.createdNetworks.update(*n)
		r.used[n.ID] = true
		if r.lastLogged != "" {
			r.log.Info("The overlay is configured")
		}
		r.unsettledSince, r.lastLogged = time.Time{}, ""
		return resyncInterval, nil
	}
	if r.unsettledSince.IsZero() {
		r.unsettledSince = time.Now()
	}
	r.fresh = false
	if time.Since(r.unsettledSince) < settleTimeout {
		return pollInterval, nil
	}
	r.logOnce(slog.LevelWarn, "Windows has not reported the addresses of the network; pods of this node cannot be reached", "network", n.Name,
		"router", n.RouterMAC, "host", n.ManagementIP.String(), "createdAgainAfter", recreateAfter.String(), "wasUsed", r.used[n.ID])
	return longestPause, nil
}

// logOnce logs a message unless the last call logged the same.
func (r *networkReconciler) logOnce(level slog.Level, what string, attributes ...any) {
	if text := fmt.Sprint(append([]any{what}, attributes...)...); text != r.lastLogged {
		r.lastLogged = text
		r.log.Log(context.Background(), level, what, attributes...)
	}
}
