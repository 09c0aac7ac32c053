package sim

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// routes is the routing table. It is empty after each start: it does not contain the interfaces' own routes.
type routes struct{ boot *boot }

// Ensure implements hostapi.Routes.
func (r routes) Ensure(ctx context.Context, want hostapi.Route) (changed bool, err error) {
	w := r.boot.w
	if err := r.boot.lock(ctx); err != nil {
		return false, err
	}
	defer w.mu.Unlock()
	has := func(i wicdapi.Interface) bool {
		return slices.ContainsFunc(i.Addresses, func(a netip.Prefix) bool { return a.Addr() == want.From })
	}
	isSame := func(got hostapi.Route) bool { return got.To == want.To && got.From == want.From }
	switch {
	case !slices.ContainsFunc(w.options.Interfaces, has):
		return false, fmt.Errorf("an interface with address %s: %w", want.From, hostapi.ErrNotFound)
	case slices.ContainsFunc(r.boot.routes, isSame):
		return false, nil
	}
	if err := r.boot.changeLocked("route " + want.To.String()); err != nil {
		return false, err
	}
	r.boot.routes = append(r.boot.routes, want)
	r.boot.routeWatches.notify("")
	return true, nil
}

// Watch implements hostapi.Routes.
func (r routes) Watch(ctx context.Context) (<-chan struct{}, error) {
	if err := r.boot.lock(ctx); err != nil {
		return nil, err
	}
	defer r.boot.w.mu.Unlock()
	return r.boot.routeWatches.add(ctx, &r.boot.w.mu, nil), nil
}

// Routes returns the routes added since the computer started.
func (w *Windows) Routes() []hostapi.Route {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.boot.routes)
}

// LoseRoutes removes every added route, as Windows does when pod networks come and go.
func (w *Windows) LoseRoutes() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.boot.routes = nil
	w.boot.routeWatches.notify("")
}

// SetInterfaces replaces the computer's interfaces.
func (w *Windows) SetInterfaces(list ...wicdapi.Interface) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.options.Interfaces = list
	w.boot.routeWatches.notify("")
}
