package configure_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	wicdstate "github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

const deviceLess = "DeviceLessNicDisabled"

func overlay() *desired.Network {
	return &desired.Network{Name: hybridOverlay, MadeBy: "hybrid-overlay-node", Proxy: "kube-proxy", ServiceCIDR: "10.96.0.0/16"}
}

// TestStaticAddressIsKept: the value of the Host Network Service is set before the first network, and reset when the host leaves, unless a user
// had set it.
func TestStaticAddressIsKept(t *testing.T) {
	address := netip.MustParsePrefix("192.0.2.10/24")
	for name, test := range map[string]struct {
		build            int
		static           bool
		prepare          func(*sim.Windows)
		kept, after      bool
		restarted, noNet bool
	}{
		"static on Windows Server 2019": {build: 17763, static: true, kept: true, restarted: true},
		"static on Windows Server 2025": {build: 26100, static: true, kept: true, restarted: true},
		"static on Windows Server 2022": {build: 20348, static: true},
		"by DHCP":                       {build: 17763},
		"a network of the user's own":   {build: 17763, static: true, noNet: true},
		"the user has set it":           {build: 17763, static: true, prepare: func(w *sim.Windows) { w.EditHNSState(func(all map[string]uint32) { all[deviceLess] = 1 }) }, kept: true, after: true},
		"networks of others": {build: 17763, static: true, prepare: func(w *sim.Windows) {
			w.HNS().Add(hns.State{Networks: []hns.Network{{Name: "nat", Type: "NAT"}}})
		}, kept: true},
		"the network exists": {build: 17763, static: true, prepare: func(w *sim.Windows) {
			w.HNS().Add(hns.State{Networks: []hns.Network{{Name: hybridOverlay, Type: hns.Overlay}}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			// its only address is static, or from DHCP
			w, r := daemontest.NewHost(t, sim.WindowsOptions{NoQuirks: "what is found at the join decides", Build: test.build, Interfaces: []wicdapi.Interface{{
				Name: "Ethernet", Index: 4, DefaultRoute: true, DHCP: !test.static, Addresses: []netip.Prefix{address},
				States: []wicdapi.AddressState{{Address: address.Addr(), Static: test.static, State: "Preferred"}},
			}}})
			if test.prepare != nil {
				test.prepare(w)
			}
			const program = `C:\Windows\System32\svchost.exe`
			daemontest.MustWrite(t, w.Disk(), program, "x")
			daemontest.MustDeclare(t, w, desired.Service{Name: "hns", Description: "Host Network Service", Command: program})
			if err := w.Host().Services.Start(t.Context(), "hns"); err != nil {
				t.Fatal(err)
			}
			before := w.Service("hns").PID
			if !test.noNet {
				r.Desired.Network = overlay()
			}
			daemontest.MustJoin(t, w, r)
			if got := w.HNSState()[deviceLess] == 1; got != test.kept {
				t.Errorf("kept: %v, want %v", got, test.kept)
			}
			if got := w.Service("hns").PID != before; got != test.restarted {
				t.Errorf("service hns restarted: %v, want %v", got, test.restarted)
			}
			for range 2 { // a second join finds the value set, and a leave must still restore the former one
				daemontest.MustJoin(t, w, r)
			}
			daemontest.MustLeave(t, w, r.Cluster)
			if got := w.HNSState()[deviceLess] == 1; got != test.after {
				t.Errorf("kept after the host has left: %v, want %v", got, test.after)
			}
			if journal := daemontest.Journal(t, w); strings.Contains(journal, "value "+deviceLess+" of the Host Network Service set to 1") != (test.kept && !test.after) {
				t.Errorf("the journal: %s", journal)
			}
		})
	}
}

// TestSmallMTUIsReportedDuringJoin: Windows gives pods an MTU of 1450, and their packets are encapsulated.
func TestSmallMTUIsReportedDuringJoin(t *testing.T) {
	address := netip.MustParsePrefix("192.0.2.10/24")
	const want = `none: adapter \"Ethernet\" has an MTU of 1460: the MTU of pods is 1450, and VXLAN adds 50 bytes`
	for name, test := range map[string]struct {
		adapter  string
		mtu      uint32
		noNet    bool
		reported bool
	}{
		"of Google's cloud":           {adapter: "Ethernet", mtu: 1460, reported: true},
		"usual":                       {adapter: "Ethernet", mtu: 1500},
		"jumbo":                       {adapter: "Ethernet", mtu: 9001},
		"unknown":                     {adapter: "Ethernet"},
		"of a virtual adapter":        {adapter: "vEthernet (Ethernet)", mtu: 1410},
		"a network of the user's own": {adapter: "Ethernet", mtu: 1460, noNet: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := daemontest.NewHost(t, sim.WindowsOptions{NoQuirks: "what is found at the join decides", Interfaces: []wicdapi.Interface{
				{Name: "Management", Index: 3, MTU: 1300, Addresses: []netip.Prefix{netip.MustParsePrefix("198.51.100.1/24")}},
				{Name: test.adapter, Index: 4, DefaultRoute: true, DHCP: true, MTU: test.mtu, Addresses: []netip.Prefix{address}},
			}})
			if !test.noNet {
				r.Desired.Network = overlay()
			}
			daemontest.MustJoin(t, w, r)
			if journal := daemontest.Journal(t, w); strings.Contains(journal, want) != test.reported || strings.Contains(journal, "has an MTU of") != test.reported {
				t.Errorf("reported: %v, want %v; the journal: %s", !test.reported, test.reported, journal)
			}
		})
	}
}

// TestConflictingProgramsAreReportedDuringJoin: the host has Docker on no port of the node, and programs on ports of the node.
func TestConflictingProgramsAreReportedDuringJoin(t *testing.T) {
	at := netip.IPv4Unspecified()
	w, r := daemontest.NewHost(t, sim.WindowsOptions{Quirks: sim.Quirks{
		Setup: sim.SetupQuirks{Docker: true},
		Adapter: sim.AdapterQuirks{Listeners: []wicdapi.Listener{
			{Port: 10250, Address: at, PID: 812, Program: `C:\x\agent.exe`}, {Port: 10256, Address: at, PID: 813, Program: `C:\k\kube-proxy.exe`},
			{Port: 4789, Address: at, PID: 814, Program: `C:\x\tunnel.exe`, UDP: true}, {Port: 10250, Address: at, PID: 815, Program: `C:\x\game.exe`, UDP: true},
		}},
	}})
	if facts := daemontest.Facts(t, w); len(facts.Engines) != 1 || len(facts.Host.Listeners) != 4 {
		t.Errorf("engines %+v, listeners %+v", facts.Engines, facts.Host.Listeners)
	}
	r.Desired.Firewall = []desired.FirewallRule{{Name: "services", Protocol: desired.TCP, Ports: []uint16{10250, 10256}}, {Name: "VXLAN", Protocol: desired.UDP, Ports: []uint16{4789}}}
	daemontest.MustJoin(t, w, r)
	journal := daemontest.Journal(t, w)
	for text, isRecorded := range map[string]bool{
		"none: service docker is running": true, "agent.exe (process 812) at 0.0.0.0:10250": true, "tunnel.exe (process 814)": true, "kube-proxy.exe (process": false, "game.exe": false,
	} {
		if strings.Contains(journal, text) != isRecorded {
			t.Errorf("the journal has %q: %v, want %v: %s", text, !isRecorded, isRecorded, journal)
		}
	}
}

// TestExcludedPortsAreReportedDuringJoin: Windows may exclude other ports after its next start, so the host joins anyway.
func TestExcludedPortsAreReportedDuringJoin(t *testing.T) {
	excluded := []hostapi.PortRange{{First: 10200, Last: 10299}, {First: 50000, Last: 50099}}
	w, _ := daemontest.NewNode(t, sim.WindowsOptions{Quirks: sim.Quirks{Adapter: sim.AdapterQuirks{Excluded: excluded}}}, withRules)
	const want = "none: ports are excluded by Windows, so that no program can listen on them: 10250 (range 10200-10299), 10280 (range 10200-10299);"
	if journal := daemontest.Journal(t, w); !strings.Contains(journal, want) || !strings.Contains(journal, "netsh interface ipv4 add excludedportrange tcp") {
		t.Errorf("the journal does not contain %q: %s", want, journal)
	}
}

// TestAdapterSettingsAreRecordedBeforeFlannelNetwork: afterwards, Windows has already changed them.
func TestAdapterSettingsAreRecordedBeforeFlannelNetwork(t *testing.T) {
	flannel := func() *desired.Network {
		n := overlay()
		n.Once = true
		return n
	}
	create := func(w *sim.Windows) {
		_, _ = w.Adapter().CreateNetwork(t.Context(), hns.Network{Name: hybridOverlay, Type: hns.Overlay})
	}
	recorded := func(w *sim.Windows) string {
		r, err := wicdstate.ReadHostNetwork(w.Disk())
		if err != nil {
			t.Error(err)
		}
		return strings.TrimSpace(string(r.Phase) + " " + r.Before.Name)
	}
	const own = "making Ethernet"
	for name, test := range map[string]struct {
		network *desired.Network
		before  func(*sim.Windows)
		want    string
	}{
		"before":                                  {flannel(), func(*sim.Windows) {}, own},
		"the network exists":                      {flannel(), create, ""},
		"of the hybrid overlay":                   {overlay(), func(*sim.Windows) {}, ""},
		"a network of the user's own":             {nil, func(*sim.Windows) {}, ""},
		"the Host Network Service is unavailable": {flannel(), func(w *sim.Windows) { w.HNS().Stop() }, ""},
	} {
		w, r := daemontest.NewHost(t, sim.WindowsOptions{NoQuirks: "what is found at the join decides", Quirks: sim.Quirks{Adapter: sim.AdapterQuirks{LosesDNS: true}}})
		test.before(w)
		r.Desired.Network = test.network
		daemontest.MustJoin(t, w, r)
		if got := recorded(w); got != test.want {
			t.Errorf("%s: recorded %q, want %q", name, got, test.want)
		}
	}
	w, r := daemontest.NewHost(t, sim.WindowsOptions{NoQuirks: "what is found at the join decides", Quirks: sim.Quirks{Adapter: sim.AdapterQuirks{LosesDNS: true}}})
	r.Desired.Network = flannel()
	daemontest.MustJoin(t, w, r)
	create(w)
	w.HNS().Lose(w.HNS().State().Networks[0].ID)
	if again := daemontest.MustJoin(t, w, r); len(again.Changed) > 0 || recorded(w) != own {
		t.Errorf("after an interrupted attempt: recorded %q, changed %q", recorded(w), again.Changed)
	}
	r.Desired.Network = overlay()
	if daemontest.MustJoin(t, w, r); recorded(w) != "" {
		t.Errorf("with another provider: recorded %q", recorded(w))
	}
}
