package hns_test

import (
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

func TestAdapterBelowVirtualAdapter(t *testing.T) {
	for name, want := range map[string]string{
		"Ethernet": "", "vEthernet": "", "vEthernet ()": "", "vEthernet () 2": "", "vEthernet (Ethernet": "", "vEthernet (Ethernet) two": "",
		"vEthernet (Ethernet) ": "", "vEthernet (Ethernet)": "Ethernet", "vEthernet (Ethernet 2)": "Ethernet 2", "vEthernet (Ethernet) 2": "Ethernet",
		"vEthernet (Ethernet 2) 13": "Ethernet 2", "vEthernet (LAN (left))": "LAN (left)", "vEthernet (LAN (left)) 3": "LAN (left)",
		"vEthernet (LAN) 2)": "LAN) 2", "VETHERNET (Ethernet)": "",
	} {
		got, isVirtual := hns.AdapterBelow(name)
		if got != want || isVirtual != (want != "") {
			t.Errorf("below %q is %q (%t), want %q", name, got, isVirtual, want)
		}
	}
	for _, pair := range [][2]string{{"Ethernet", "ethernet"}, {"Ethernet", "vEthernet (Ethernet)"}, {"vEthernet (Ethernet) 2", "Ethernet"}} {
		if !hns.IsSameAdapter(pair[0], pair[1]) {
			t.Errorf("%q and %q are two adapters", pair[0], pair[1])
		}
	}
	if hns.IsSameAdapter("Ethernet", "vEthernet (Ethernet 2)") {
		t.Error("Ethernet and Ethernet 2 are one adapter")
	}
}

func FuzzAdapterBelow(f *testing.F) {
	for _, name := range []string{"", "Ethernet", "vEthernet (Ethernet) 2", "vEthernet ("} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, isVirtual := hns.AdapterBelow(name)
		if isVirtual != (got != "") || len(got) > len(name) {
			t.Errorf("below %q is %q (%t)", name, got, isVirtual)
		}
		if !hns.IsSameAdapter(name, name) {
			t.Errorf("%q is not itself", name)
		}
	})
}
