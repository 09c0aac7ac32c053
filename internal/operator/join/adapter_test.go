package join_test

import (
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// on returns a host whose node address is on an interface, with adapters given as name=MAC.
func on(i wicdapi.Interface, adapters ...string) wicdapi.Facts {
	f := goodHost()
	i.Addresses, i.DefaultRoute = addresses("10.0.0.7/24"), true
	f.Host.Interfaces = []wicdapi.Interface{{Name: "Backup", Addresses: addresses("192.168.7.2/24")}, i}
	for _, a := range adapters {
		name, mac, _ := strings.Cut(a, "=")
		f.Host.Adapters = append(f.Host.Adapters, wicdapi.Adapter{Name: name, MAC: mac})
	}
	return f
}

func TestAdapterOfNodeIP(t *testing.T) {
	const one, two = "00-15-5d-00-00-01", "00-15-5D-00-00-02"
	virtual := func(name, mac string) wicdapi.Interface {
		return wicdapi.Interface{Name: name, MAC: mac, Virtual: true}
	}
	for name, test := range map[string]struct {
		facts   wicdapi.Facts
		adapter string
		refused string // a part of the message
	}{
		"hardware adapter":                                    {on(wicdapi.Interface{Name: "Ethernet", MAC: one}, "Ethernet="+one), "Ethernet", ""},
		"unknown adapter below a virtual one":                 {on(wicdapi.Interface{Name: "Ethernet", Virtual: true}), "Ethernet", ""},
		"virtual adapter of HNS":                              {on(virtual("vEthernet (Ethernet)", one), "Ethernet="+one, "LAN="+two), "Ethernet", ""},
		"second virtual adapter of HNS":                       {on(virtual("vEthernet (Ethernet) 2", one), "Ethernet="+one, "LAN="+two), "Ethernet", ""},
		"virtual adapter with its own MAC address":            {on(virtual("vEthernet (Ethernet) 2", two), "Ethernet="+one), "Ethernet", ""},
		"virtual adapter whose MAC address two adapters have": {on(virtual("vEthernet (LAN)", one), "Ethernet="+one, "LAN="+strings.ToUpper(one)), "LAN", ""},
		"virtual adapter without any hardware":                {on(virtual("vEthernet (Ethernet) 2", one)), "", ""},
		"adapter below is up":                                 {on(virtual("vEthernet (backup)", one)), "Backup", ""},
		"virtual switch of Hyper-V":                           {on(virtual("vEthernet (External)", one), "Ethernet="+one), "Ethernet", `virtual switch "External"`},
		"virtual switch on a team":                            {on(virtual("vEthernet (SET)", one), "NIC1="+one, "NIC2="+one), "", "Remove-VMSwitch"},
		"team":                                                {on(virtual("Team", one), "NIC1="+one, "NIC2="+two), "Team", "for example a team or a VPN"},
		"virtual adapter with a connector": {on(wicdapi.Interface{Name: "Odd", Virtual: true, Connector: true}, "Ethernet="+one), "Odd",
			""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := join.Adapter(test.facts, nil); got != test.adapter {
				t.Errorf("adapter %q, want %q", got, test.adapter)
			}
			input := join.CheckInput{Now: noon()}
			u := join.Check(test.facts, input)
			if (u != nil) != (test.refused != "") || u != nil && (u.Reason != api.ReasonAdapterUnsupported || !strings.Contains(u.Message, test.refused)) {
				t.Fatalf("refused with %+v, want %q", u, test.refused)
			}
			input.Interface = &v1alpha1.InstanceNetwork{Interface: "Backup"}
			if u := join.Check(test.facts, input); u != nil {
				t.Errorf("another interface is refused: %v", u)
			}
			test.facts.Joined = &wicdapi.Joined{}
			if u := join.Check(test.facts, join.CheckInput{Now: noon()}); u != nil {
				t.Errorf("a host that has joined is refused: %v", u)
			}
		})
	}
}
