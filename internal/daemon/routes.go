package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// keepRoutes keeps the routes that the host must have on the interface with the node's address. Windows forgets them with each start,
// and when networks come and go; it tells of both.
func (l *life) keepRoutes(ctx context.Context) {
	if len(l.wanted.Routes) == 0 {
		return
	}
	changes, err := l.host.Routes.Watch(ctx)
	if err != nil {
		l.log.Warn("Nobody tells of changed routes; they are looked at now and then", "error", err.Error())
	}
	told, retry := "", backoff.New()
	for last := time.Now(); ctx.Err() == nil; {
		wait := settingsEvery
		added, err := l.ensureRoutes(ctx)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			l.log.Error("Routes cannot be kept", "error", err.Error())
			return
		case err != nil:
			wait = retry.Next()
		case !added && time.Since(last) > quietAfterStart:
			retry = backoff.New()
		}
		if err != nil && err.Error() != told && ctx.Err() == nil {
			l.log.Warn("A route is missing", "error", err.Error())
		}
		told = messageOf(err)
		if added { // where somebody removes it each time, they shall not wear each other out
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

// ensureRoutes adds what is missing, and tells whether that was anything.
func (l *life) ensureRoutes(ctx context.Context) (added bool, err error) {
	from, err := netip.ParseAddr(l.record.NodeIP)
	if err != nil {
		return false, fmt.Errorf("the node's address is %q: %w", l.record.NodeIP, err)
	}
	var errs []error
	for _, r := range l.wanted.Routes {
		changed, err := l.ensureRoute(ctx, from, r)
		if err != nil {
			errs = append(errs, fmt.Errorf("a route to %s on the interface with address %s: %w", r.To, from, err))
		}
		if changed {
			l.did("route to %s added on the interface with address %s", r.To, from)
			added = true
		}
	}
	return added, errors.Join(errs...)
}

func (l *life) ensureRoute(ctx context.Context, from netip.Addr, r desired.Route) (changed bool, err error) {
	to, err := netip.ParsePrefix(r.To)
	if err != nil {
		return false, err
	}
	return l.host.Routes.Ensure(ctx, host.Route{To: to, From: from, Gateway: r.Gateway})
}
