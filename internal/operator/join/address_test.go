package join_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// addresses returns the addresses of an interface, from CIDR notation.
func addresses(list ...string) []netip.Prefix {
	prefixes := []netip.Prefix{}
	for _, a := range list {
		prefixes = append(prefixes, netip.MustParsePrefix(a))
	}
	return prefixes
}

// several returns the interfaces of a host that has many.
func several() []wicdapi.Interface {
	return []wicdapi.Interface{
		{Name: "Backup", Addresses: addresses("192.168.7.2/24", "192.168.9.2/24")},
		{Name: "Ethernet 3", Addresses: addresses("169.254.8.8/16", "fe80::3/64")},
		{Name: "vEthernet (Ethernet 2)", Addresses: addresses("fe80::2/64", "2001:db8::2/64", "10.0.8.4/24"), Metric: 30},
		{Name: "Ethernet 2", Addresses: addresses()},
		{Name: "Ethernet", Addresses: addresses("fe80::1/64", "169.254.3.4/16", "10.0.0.7/24"), DefaultRoute: true, Metric: 25},
	}
}

func TestNodeIPIsOnSelectedInterface(t *testing.T) {
	byName := func(name string) *v1alpha1.InstanceNetwork { return &v1alpha1.InstanceNetwork{Interface: name} }
	byRange := func(cidr string) *v1alpha1.InstanceNetwork { return &v1alpha1.InstanceNetwork{CIDR: cidr} }
	for name, test := range map[string]struct {
		network          *v1alpha1.InstanceNetwork
		address, adapter string
	}{
		"default":                        {nil, "10.0.0.7", "Ethernet"},
		"empty selection":                {&v1alpha1.InstanceNetwork{}, "10.0.0.7", "Ethernet"},
		"name":                           {byName("Backup"), "192.168.7.2", "Backup"},
		"name in another case":           {byName("backup"), "192.168.7.2", "Backup"},
		"adapter below a virtual switch": {byName("Ethernet 2"), "10.0.8.4", "Ethernet 2"},
		"interface of a virtual switch":  {byName("vEthernet (Ethernet 2)"), "10.0.8.4", "Ethernet 2"},
		"range":                          {byRange("10.0.8.0/24"), "10.0.8.4", "Ethernet 2"}, // https://github.com/kubernetes/kubernetes/issues/44702
		"range with the second address":  {byRange("192.168.9.0/24"), "192.168.9.2", "Backup"},
		"range of one address":           {byRange("192.168.7.2/32"), "192.168.7.2", "Backup"},
		"range with host bits":           {byRange("10.0.8.77/24"), "10.0.8.4", "Ethernet 2"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := goodHost()
			facts.Host.Interfaces = several()
			if got := join.NodeIP(facts, test.network); got != test.address {
				t.Errorf("node IP %q, want %q", got, test.address)
			}
			if got := join.Adapter(facts, test.network); got != test.adapter {
				t.Errorf("adapter %q, want %q", got, test.adapter)
			}
			if u := join.Check(facts, join.CheckInput{Now: noon(), Interface: test.network}); u != nil {
				t.Errorf("refused: %v", u)
			}
		})
	}
}

// TestTrunkPortAdapterIsRefused expects a refusal only if the node would use that adapter.
func TestTrunkPortAdapterIsRefused(t *testing.T) {
	tagged := func(at int) wicdapi.Facts {
		facts := goodHost()
		facts.Host.Interfaces = several()
		facts.Host.Interfaces[at].VLAN = 12
		return facts
	}
	const backup, below, ethernet = 0, 3, 4
	second := &v1alpha1.InstanceNetwork{Interface: "Ethernet 2"}
	for _, test := range []struct {
		name    string
		tagged  int
		network *v1alpha1.InstanceNetwork
		refused bool
	}{
		{"trunk port on the default route", ethernet, nil, true},
		{"trunk port elsewhere", backup, nil, false},
		{"trunk port of the selected virtual switch", below, second, true},
		{"trunk port on the default route, another interface selected", ethernet, second, false},
	} {
		u := join.Check(tagged(test.tagged), join.CheckInput{Now: noon(), Interface: test.network})
		switch {
		case u == nil && test.refused:
			t.Errorf("%s: the host is not refused", test.name)
		case u != nil && (!test.refused || u.Reason != api.ReasonTrunkPortUnsupported || !strings.Contains(u.Message, "VLAN 12")):
			t.Errorf("%s: %s: %s", test.name, u.Reason, u.Message)
		}
	}
}

