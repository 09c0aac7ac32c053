package win

import (
	"net/netip"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/win/network"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestRoutesKeepTheContract(t *testing.T) {
	host := mustHost(t)
	contract.Routes(t, func(t *testing.T) contract.RoutesFixture {
		remove := func(t *testing.T) { mustRemoveRoutes(t, netip.MustParsePrefix(contract.Destination)) }
		f := contract.RoutesFixture{Routes: host.Routes, Address: mustAddress(t), Remove: remove}
		if windows.NewLazySystemDLL("iphlpapi.dll").NewProc("CreateIpForwardEntry2").Find() != nil {
			f.NoRoutes = "this Windows (Wine) has no CreateIpForwardEntry2, with which routes are added"
			f.NoWatch = "and it tells of no changes"
			return f
		}
		remove(t)
		t.Cleanup(func() { remove(t) })
		return f
	})
}

// mustAddress returns an IPv4 address of this machine.
func mustAddress(t *testing.T) netip.Addr {
	t.Helper()
	for _, i := range mustFacts(t).Interfaces {
		for _, a := range i.Addresses {
			if a.Addr().Is4() {
				return a.Addr()
			}
		}
	}
	t.Skip("this machine has no IPv4 address")
	return netip.Addr{}
}

// mustRemoveRoutes removes the routes to a destination on all interfaces.
func mustRemoveRoutes(t *testing.T, to netip.Prefix) {
	t.Helper()
	var rows []windows.MibIpForwardRow2
	err := network.EachRoute(func(row *windows.MibIpForwardRow2) {
		if network.IPv4(row.DestinationPrefix.Prefix) == to.Addr() && int(row.DestinationPrefix.PrefixLength) == to.Bits() {
			rows = append(rows, *row)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	remove := windows.NewLazySystemDLL("iphlpapi.dll").NewProc("DeleteIpForwardEntry2")
	for i := range rows {
		if code, _, _ := remove.Call(uintptr(unsafe.Pointer(&rows[i]))); code != 0 {
			t.Fatalf("DeleteIpForwardEntry2 gives %d", code)
		}
	}
}

// TestRoutesOfWindowsAreRead compares the default route with the facts.
func TestRoutesOfWindowsAreRead(t *testing.T) {
	for _, i := range mustFacts(t).Interfaces {
		if !i.DefaultRoute {
			continue
		}
		hops := defaultHops(t, i)
		if len(hops) == 0 {
			t.Fatalf("no default route on interface %d", i.Index)
		}
		for _, hop := range hops {
			if !hop.IsUnspecified() && !within(i.Addresses, hop) {
				t.Errorf("the gateway is %s, in none of the networks %v", hop, i.Addresses)
			}
		}
		return
	}
	t.Skip("this machine has no default route")
}

func defaultHops(t *testing.T, i wicdapi.Interface) (hops []netip.Addr) {
	t.Helper()
	err := network.EachRoute(func(row *windows.MibIpForwardRow2) {
		if row.InterfaceIndex == i.Index && row.DestinationPrefix.PrefixLength == 0 {
			hops = append(hops, network.IPv4(row.NextHop))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return hops
}

func within(networks []netip.Prefix, ip netip.Addr) bool {
	for _, n := range networks {
		if n.Contains(ip) {
			return true
		}
	}
	return false
}
