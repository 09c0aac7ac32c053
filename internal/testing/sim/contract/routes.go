package contract

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// Destination is the destination of the tests' routes (RFC 5737). The fixture removes routes of earlier runs.
const Destination = "203.0.113.9/32"

// RoutesFixture is the routing table of one computer for one test.
type RoutesFixture struct {
	Routes hostapi.Routes
	// Address is an address of the computer.
	Address netip.Addr
	// Remove removes the routes to Destination, like another program.
	Remove func(t *testing.T)
	// NoRoutes is why routes cannot be added; empty if they can. NoWatch is why changes are not reported.
	NoRoutes, NoWatch string
}

// Routes checks the contract of hostapi.Routes.
func Routes(t *testing.T, fixture func(t *testing.T) RoutesFixture) {
	run(t, fixture, []test[RoutesFixture]{
		{"RouteIsAddedOnce", routeIsAddedOnce},
		{"UnknownAddressIsRejected", unknownAddressIsRejected},
		{"LostRouteIsReported", lostRouteIsReported},
		{"RouteWatchEndsWithItsContext", routeWatchEndsWithItsContext},
	})
}

func (f RoutesFixture) route(gateway bool) hostapi.Route {
	return hostapi.Route{To: netip.MustParsePrefix(Destination), From: f.Address, Gateway: gateway}
}

func expectEnsured(t *testing.T, f RoutesFixture, r hostapi.Route, want bool) {
	t.Helper()
	if changed, err := f.Routes.Ensure(deadline(t), r); err != nil || changed != want {
		t.Fatalf("Ensure(%+v) = %v, %v, want %v", r, changed, err, want)
	}
}

func routeIsAddedOnce(t *testing.T, f RoutesFixture) {
	if f.NoRoutes != "" {
		t.Skip(f.NoRoutes)
	}
	for _, gateway := range []bool{false, true} {
		expectEnsured(t, f, f.route(gateway), true)
		expectEnsured(t, f, f.route(gateway), false)
		expectEnsured(t, f, f.route(!gateway), false) // an existing route is enough
		f.Remove(t)
	}
}

func unknownAddressIsRejected(t *testing.T, f RoutesFixture) {
	r := f.route(false)
	r.From = netip.MustParseAddr("203.0.113.200")
	if changed, err := f.Routes.Ensure(deadline(t), r); !errors.Is(err, hostapi.ErrNotFound) || changed {
		t.Errorf("Ensure() = %v, %v, want ErrNotFound", changed, err)
	}
}

func lostRouteIsReported(t *testing.T, f RoutesFixture) {
	if f.NoRoutes != "" || f.NoWatch != "" {
		t.Skip(f.NoRoutes + " " + f.NoWatch)
	}
	changes, err := f.Routes.Watch(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	expectEnsured(t, f, f.route(false), true)
	drain(changes)
	f.Remove(t)
	expectMessage(t, changes, "removal of a route")
	expectEnsured(t, f, f.route(false), true)
	expectMessage(t, changes, "a new route")
}

func routeWatchEndsWithItsContext(t *testing.T, f RoutesFixture) {
	expectEnd(t, f.Routes.Watch)
}
