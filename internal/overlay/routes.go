package overlay

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"
)

// Route is a static IPv4 route. Routes to the interface's own subnets, which Windows creates, are not included.
type Route struct {
	To      netip.Prefix
	Gateway netip.Addr
	Metric  uint32
}

// Routes reads and changes the routes of this host. Once there is an overlay network, another interface has the host's address.
type Routes interface {
	// Routes returns the routes of the interface that has an address. It is an error if no interface has it.
	Routes(ctx context.Context, address netip.Addr) ([]Route, error)
	// AddRoute adds a route to the interface that has an address.
	AddRoute(ctx context.Context, address netip.Addr, r Route) error
}

// routeMove moves static routes to the virtual adapter that the first overlay network creates. Windows moves only the address.
type routeMove struct {
	routes  Routes
	address netip.Addr
	// left are the routes that may still be missing on the virtual adapter.
	left []Route
	// until is when advance gives up.
	until time.Time
}

// begin stores the routes before the first network is created.
func (m *routeMove) begin(ctx context.Context, routes Routes, own Node) error {
	*m = routeMove{routes: routes, until: time.Now().Add(createTimeout + settleTimeout)}
	if routes == nil {
		return nil
	}
	var err error
	if m.address, err = own.address(); err != nil {
		return err
	}
	m.left, err = routes.Routes(ctx, m.address)
	return err
}

// advance adds the routes to the interface that has the address now. It reports whether this is done; an error may be temporary.
func (m *routeMove) advance(ctx context.Context) (moved []Route, done bool, err error) {
	if len(m.left) == 0 {
		return nil, true, nil
	}
	there, err := m.routes.Routes(ctx, m.address)
	if err == nil {
		m.left = slices.DeleteFunc(m.left, func(r Route) bool {
			return slices.ContainsFunc(there, func(t Route) bool { return t.To == r.To && t.Gateway == r.Gateway })
		})
	}
	for err == nil && len(m.left) > 0 {
		if err = m.routes.AddRoute(ctx, m.address, m.left[0]); err == nil {
			moved, m.left = append(moved, m.left[0]), m.left[1:]
		}
	}
	if err != nil && (errors.Is(err, errors.ErrUnsupported) || time.Now().After(m.until)) {
		m.left = nil
		return moved, true, err
	}
	return moved, err == nil, err
}