func TestHostWithoutNodeAddressIsRefused(t *testing.T) {
	only := func(i ...wicdapi.Interface) []wicdapi.Interface { return i }
	for name, test := range map[string]struct {
		network *v1alpha1.InstanceNetwork
		list    []wicdapi.Interface
		parts   []string
	}{
		"no such name": {&v1alpha1.InstanceNetwork{Interface: "Ethernet 7"}, several(), []string{
			`spec.network.interface is "Ethernet 7"`, "no interface of this name", `"Backup" (192.168.7.2/24, 192.168.9.2/24)`,
			`"Ethernet 2" (no address)`, `"Ethernet" (fe80::1/64, 169.254.3.4/16, 10.0.0.7/24, default route)`,
		}},
		"a name without IPv4":   {&v1alpha1.InstanceNetwork{Interface: "Ethernet 3"}, several(), []string{`"Ethernet 3", which has no IPv4 address`, `"Backup"`}},
		"no address in a range": {&v1alpha1.InstanceNetwork{CIDR: "10.9.0.0/16"}, several(), []string{"spec.network.cidr is 10.9.0.0/16", "no interface", `"Backup"`}},
		"only APIPA in a range": {&v1alpha1.InstanceNetwork{CIDR: "169.254.0.0/16"}, several(), []string{"no interface of the host has an address in it"}},
		"no range":              {&v1alpha1.InstanceNetwork{CIDR: "10.0.8.4"}, several(), []string{`spec.network.cidr is "10.0.8.4"`, "10.0.8.0/24"}},
		"no default route":      {nil, several()[:4], []string{"default route", "spec.network.interface or spec.network.cidr", `"Backup"`}},
		"a default route without an IPv4 address": {nil, only(several()[0], wicdapi.Interface{Name: "Ethernet", Addresses: addresses("169.254.3.4/16"), DefaultRoute: true}),
			[]string{"both a default route and an IPv4 address", "spec.network.interface"}},
		"IPv6 only": {nil, only(wicdapi.Interface{Name: "Ethernet", Addresses: addresses("fe80::1/64", "2001:db8::1/64")}), []string{"only IPv6 addresses", "2001:db8::1/64"}},
		"no address of use": {nil, only(wicdapi.Interface{Name: "Ethernet", Addresses: addresses("fe80::1/64", "169.254.3.4/16"), DefaultRoute: true}),
			[]string{"no interface of the host has an IPv4 address", "169.254.3.4/16"}},
		"no interface": {nil, nil, []string{"no interface is up"}},
	} {
		t.Run(name, func(t *testing.T) {
			facts := goodHost()
			facts.Host.Interfaces = test.list
			u := join.Check(facts, join.CheckInput{Now: noon(), Interface: test.network})
			if u == nil || u.Reason != api.ReasonAddressMissing {
				t.Fatalf("Check() = %v, want reason %s", u, api.ReasonAddressMissing)
			}
			for _, part := range test.parts {
				if !strings.Contains(u.Message, part) {
					t.Errorf("message %q does not contain %q", u.Message, part)
				}
			}
			if ip := join.NodeIP(facts, test.network); ip != "" {
				t.Errorf("it has the node IP %s all the same", ip)
			}
		})
	}
}

