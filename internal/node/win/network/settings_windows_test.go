package network_test

import (
	"net/netip"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/win/network"
)

// TestInterfaceSettingsAreRead expects each interface that is up to have an MTU, and the addresses that Addresses returns.
func TestInterfaceSettingsAreRead(t *testing.T) {
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
	all, err := network.Interfaces{}.Adapters(t.Context())
	if err != nil || len(all) != len(list) {
		t.Fatalf("%d adapters, %v, want %d", len(all), err, len(list))
	}
	t.Logf("%+v", all)
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
