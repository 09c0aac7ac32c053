package overlay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/hns"
)

const (
	// lookEvery is how often the networks are compared when nothing happens: so something that is lost without a word is back
	// within 30 seconds.
	lookEvery = 15 * time.Second
	// lookSoon is the pause before a look at something that is expected to change: an address that Windows tells a moment after a
	// network was made. A host joins only as fast as that is seen.
	lookSoon = 250 * time.Millisecond
	// atOnce is how long a call takes at most that fails before anything is done.
	atOnce = time.Second
	// missedFor is how long a network is missed before it is made again: a service that has just started may not have read everything
	// yet, and to create a network can cut the host's connections.
	missedFor = 2 * time.Second
	// settleWithin is how long Windows takes at most until a new network has its addresses, and the host its connections.
	settleWithin = time.Minute
	// createWithin and callWithin bound calls of the service.
	createWithin = 3 * time.Minute
	callWithin   = time.Minute
	// batch is how many ways go into one request.
	batch = 250
)

// keeper makes the Host Network Service equal to what follows from the Nodes. Between looks it remembers what the service has, so
// that a change costs the calls it needs and no other.
type keeper struct {
	hns      HNS
	settings Settings
	state    *state
	log      *slog.Logger
	// cut is called when the connections of this host have been cut.
	cut func()
	// routes are those of this host; nil when they need no care.
	routes Routes
	moving move

	// have are the networks at the last look, which was at lookedAt, and since; looked tells whether that can be trusted.
	have     []hns.Network
	looked   bool
	lookedAt time.Time
	// asked are the networks that this process created, as they were asked for, by ID: what Windows shows of them is not judged.
	asked map[string]hns.Network
	// lost is since when a network is not shown that was there; zero when none is missed.
	lost time.Time
	// unsettled is since when a network has no addresses yet; zero when none is awaited.
	unsettled time.Time
	// said is what was told last of what cannot be done, so that it is told once.
	said string
	// holders are the Nodes to which the ways lead; nil until the first ways are known.
	holders holders
	// unusable are the Nodes that were told to be so, with the reason.
	unusable map[string]string
	failed   pauses
}

// run keeps the networks until ctx is done. A message on restarted means that the service may have forgotten what it had.
func (k *keeper) run(ctx context.Context, restarted <-chan struct{}) {
	for ctx.Err() == nil {
		wait, err := k.settle(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			k.looked = false
			wait = k.failed.next()
			k.sayOnce(slog.LevelWarn, "The overlay is not as it should be", "error", err.Error())
		} else {
			k.failed.reset()
		}
		if !k.await(ctx, wait, restarted) {
			restarted = nil
		}
	}
}

// await returns when there may be something to do. It returns false when nobody will tell of restarts any more.
func (k *keeper) await(ctx context.Context, wait time.Duration, restarted <-chan struct{}) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-k.state.changed:
	case _, open := <-restarted:
		if !open {
			return false
		}
		k.log.Info("The Host Network Service has stopped or started: looking at what it has")
		k.looked = false
		k.failed.reset()
	case <-t.C:
		k.looked = false
	}
	return true
}

// settle does what there is to do, and returns when to look again at the latest.
func (k *keeper) settle(ctx context.Context) (time.Duration, error) {
	own, all, ok := k.state.known()
	if !ok {
		k.sayOnce(slog.LevelInfo, "Waiting for the Node of this host", "node", k.state.own)
		return lookEvery, nil
	}
	subnet, _, err := own.prefix()
	if err != nil {
		k.sayOnce(slog.LevelInfo, "Waiting for OVN-Kubernetes to give this host a subnet", "node", own.Name, "reason", err.Error())
		return lookEvery, nil
	}
	if err := k.look(ctx); err != nil {
		return 0, err
	}
	wait, err := k.makeNetworks(ctx, own, subnet)
	if wait > 0 || err != nil {
		return wait, err
	}
	if err := k.makeRemotes(ctx, own, all); err != nil {
		return 0, err
	}
	wait, err = k.settled()
	if !k.moveRoutes(ctx) {
		wait = min(wait, lookSoon)
	}
	return wait, err
}

