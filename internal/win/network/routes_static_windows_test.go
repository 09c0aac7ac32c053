package network

import (
	"errors"
	"io/fs"
	"net/netip"
	"os/exec"
	"slices"
	"testing"
)

func TestStaticRoutesAreThoseOfOneInterface(t *testing.T) {
	address, nobodys := mustAddress(t), netip.MustParseAddr("203.0.113.77")
	if _, err := StaticRoutes(nobodys); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("routes of an interface that does not exist: %v, want fs.ErrNotExist", err)
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
	added := StaticRoute{To: netip.MustParsePrefix("198.51.100.0/28"), Gateway: netip.IPv4Unspecified(), Metric: 77}
	err = AddStaticRoute(address, added)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this Windows (Wine) can add no routes")
	}
	t.Cleanup(func() {
		if err := exec.Command("route.exe", "delete", added.To.Addr().String(), "mask", "255.255.255.240").Run(); err != nil {
			t.Error(err)
		}
	})
	again := AddStaticRoute(address, added)
	found, listing := StaticRoutes(address)
	if err != nil || again != nil || listing != nil || !slices.Contains(found, added) {
		t.Errorf("routes %v after one was added (%v), and again (%v): %v", found, err, again, listing)
	}
}

// mustAddress is an IPv4 address of this machine.
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
