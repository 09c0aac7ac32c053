package main

import (
	"context"
	"net/netip"

	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
	"github.com/windows-machine-config/wmco/internal/node/overlay"
	"github.com/windows-machine-config/wmco/internal/node/win/network"
	"github.com/windows-machine-config/wmco/internal/node/win/scm"
)

func networks() (overlay.HNS, error) { return network.NewHNS(scm.NewChanges()), nil }

func routes() overlay.Routes { return hostRoutes{} }

func adapters() overlay.Adapters { return network.Interfaces{} }

type hostRoutes struct{}

// Routes implements overlay.Routes.
func (hostRoutes) Routes(_ context.Context, address netip.Addr) ([]hostnetwork.Route, error) {
	return network.StaticRoutes(address)
}

// PersistentRoutes implements overlay.Routes.
func (hostRoutes) PersistentRoutes(ctx context.Context, address netip.Addr) ([]hostnetwork.Route, error) {
	return network.PersistentRoutes(ctx, address)
}

// AddRoute implements overlay.Routes.
func (hostRoutes) AddRoute(_ context.Context, address netip.Addr, r hostnetwork.Route) error {
	return network.AddStaticRoute(address, r)
}
