package network

import (
	"errors"
	"io/fs"
	"net/netip"
	"os/exec"
	"slices"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
)

func TestStaticRoutesAreThoseOfOneInterface(t *testing.T) {
	address, unassigned := mustAddress(t), netip.MustParseAddr("203.0.113.77")
	if _, err := StaticRoutes(unassigned); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("routes of an interface that does not exist: %v, want fs.ErrNotExist", err)
	}
	if _, err := PersistentRoutes(t.Context(), unassigned); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("persistent routes of an interface that does not exist: %v, want fs.ErrNotExist", err)
	}
	found, err := StaticRoutes(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range found {
		if !r.To.IsValid() || r.To != r.To.Masked() || r.To.Addr().IsMulticast() || !r.Gateway.Is4() {
			t.Errorf("route %+v", r)
		}
	}
	added := addedRoute()
	err = AddStaticRoute(address, added)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this Wine cannot add routes")
	}
	t.Cleanup(func() {
		if err := removeAddedRoute(); err != nil {
			t.Error(err)
		}
	})
	again := AddStaticRoute(address, added)
	found, listing := StaticRoutes(address)
	if err != nil || again != nil || listing != nil || !slices.Contains(found, added) {
		t.Errorf("routes %v after one was added (%v), and again (%v): %v", found, err, again, listing)
	}
}

// TestPersistentRoutesAreOnlyThose: the routes that the tests add are not persistent.
func TestPersistentRoutesAreOnlyThose(t *testing.T) {
	found, err := PersistentRoutes(t.Context(), mustAddress(t))
	if err != nil {
		t.Logf("this Windows (Wine) does not list them: %v", err)
	}
	for _, r := range found {
		if r.To == addedRoute().To || r.To.Bits() == 0 {
			t.Errorf("route %+v", r)
		}
	}
}

// addedRoute is the route of the tests (RFC 5737).
func addedRoute() hostnetwork.Route {
	return hostnetwork.Route{To: netip.MustParsePrefix("198.51.100.0/28"), Gateway: netip.IPv4Unspecified(), Metric: 77}
}

func removeAddedRoute() error {
	return exec.Command("route.exe", "delete", addedRoute().To.Addr().String(), "mask", "255.255.255.240").Run()
}

// TestKilledRunLeftoversAreRemoved removes what killed tests of this package leave on a machine. wmco-acceptance runs only this test.
func TestKilledRunLeftoversAreRemoved(t *testing.T) {
	if err := removeAddedRoute(); errors.Is(err, exec.ErrNotFound) {
		t.Skip("this Wine has no route.exe, and cannot add routes")
	}
	found, err := StaticRoutes(mustAddress(t))
	if err != nil || slices.ContainsFunc(found, func(r hostnetwork.Route) bool { return r.To == addedRoute().To }) {
		t.Errorf("routes %v, %v", found, err)
	}
}

// mustAddress returns an IPv4 address of this machine.
func mustAddress(t *testing.T) netip.Addr {
	t.Helper()
	adapters, err := Adapters()
	if err != nil {
		t.Fatal(err)
	}
	for _, adapter := range adapters {
		for _, a := range Addresses(adapter) {
			if a.Addr().Is4() {
				return a.Addr()
			}
		}
	}
	t.Skip("this machine has no IPv4 address")
	return netip.Addr{}
}