// TestInterfaceListIsBounded has as many interfaces as an answer may contain, with long names and many addresses.
func TestInterfaceListIsBounded(t *testing.T) {
	f := goodHost()
	f.Host.Interfaces = nil
	for i := range 128 {
		item := wicdapi.Interface{Name: fmt.Sprint(strings.Repeat("n", 4000), i)}
		for range 256 {
			item.Addresses = append(item.Addresses, netip.MustParsePrefix("192.0.2.1/24"))
		}
		f.Host.Interfaces = append(f.Host.Interfaces, item)
	}
	u := join.Check(f, join.CheckInput{Now: noon()})
	if u == nil || len(u.Message) > 4096 || !strings.HasSuffix(u.Message, "and 112 more") || !strings.Contains(u.Message, "252 more") {
		t.Errorf("the host is refused with %+v", u)
	}
}

// TestPreferredAddressIsChosen covers failover cluster addresses, which move to another host, and addresses that Windows does not
// use as source.
func TestPreferredAddressIsChosen(t *testing.T) {
	state := func(address, state string, skip, cluster bool) wicdapi.AddressState {
		return wicdapi.AddressState{Address: netip.MustParseAddr(address), State: state, SkipAsSource: skip, Cluster: cluster}
	}
	const first, second, third = "10.0.0.7", "10.0.0.8", "10.0.0.9"
	for name, test := range map[string]struct {
		states         []wicdapi.AddressState
		reached, joins string
		want           string
	}{
		"first address by default":                           {want: first},
		"reached at the second":                              {reached: second, want: second},       // https://github.com/microsoft/SDN/issues/315
		"reached elsewhere":                                  {reached: "203.0.113.1", want: first}, // https://github.com/kubernetes/kubernetes/issues/45583
		"node has the third":                                 {reached: second, joins: third, want: third},
		"node had another":                                   {reached: second, joins: "10.0.0.99", want: second},
		"first is a cluster address":                         {states: []wicdapi.AddressState{state(first, "Preferred", false, true)}, want: second}, // https://github.com/rancher/rancher/issues/22475
		"reached at a cluster address":                       {states: []wicdapi.AddressState{state(first, "Preferred", false, true)}, reached: first, want: second},
		"node has a cluster address":                         {states: []wicdapi.AddressState{state(first, "Preferred", false, true)}, joins: first, want: second},
		"first is skipped as source":                         {states: []wicdapi.AddressState{state(first, "Preferred", true, false)}, want: second},
		"reached at an address skipped as source":            {states: []wicdapi.AddressState{state(first, "Preferred", true, false)}, reached: first, want: first},
		"first is deprecated":                                {states: []wicdapi.AddressState{state(first, "Deprecated", false, false)}, want: second},
		"first two are tentative":                            {states: []wicdapi.AddressState{state(first, "Tentative", false, false), state(second, "Tentative", false, false)}, want: third},
		"only cluster addresses":                             {states: []wicdapi.AddressState{state(first, "Preferred", false, true), state(second, "", false, true), state(third, "", true, true)}, want: first},
		"address skipped as source before a cluster address": {states: []wicdapi.AddressState{state(first, "", false, true), state(second, "Preferred", true, false), state(third, "", false, true)}, want: second},
	} {
		facts := goodHost()
		facts.Host.Interfaces = []wicdapi.Interface{
			{Name: "Backup", Addresses: addresses("203.0.113.1/24")},
			{Name: "Ethernet", Addresses: addresses(first+"/24", second+"/24", third+"/24"), States: test.states, DefaultRoute: true},
		}
		facts.Reached, _ = netip.ParseAddr(test.reached)
		if test.joins != "" {
			facts.Joined = &wicdapi.Joined{NodeIP: test.joins}
		}
		for _, network := range []*v1alpha1.InstanceNetwork{nil, {Interface: "ethernet"}, {CIDR: "10.0.0.0/24"}} {
			if got := join.NodeIP(facts, network); got != test.want {
				t.Errorf("%s: node IP %s, want %s", name, got, test.want)
			}
		}
	}
}
