//go:build !windows

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
	"github.com/windows-machine-config/wmco/internal/node/overlay"
)

// networks returns errors.ErrUnsupported on systems other than Windows.
func networks() (overlay.HNS, error) {
	return nil, fmt.Errorf("hybrid-overlay-node runs on Windows only: %w", errors.ErrUnsupported)
}

// routes implements overlay.Routes with errors.ErrUnsupported.
type routes struct{}

// Routes implements overlay.Routes.
func (routes) Routes(context.Context, netip.Addr) ([]overlay.Route, error) {
	return nil, errors.ErrUnsupported
}

// PersistentRoutes implements overlay.Routes.
func (routes) PersistentRoutes(context.Context, netip.Addr) ([]overlay.Route, error) {
	return nil, errors.ErrUnsupported
}

// AddRoute implements overlay.Routes.
func (routes) AddRoute(context.Context, netip.Addr, overlay.Route) error {
	return errors.ErrUnsupported
}

// adapters implements overlay.Adapters with errors.ErrUnsupported.
type adapters struct{}

// Adapters implements overlay.Adapters.
func (adapters) Adapters(context.Context) ([]hostnetwork.Adapter, error) {
	return nil, errors.ErrUnsupported
}

// Restore implements overlay.Adapters.
func (adapters) Restore(context.Context, netip.Addr, hostnetwork.Loss) error {
	return errors.ErrUnsupported
}