// look reads the networks, unless they are known.
func (k *keeper) look(ctx context.Context) error {
	if k.looked && time.Since(k.lookedAt) < lookEvery {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	networks, err := k.hns.Networks(ctx)
	if err != nil {
		return fmt.Errorf("reading the networks: %w", err)
	}
	ours := slices.DeleteFunc(slices.Clone(networks), func(n hns.Network) bool { return n.Name != Network && n.Name != BaseNetwork })
	for i := range ours {
		if asked, byUs := k.asked[ours[i].ID]; byUs {
			ours[i].Subnets, ours[i].VXLANPort, ours[i].Adapter, ours[i].HostRoute = asked.Subnets, asked.VXLANPort, asked.Adapter, asked.HostRoute
		}
	}
	if k.lost.IsZero() && slices.ContainsFunc(k.have, func(h hns.Network) bool { return named(ours, h.Name) == nil }) {
		k.log.Warn("A network is gone; looking once more before it is made again")
		k.lost = time.Now()
	}
	k.have, k.looked, k.lookedAt = ours, true, time.Now()
	k.log.Debug("Networks read", "all", len(networks), "ours", len(ours))
	return nil
}

// makeNetworks makes the networks what they must be. It returns a pause when there is something to wait for.
func (k *keeper) makeNetworks(ctx context.Context, own Node, subnet netip.Prefix) (time.Duration, error) {
	c := changeNetworks(k.have, k.settings.networks(subnet))
	if c.isEmpty() {
		k.lost = time.Time{}
		return 0, nil
	}
	if time.Since(k.lost) < missedFor {
		k.looked = false
		return lookSoon, nil
	}
	k.lost = time.Time{}
	for _, n := range c.remove {
		if err := k.removeNetwork(ctx, n); err != nil {
			return 0, err
		}
	}
	for i, n := range c.create {
		if wait := k.awaitBase(n); wait > 0 {
			return wait, nil
		}
		if len(k.have) == 0 {
			if err := k.moving.begin(ctx, k.routes, own); err != nil {
				k.log.Warn("Routes that somebody has set may be lost: they cannot be read", "error", err.Error())
			}
		}
		if err := k.createNetwork(ctx, n, c.why[i]); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func (k *keeper) removeNetwork(ctx context.Context, n hns.Network) error {
	k.log.Warn("Removing a network that cannot be used", "network", n.Name, "id", n.ID, "is", describe(n))
	ctx, cancel := context.WithTimeout(ctx, createWithin)
	defer cancel()
	if err := k.hns.DeleteNetwork(ctx, n.ID); err != nil && !errors.Is(err, hns.ErrNotFound) {
		return fmt.Errorf("removing network %s (%s): %w", n.Name, n.ID, err)
	}
	k.have = slices.DeleteFunc(k.have, func(h hns.Network) bool { return h.ID == n.ID })
	delete(k.asked, n.ID)
	return nil
}

// awaitBase returns a pause while the switch below the network is not ready: the network could not be created.
func (k *keeper) awaitBase(n hns.Network) time.Duration {
	base := named(k.have, BaseNetwork)
	if n.Name == BaseNetwork || base == nil || base.ManagementIP.IsValid() {
		return 0
	}
	if k.unsettled.IsZero() {
		k.unsettled = time.Now()
	}
	if time.Since(k.unsettled) > settleWithin {
		k.log.Warn("Windows has not reported the address of the virtual switch; going on without it", "network", base.Name)
		return 0
	}
	k.looked = false
	return lookSoon
}

// createNetwork creates one network. What is about to happen is in the log before it does: the connection of whoever reads the log
// may be cut by it.
func (k *keeper) createNetwork(ctx context.Context, n hns.Network, why string) error {
	first := len(k.have) == 0
	k.log.Info("Creating a network", "network", n.Name, "because", why, "wanted", describe(n), "mayCutConnections", first)
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, createWithin)
	defer cancel()
	made, err := k.hns.CreateNetwork(ctx, n)
	if first && (err == nil || time.Since(began) > atOnce) { // a failure that took its time may have been half done
		k.cut()
	}
	if err != nil {
		return fmt.Errorf("creating network %s: %w", n.Name, err)
	}
	k.log.Info("Network created", "network", n.Name, "id", made.ID, "seconds", time.Since(began).Seconds())
	k.asked[made.ID] = n
	made.Subnets, made.VXLANPort, made.Adapter, made.HostRoute = n.Subnets, n.VXLANPort, n.Adapter, n.HostRoute
	k.have = append(k.have, made)
	k.unsettled = time.Now()
	return nil
}

// moveRoutes brings the routes to the virtual adapter. It returns false while that is not done.
func (k *keeper) moveRoutes(ctx context.Context) bool {
	brought, done, err := k.moving.goOn(ctx)
	if len(brought) > 0 {
		k.log.Info("Routes moved to the virtual adapter", "routes", fmt.Sprint(brought))
	}
	if err != nil && done {
		k.log.Error("Routes that this host had are lost until it restarts", "error", err.Error())
	}
	return done
}

// settled tells the cluster the address of this host's router as soon as Windows has told it, and returns when to look again.
func (k *keeper) settled() (time.Duration, error) {
	n := named(k.have, Network)
	if n == nil {
		return 0, fmt.Errorf("network %s: %w", Network, hns.ErrNotFound)
	}
	if mac, err := parseMAC(n.RouterMAC); err == nil {
		if k.said != "" {
			k.log.Info("The overlay is as it should be")
		}
		k.unsettled, k.said = time.Time{}, ""
		k.state.setMAC(mac)
		return lookEvery, nil
	}
	if k.unsettled.IsZero() {
		k.unsettled = time.Now()
	}
	k.looked = false
	if time.Since(k.unsettled) < settleWithin {
		return lookSoon, nil
	}
	k.sayOnce(slog.LevelWarn, "Windows has not reported the address of the router, so that other nodes cannot reach the pods of this one", "network", n.Name)
	return longestPause, nil
}

// sayOnce logs what was not said by the last call.
func (k *keeper) sayOnce(level slog.Level, what string, attributes ...any) {
	if text := fmt.Sprint(append([]any{what}, attributes...)...); text != k.said {
		k.said = text
		k.log.Log(context.Background(), level, what, attributes...)
	}
}
