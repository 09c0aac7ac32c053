package overlay

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
)

// Routes reads and changes the routes of this host. Once there is an overlay network, another interface has the host's address.
type Routes interface {
	// Routes returns the routes of the interface with an address. It fails if no interface has it.
	Routes(ctx context.Context, address netip.Addr) ([]hostnetwork.Route, error)
	// PersistentRoutes returns the routes that Windows keeps across restarts, except default routes, and that may belong to the interface with an
	// address: their gateway is in its subnet. Those without a gateway are included if no other interface has them. With an error, some may be
	// missing.
	PersistentRoutes(ctx context.Context, address netip.Addr) ([]hostnetwork.Route, error)
	// AddRoute adds a route, until the next restart of Windows, to the interface with an address.
	AddRoute(ctx context.Context, address netip.Addr, r hostnetwork.Route) error
}

// routeMove moves static routes to the virtual adapter that the first overlay network creates, and keeps them when a network is recreated. Windows
// only moves the address.
//
// A persistent route stays bound to the adapter below the virtual one, so that after a restart of Windows it is missing: it is added at
// each start of the program. Windows' store of persistent routes is not changed. So a route that was not persistent does not become so,
// and one that is removed from the store does not come back.
type routeMove struct {
	routes  Routes
	address netip.Addr
	// left contains the routes that the interface had before a change.
	left []hostnetwork.Route
	// persistent contains the persistent routes after they have been read.
	persistent     []hostnetwork.Route
	persistentRead bool
	// until is when advance gives up; zero before the first start.
	until time.Time
	done  bool
}

// routeChange contains the added routes.
type routeChange struct {
	moved, restored []hostnetwork.Route
	// unknown are persistent routes without a gateway that no interface has: it is unknown whose they are.
	unknown []hostnetwork.Route
	// reading is why not all persistent routes could be read.
	reading error
}

// start starts to add missing persistent routes, unless that was already done.
func (m *routeMove) start(routes Routes, own Node) {
	if !m.until.IsZero() {
		return
	}
	*m = routeMove{routes: routes, until: time.Now().Add(createTimeout + settleTimeout), done: true}
	if address, err := own.address(); err == nil && routes != nil {
		m.address, m.done = address, false
	}
}

// begin stores the routes before a network is created or removed.
func (m *routeMove) begin(ctx context.Context, routes Routes, own Node) error {
	running, left := !m.until.IsZero() && !m.done, m.left
	*m = routeMove{routes: routes, until: time.Now().Add(createTimeout + settleTimeout), done: true}
	if routes == nil {
		return nil
	}
	address, err := own.address()
	if err != nil {
		return err
	}
	m.address, m.done, m.left = address, false, left
	existing, err := routes.Routes(ctx, address)
	for _, r := range existing {
		if !slices.Contains(left, r) {
			m.left = append(m.left, r)
		}
	}
	if running {
		return nil // they have already been read
	}
	return err
}

// advance adds the routes to the interface that has the address now. It reports whether this is done; an error may be temporary.
func (m *routeMove) advance(ctx context.Context) (change routeChange, done bool, err error) {
	if m.done {
		return routeChange{}, true, nil
	}
	change, err = m.addMissing(ctx)
	if err == nil || errors.Is(err, errors.ErrUnsupported) || time.Now().After(m.until) {
		m.done, m.left = true, nil
	}
	return change, m.done, err
}

func (m *routeMove) addMissing(ctx context.Context) (change routeChange, err error) {
	existing, err := m.routes.Routes(ctx, m.address)
	if err != nil {
		return change, err
	}
	if !m.persistentRead {
		m.persistent, change.reading = m.routes.PersistentRoutes(ctx, m.address)
		m.persistentRead = true
	}
	for _, r := range m.left {
		if !slices.ContainsFunc(existing, func(t hostnetwork.Route) bool { return t.To == r.To && t.Gateway == r.Gateway }) {
			if err := m.routes.AddRoute(ctx, m.address, r); err != nil {
				return change, err
			}
			existing, change.moved = append(existing, r), append(change.moved, r)
		}
	}
	for _, r := range m.persistent {
		if slices.ContainsFunc(existing, func(t hostnetwork.Route) bool { return t.To == r.To }) { // also by another gateway, which was set later
			continue
		}
		if r.Gateway.IsUnspecified() {
			change.unknown = append(change.unknown, r)
			continue
		}
		if err := m.routes.AddRoute(ctx, m.address, r); err != nil {
			return change, err
		}
		change.restored = append(change.restored, r)
	}
	return change, nil
}
