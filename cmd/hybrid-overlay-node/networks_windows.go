package main

import (
	"context"
	"net/netip"

	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
	"github.com/windows-machine-config/wmco/internal/node/overlay"
	"github.com/windows-machine-config/wmco/internal/node/win/network"
	"github.com/windows-machine-config/wmco/internal/node/win/scm"
)

// networks opens the local Host Network Service.
func networks() (overlay.HNS, error) { return network.NewHNS(scm.NewChanges()), nil }

// routes manages the routes of the local host.
type routes struct{}

// Routes implements overlay.Routes.
func (routes) Routes(_ context.Context, address netip.Addr) ([]hostnetwork.Route, error) {
	return network.StaticRoutes(address)
}

// PersistentRoutes implements overlay.Routes.
func (routes) PersistentRoutes(ctx context.Context, address netip.Addr) ([]hostnetwork.Route, error) {
	return network.PersistentRoutes(ctx, address)
}

// AddRoute implements overlay.Routes.
func (routes) AddRoute(_ context.Context, address netip.Addr, r hostnetwork.Route) error {
	return network.AddStaticRoute(address, r)
}

// adapters manages the network interfaces of the local host.
type adapters struct{}

// Adapters implements overlay.Adapters.
func (adapters) Adapters(context.Context) ([]hostnetwork.Adapter, error) {
	return network.HostAdapters()
}

// Restore implements overlay.Adapters.
func (adapters) Restore(_ context.Context, address netip.Addr, l hostnetwork.Loss) error {
	return network.Restore(address, l)
}
