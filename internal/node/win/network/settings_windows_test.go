package network_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
	"github.com/windows-machine-config/wmco/internal/node/win/network"
)

// TestTheSettingsOfInterfacesAreRead expects each interface that is up to have an MTU, and the addresses that Addresses returns.
func TestTheSettingsOfInterfacesAreRead(t *testing.T) {
	list, err := network.Adapters()
	if err != nil || len(list) == 0 {
		t.Skipf("this Windows has no interface that is up (%v)", err)
	}
	for _, a := range list {
		var states []netip.Prefix
		for _, s := range network.States(a) {
			states = append(states, s.Prefix)
			if s.State == "" {
				t.Errorf("%s has no state", s.Prefix)
			}
		}
		if want := network.Addresses(a); !slices.Equal(states, want) {
			t.Errorf("states of %v, addresses %v", states, want)
		}
		if network.MTU(a) == 0 {
			t.Errorf("interface %d has no MTU", a.IfIndex)
		}
	}
	all, err := network.HostAdapters()
	if err != nil || len(all) != len(list) {
		t.Fatalf("%d adapters, %v, want %d", len(all), err, len(list))
	}
	t.Logf("%+v", all)
}

// TestRestoringNothingNewChangesNothing restores the current settings of an interface.
func TestRestoringNothingNewChangesNothing(t *testing.T) {
	all, err := network.HostAdapters()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(all, func(a hostnetwork.Adapter) bool { return len(a.Addresses) > 0 })
	if at < 0 {
		t.Skip("no interface has an IPv4 address")
	}
	a := all[at]
	err = network.Restore(a.Addresses[0].Prefix.Addr(), hostnetwork.Loss{Addresses: a.Addresses[:1], MTU: a.MTU})
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, windows.ERROR_CALL_NOT_IMPLEMENTED) || errors.Is(err, windows.ERROR_NOT_SUPPORTED) {
		t.Skip(err)
	}
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		t.Skipf("administrators only: %v", err)
	}
	again, errAgain := network.HostAdapters()
	if err != nil || errAgain != nil || !slices.EqualFunc(all[at].Addresses, again[at].Addresses, func(x, y hostnetwork.Address) bool { return x == y }) || again[at].MTU != a.MTU {
		t.Errorf("%v, %v: %+v, was %+v", err, errAgain, again[at], a)
	}
	missing := network.Restore(netip.MustParseAddr("203.0.113.99"), hostnetwork.Loss{MTU: 1400})
	if missing == nil {
		t.Error("an interface without the address was changed")
	}
}

// TestRowsHaveTheSizeOfWindows compares the sizes with netioapi.h for amd64.
func TestRowsHaveTheSizeOfWindows(t *testing.T) {
	if size := unsafe.Sizeof(windows.MibUnicastIpAddressRow{}); size != 80 {
		t.Errorf("MIB_UNICASTIPADDRESS_ROW has %d bytes, want 80", size)
	}
	var row windows.MibIpInterfaceRow // longer in golang.org/x/sys: Windows packs each offload structure at its end into one byte
	if size, prefix, metric, mtu := unsafe.Sizeof(row), unsafe.Offsetof(row.SitePrefixLength), unsafe.Offsetof(row.Metric), unsafe.Offsetof(row.NlMtu); size < 168 || prefix != 144 ||
		metric != 148 || mtu != 152 {
		t.Errorf("MIB_IPINTERFACE_ROW has %d bytes, SitePrefixLength at %d, Metric at %d, NlMtu at %d, want 168, 144, 148, 152", size, prefix, metric, mtu)
	}
}
