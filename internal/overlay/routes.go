package overlay

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"
)

// Route is an IPv4 route that somebody has set. Those to its own subnets, which Windows makes, are none.
type Route struct {
	To      netip.Prefix
	Gateway netip.Addr
	Metric  uint32
}

// Routes are the routes of this host. The interface that has the host's address is another one once there is an overlay network.
type Routes interface {
	// Routes returns those of the interface that has an address. While none has it, that is an error.
	Routes(ctx context.Context, address netip.Addr) ([]Route, error)
	// AddRoute adds a route to the interface that has an address.
	AddRoute(ctx context.Context, address netip.Addr, r Route) error
}

// move is the host's way from its adapter to the virtual one that the first overlay network puts in its place. Windows moves the
// address, and leaves behind the routes that somebody has set.
type move struct {
	routes  Routes
	address netip.Addr
	// left are the routes that may have been left behind.
	left []Route
	// until is when it is given up.
	until time.Time
}

// begin remembers the routes, before the first network is created.
func (m *move) begin(ctx context.Context, routes Routes, own Node) error {
	*m = move{routes: routes, until: time.Now().Add(createWithin + settleWithin)}
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

// goOn brings the routes to where the address is now. It tells whether that is done; a failure may pass.
func (m *move) goOn(ctx context.Context) (brought []Route, done bool, err error) {
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
			brought, m.left = append(brought, m.left[0]), m.left[1:]
		}
	}
	if err != nil && (errors.Is(err, errors.ErrUnsupported) || time.Now().After(m.until)) {
		m.left = nil
		return brought, true, err
	}
	return brought, err == nil, err
}
