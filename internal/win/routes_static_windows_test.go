package win

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/windows-machine-config/wmco/internal/daemon"
)

func TestStaticRoutesAreThoseOfOneInterface(t *testing.T) {
	address, nobodys := mustAddress(t), netip.MustParseAddr("203.0.113.77")
	if _, err := StaticRoutes(nobodys); !errors.Is(err, daemon.ErrNotFound) {
		t.Errorf("routes of an interface that does not exist: %v, want daemon.ErrNotFound", err)
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
	t.Cleanup(func() { mustRemoveRoutes(t, added.To) })
	again := AddStaticRoute(address, added)
	found, listing := StaticRoutes(address)
	if err != nil || again != nil || listing != nil || !slices.Contains(found, added) {
		t.Errorf("routes %v after one was added (%v), and again (%v): %v", found, err, again, listing)
	}
}
