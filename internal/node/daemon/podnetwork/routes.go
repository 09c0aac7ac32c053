package podnetwork

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// routesInterval is how often routes are checked without a notification.
const routesInterval = 5 * time.Minute

// Routes maintains the routes that the host must have on the interface with the node's address. Windows drops them at each start, and when
// networks are added or removed; it notifies of both.
type Routes struct{ state.Session }

// Run maintains the routes until ctx is done.
func (r Routes) Run(ctx context.Context) {
	if len(r.Wanted.Routes) == 0 {
		return
	}
	changes, err := r.Host.Routes.Watch(ctx)
	if err != nil {
		r.Log.Warn("Route change notification unavailable; polling", "error", err.Error())
	}
	reported, retry := "", backoff.New()
	for last := time.Now(); ctx.Err() == nil; {
		wait := routesInterval
		added, err := r.ensureRoutes(ctx)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			r.Log.Error("Reconciling routes failed", "error", err.Error())
			return
		case err != nil:
			wait = retry.Next()
		case !added && time.Since(last) > backoff.ResetAfter:
			retry = backoff.New()
		}
		if err != nil && err.Error() != reported && ctx.Err() == nil {
			r.Log.Warn("Adding a route failed", "error", err.Error())
		}
		reported = messageOf(err)
		if added { // back off, because another program may remove it each time
			last = time.Now()
			_ = backoff.Sleep(ctx, retry.Next())
		}
		select {
		case <-ctx.Done():
		case _, open := <-changes:
			if !open {
				changes = nil
			}
		case <-time.After(wait):
		}
	}
}

func messageOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// ensureRoutes adds missing routes, and reports whether there were any.
func (r Routes) ensureRoutes(ctx context.Context) (added bool, err error) {
	from, err := netip.ParseAddr(r.Record.NodeIP)
	if err != nil {
		return false, fmt.Errorf("parsing the node's address %q: %w", r.Record.NodeIP, err)
	}
	var errs []error
	for _, route := range r.Wanted.Routes {
		changed, err := r.ensureRoute(ctx, from, route)
		if err != nil {
			errs = append(errs, fmt.Errorf("route to %s on the interface with address %s: %w", route.To, from, err))
		}
		if changed {
			r.RecordChange("route to %s added on the interface with address %s", route.To, from)
			added = true
		}
	}
	return added, errors.Join(errs...)
}

func (r Routes) ensureRoute(ctx context.Context, from netip.Addr, route desired.Route) (changed bool, err error) {
	to, err := netip.ParsePrefix(route.To)
	if err != nil {
		return false, err
	}
	return r.Host.Routes.Ensure(ctx, hostapi.Route{To: to, From: from, Gateway: route.Gateway})
}
