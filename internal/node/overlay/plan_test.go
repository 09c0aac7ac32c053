package overlay

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

func compare() cmp.Option {
	return cmp.Options{cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{}), cmpopts.EquateEmpty()}
}

func windowsNode(name, ip, subnet, mac string) Node {
	return Node{Name: name, Windows: true, Subnet: subnet, RouterMAC: mac, InternalIPs: []string{ip}}
}

func remote(prefix, host, mac string) hns.RemoteSubnet {
	return hns.RemoteSubnet{Prefix: netip.MustParsePrefix(prefix), VNI: VNI, Host: netip.MustParseAddr(host), RouterMAC: mac}
}

func TestNetworksOfAHost(t *testing.T) {
	own := netip.MustParsePrefix("10.132.1.0/24")
	base := hns.Network{
		Name: "BaseOVNKubernetesHybridOverlayNetwork", Type: hns.Overlay, Persistent: true,
		Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("100.64.0.0/30"), Gateway: netip.MustParseAddr("100.64.0.2"), VNI: 4098}},
	}
	pods := hns.Network{
		Name: "OVNKubernetesHybridOverlayNetwork", Type: hns.Overlay, HostRoute: true, AutomaticDNS: true,
		Subnets: []hns.Subnet{{Prefix: own, Gateway: netip.MustParseAddr("10.132.1.1"), VNI: 4097}},
	}
	with := func(port uint16, adapter string) []hns.Network {
		all := []hns.Network{base, pods}
		for i := range all {
			all[i].VXLANPort = port
		}
		all[0].Adapter = adapter // that of pods finds the switch of the base network
		return all
	}
	for name, test := range map[string]struct {
		settings Settings
		want     []hns.Network
	}{
		"Windows' port":           {Settings{}, with(0, "")},
		"Windows' port by number": {Settings{VXLANPort: 4789}, with(0, "")},
		"another port":            {Settings{VXLANPort: 9898}, with(9898, "")},
		"one of several adapters": {Settings{Adapter: "Ethernet 2"}, with(0, "Ethernet 2")},
		"the virtual one on it":   {Settings{Adapter: "vEthernet (Ethernet 2)"}, with(0, "Ethernet 2")},
		"the second virtual one":  {Settings{Adapter: "vEthernet (Ethernet) 2"}, with(0, "Ethernet")},
	} {
		if diff := cmp.Diff(test.want, test.settings.Networks(own), compare()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestMismatchedNetworksAreReplaced(t *testing.T) {
	wanted := Settings{}.Networks(netip.MustParsePrefix("10.132.1.0/24"))
	is := func(i int, id string, change func(*hns.Network)) hns.Network {
		n := wanted[i]
		n.ID, n.Subnets = id, slices.Clone(n.Subnets)
		n.ManagementIP, n.RouterMAC = netip.MustParseAddr("192.0.2.1"), "00-15-5D-00-00-01"
		if change != nil {
			change(&n)
		}
		return n
	}
	base, pods := is(0, "b", nil), is(1, "p", nil)
	for name, test := range map[string]struct {
		have           []hns.Network
		remove, create []string
	}{
		"nothing exists":     {nil, nil, []string{BaseNetwork, Network}},
		"everything exists":  {[]hns.Network{pods, base}, nil, nil},
		"only the base":      {[]hns.Network{base}, nil, []string{Network}},
		"only that of pods":  {[]hns.Network{pods}, nil, []string{BaseNetwork}},
		"networks of others": {[]hns.Network{is(1, "x", func(n *hns.Network) { n.Name = "vxlan0" }), base, pods}, nil, nil},
		"other subnet": {[]hns.Network{base, is(1, "p", func(n *hns.Network) { n.Subnets[0].Prefix = netip.MustParsePrefix("10.132.9.0/24") })},
			[]string{"p"}, []string{Network}},
		"other gateway": {[]hns.Network{base, is(1, "p", func(n *hns.Network) { n.Subnets[0].Gateway = netip.MustParseAddr("10.132.1.2") })},
			[]string{"p"}, []string{Network}},
		"other VNI":               {[]hns.Network{base, is(1, "p", func(n *hns.Network) { n.Subnets[0].VNI = 4096 })}, []string{"p"}, []string{Network}},
		"no subnet":               {[]hns.Network{base, is(1, "p", func(n *hns.Network) { n.Subnets = nil })}, nil, nil},
		"no type":                 {[]hns.Network{base, is(1, "p", func(n *hns.Network) { n.Type = "" })}, nil, nil},
		"a type in other letters": {[]hns.Network{base, is(1, "p", func(n *hns.Network) { n.Type = "overlay" })}, nil, nil},
		"no gateway":              {[]hns.Network{base, is(1, "p", func(n *hns.Network) { n.Subnets[0].Gateway = netip.Addr{} })}, nil, nil},
		"no VNI":                  {[]hns.Network{is(0, "b", func(n *hns.Network) { n.Subnets[0].VNI = 0 }), is(1, "p", func(n *hns.Network) { n.Subnets[0].VNI = 0 })}, nil, nil},
		"an unreadable subnet":    {[]hns.Network{base, is(1, "p", func(n *hns.Network) { n.Subnets[0].Prefix = netip.Prefix{} })}, nil, nil},
		"listed twice":            {[]hns.Network{base, pods, pods}, nil, nil},
		"a duplicate in use": {[]hns.Network{base, pods, is(1, "p2", func(n *hns.Network) {
			n.Remotes = []hns.RemoteSubnet{remote("10.132.2.0/24", "192.0.2.2", "00-15-5D-00-00-02")}
		})}, []string{"p"}, nil},
		"other type":          {[]hns.Network{base, is(1, "p", func(n *hns.Network) { n.Type = "L2Bridge" })}, []string{"p"}, []string{Network}},
		"a duplicate":         {[]hns.Network{base, pods, is(1, "p2", nil)}, []string{"p2"}, nil},
		"4789 is the default": {[]hns.Network{is(0, "b", func(n *hns.Network) { n.VXLANPort = 4789 }), pods}, nil, nil},
		"other port": {[]hns.Network{is(0, "b", func(n *hns.Network) { n.VXLANPort = 9898 }), is(1, "p", func(n *hns.Network) { n.VXLANPort = 9898 })},
			[]string{"p", "b"}, []string{BaseNetwork, Network}},
		"without the host's route": {[]hns.Network{base, is(1, "p", func(n *hns.Network) { n.HostRoute = false })}, nil, nil},
		"in use, host route not shown": {[]hns.Network{base, is(1, "p", func(n *hns.Network) {
			n.HostRoute, n.Remotes = false, []hns.RemoteSubnet{remote("10.132.2.0/24", "192.0.2.2", "00-15-5D-00-00-02")}
		})}, nil, nil},
	} {
		c := changeNetworks(test.have, wanted, nil)
		var remove, create []string
		for _, n := range c.remove {
			remove = append(remove, n.ID)
		}
		for _, n := range c.create {
			create = append(create, n.Name)
		}
		if diff := cmp.Diff([][]string{test.remove, test.create}, [][]string{remove, create}, compare()); diff != "" {
			t.Errorf("%s: removed and created (-want +got):\n%s", name, diff)
		}
		if len(c.why) != len(c.create) || c.isEmpty() != (len(test.remove)+len(test.create) == 0) {
			t.Errorf("%s: %d reasons for %d networks, empty %t", name, len(c.why), len(c.create), c.isEmpty())
		}
	}
}

// TestNetworkOnAnotherAdapter: Windows changes the names of adapters, and returns those of virtual ones. Only another address proves another adapter.
func TestNetworkOnAnotherAdapter(t *testing.T) {
	wanted := Settings{Adapter: "Ethernet 2", VXLANPort: 9898}.Networks(netip.MustParsePrefix("10.132.1.0/24"))[0]
	ownAddress, others, none := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1"), netip.Addr{}
	for _, test := range []struct {
		adapter string
		address netip.Addr
		port    uint16
		usable  bool
	}{
		{"Ethernet 2", ownAddress, 9898, true}, {"ethernet 2", others, 9898, true}, {"", others, 9898, true}, {"vEthernet (Ethernet 2)", others, 9898, true},
		{"vEthernet (Ethernet 2) 3", others, 9898, true}, {"LAN", ownAddress, 9898, true}, {"LAN", none, 9898, true}, {"LAN", others, 9898, false},
		{"vEthernet (Ethernet)", others, 9898, false}, {"Ethernet 2", ownAddress, 0, true}, {"Ethernet 2", ownAddress, 4789, false}, {"Ethernet 2", ownAddress, 9899, false},
	} {
		current := wanted
		current.Adapter, current.ManagementIP, current.VXLANPort = test.adapter, test.address, test.port
		if got := contradiction(current, wanted, []netip.Addr{ownAddress}); (got == "") != test.usable {
			t.Errorf("a network on %q with address %s and port %d: %q, usable %t", test.adapter, test.address, test.port, got, test.usable)
		}
		if got := contradiction(current, wanted, nil); strings.Contains(got, "adapter") {
			t.Errorf("a network on %q, while the node has no address: %q", test.adapter, got)
		}
	}
}

func TestRemotesOfTheNodesOfTheOverlay(t *testing.T) {
	own := windowsNode("win-1", "192.0.2.1", "10.132.1.0/24", "00-15-5D-00-00-01")
	linux := Node{Name: "linux-1", LinuxSubnets: `{"default":["10.128.2.0/23"]}`, RouterMAC: "0a:58:0a:80:02:03", InternalIPs: []string{"192.0.2.11"}}
	linuxRemote := remote("10.128.2.0/23", "192.0.2.11", "0A-58-0A-80-02-03")
	change := func(n Node, f func(*Node)) Node { f(&n); return n }
	for name, test := range map[string]struct {
		others  []Node
		want    []hns.RemoteSubnet
		without []string
	}{
		"the own Node": {[]Node{own}, nil, nil},
		"Windows node": {[]Node{windowsNode("win-2", "192.0.2.2", "10.132.2.0/24", "00-15-5D-00-00-02")}, []hns.RemoteSubnet{remote("10.132.2.0/24", "192.0.2.2", "00-15-5D-00-00-02")}, nil},
		"Linux node":   {[]Node{linux}, []hns.RemoteSubnet{linuxRemote}, nil},
		"older form":   {[]Node{change(linux, func(n *Node) { n.LinuxSubnets = `{"default":"10.128.2.0/23"}` })}, []hns.RemoteSubnet{linuxRemote}, nil},
		"dual stack": {[]Node{change(linux, func(n *Node) {
			n.LinuxSubnets, n.InternalIPs = `{"default":["fd01::/64","10.128.2.0/23"]}`, []string{"fd00::11", "192.0.2.11"}
		})}, []hns.RemoteSubnet{linuxRemote}, nil},
		"Linux node of another network": {[]Node{change(linux, func(n *Node) { n.LinuxSubnets, n.Subnet = "", "10.132.7.0/24" })},
			[]hns.RemoteSubnet{remote("10.132.7.0/24", "192.0.2.11", "0A-58-0A-80-02-03")}, nil},
		"Windows node with a Linux subnet": {[]Node{change(linux, func(n *Node) { n.Windows, n.Subnet = true, "10.132.7.0/24" })},
			[]hns.RemoteSubnet{remote("10.132.7.0/24", "192.0.2.11", "0A-58-0A-80-02-03")}, nil},
		"no MAC yet":                       {[]Node{change(linux, func(n *Node) { n.RouterMAC = "" })}, nil, nil},
		"no subnet yet":                    {[]Node{change(linux, func(n *Node) { n.LinuxSubnets = "" })}, nil, nil},
		"no address yet":                   {[]Node{change(linux, func(n *Node) { n.InternalIPs = nil })}, nil, nil},
		"IPv6 address only":                {[]Node{change(linux, func(n *Node) { n.InternalIPs = []string{"fd00::11"} })}, nil, nil},
		"wrong MAC":                        {[]Node{change(linux, func(n *Node) { n.RouterMAC = "0a:58" })}, nil, []string{"linux-1"}},
		"wrong subnet":                     {[]Node{change(linux, func(n *Node) { n.LinuxSubnets = "10.128.2.0/23" })}, nil, []string{"linux-1"}},
		"IPv6 subnet only":                 {[]Node{change(linux, func(n *Node) { n.LinuxSubnets = `{"default":["fd01::/64"]}` })}, nil, []string{"linux-1"}},
		"own address":                      {[]Node{change(linux, func(n *Node) { n.InternalIPs = []string{"192.0.2.1"} })}, nil, []string{"linux-1"}},
		"own subnet":                       {[]Node{change(linux, func(n *Node) { n.LinuxSubnets = `{"default":"10.132.1.0/24"}` })}, nil, []string{"linux-1"}},
		"subnet of another":                {[]Node{change(linux, func(n *Node) { n.Name = "linux-2" }), linux}, nil, []string{"linux-1", "linux-2"}},
		"address with leading zeros":       {[]Node{change(linux, func(n *Node) { n.InternalIPs = []string{"192.0.002.011"} })}, []hns.RemoteSubnet{linuxRemote}, nil},
		"no address":                       {[]Node{change(linux, func(n *Node) { n.InternalIPs = []string{"192.0.2.256", "10.0.0.1.2"} })}, nil, []string{"linux-1"}},
		"a second one can be used":         {[]Node{change(linux, func(n *Node) { n.InternalIPs = []string{"linux-1", "192.0.2.11"} })}, []hns.RemoteSubnet{linuxRemote}, nil},
		"address of no host":               {[]Node{change(linux, func(n *Node) { n.InternalIPs = []string{"127.0.0.1"} })}, nil, []string{"linux-1"}},
		"no address in particular":         {[]Node{change(linux, func(n *Node) { n.InternalIPs = []string{"0.0.0.0"} })}, nil, []string{"linux-1"}},
		"address of another":               {[]Node{linux, windowsNode("win-2", "192.0.2.11", "10.132.2.0/24", "00-15-5D-00-00-02")}, []hns.RemoteSubnet{linuxRemote, remote("10.132.2.0/24", "192.0.2.11", "00-15-5D-00-00-02")}, nil},
		"wrong subnet, not of the overlay": {[]Node{change(linux, func(n *Node) { n.LinuxSubnets, n.RouterMAC = "none", "" })}, nil, nil},
	} {
		d := Settings{}.decide(own, test.others, nil)
		if diff := cmp.Diff(test.want, d.remotes, compare()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		var names []string
		for _, n := range d.refused {
			names = append(names, n.node)
		}
		if diff := cmp.Diff(test.without, names, compare()); diff != "" {
			t.Errorf("%s: unusable (-want +got):\n%s", name, diff)
		}
	}
}

func TestParsingRangesOfOVNKubernetes(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "[]",
		"10.132.0.0/14/23":              "[10.132.0.0/14]",
		"10.132.7.7/14":                 "[10.132.0.0/14]",
		"10.128.0.0/14/23,fd01::/48/64": "[10.128.0.0/14]",
		"10.128.0.0/14/23, 10.1.0.0/16": "[10.128.0.0/14 10.1.0.0/16]",
		"fd01::/48/64":                  "has no IPv4 range",
		"10.132.0.0":                    "is not a range such as",
		"10.132.0.0/14/x":               "is not a range such as",
		"10.132.0.0/14/23/24":           "is not a range such as",
		"10.132.0.0/14/14":              "a node cannot have a /14",
		"10.132.0.0/14/33":              "a node cannot have a /33",
		"10.132.0.0/14,":                "is not a range such as",
	} {
		ranges, err := parseRanges(text)
		got := fmt.Sprint(ranges)
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%q is read as %s, want %s", text, got, want)
		}
	}
}

func TestChangesOfRemotes(t *testing.T) {
	a, b, c := remote("10.132.2.0/24", "192.0.2.2", "00-15-5D-00-00-02"), remote("10.132.3.0/24", "192.0.2.3", "00-15-5D-00-00-03"), remote("10.128.2.0/23", "192.0.2.11", "0A-58-0A-80-02-03")
	lower := a
	lower.RouterMAC = "00:15:5d:00:00:02"
	moved := a
	moved.Host = netip.MustParseAddr("192.0.2.22")
	foreign := a
	foreign.VNI = 4096
	for name, test := range map[string]struct{ have, want, remove, add []hns.RemoteSubnet }{
		"nothing":                {nil, nil, nil, nil},
		"the same":               {[]hns.RemoteSubnet{b, a}, []hns.RemoteSubnet{a, b}, nil, nil},
		"written otherwise":      {[]hns.RemoteSubnet{lower}, []hns.RemoteSubnet{a}, nil, nil},
		"one more":               {[]hns.RemoteSubnet{a}, []hns.RemoteSubnet{a, b}, nil, []hns.RemoteSubnet{b}},
		"one less":               {[]hns.RemoteSubnet{lower, b}, []hns.RemoteSubnet{b}, []hns.RemoteSubnet{lower}, nil},
		"another host":           {[]hns.RemoteSubnet{a, b}, []hns.RemoteSubnet{moved, b}, []hns.RemoteSubnet{a}, []hns.RemoteSubnet{moved}},
		"of another program":     {[]hns.RemoteSubnet{foreign}, []hns.RemoteSubnet{b}, nil, []hns.RemoteSubnet{b}},
		"a duplicate":            {[]hns.RemoteSubnet{a, a}, []hns.RemoteSubnet{a}, nil, nil},
		"many at once, in order": {nil, []hns.RemoteSubnet{c, a, b}, nil, []hns.RemoteSubnet{c, a, b}},
	} {
		remove, add := changeRemotes(test.have, test.want)
		if diff := cmp.Diff([][]hns.RemoteSubnet{test.remove, test.add}, [][]hns.RemoteSubnet{remove, add}, compare()); diff != "" {
			t.Errorf("%s: removed and added (-want +got):\n%s", name, diff)
		}
	}
}

// FuzzAnnotations checks that any annotations give a remote subnet that Windows accepts, or none.
func FuzzAnnotations(f *testing.F) {
	f.Add("10.132.1.0/24", `{"default":["fd01::/64","10.128.2.0/23"]}`, "0a:58:0a:80:02:03", "192.0.2.1", true)
	f.Add("10.132.1.77/24", `{"default":"10.128.2.0/23"}`, "00-15-5D-0A-0B-0C", "::ffff:192.0.2.1", false)
	f.Add("::ffff:10.0.0.0/120", `{"default":[]}`, "0000.5e00.5301", "192.0.2.1", false)
	f.Add("0.0.0.0/0", `null`, "02:00:5e:10:00:00:00:01", "", false)
	f.Fuzz(func(t *testing.T, subnet, linux, mac, ip string, windows bool) {
		n := Node{Name: "n", Windows: windows, Subnet: subnet, LinuxSubnets: linux, RouterMAC: mac, InternalIPs: []string{ip}}
		d := Settings{}.decide(Node{Name: "own"}, []Node{n}, nil)
		if len(d.remotes) == 0 {
			for _, u := range d.refused {
				if len(u.err.Error()) > 700 {
					t.Errorf("an error of %d bytes", len(u.err.Error()))
				}
			}
			return
		}
		r := d.remotes[0]
		if !r.Prefix.Addr().Is4() || r.Prefix != r.Prefix.Masked() || r.Prefix.Bits() < 1 || r.Prefix.Bits() > 30 || !r.Host.Is4() || r.VNI != VNI {
			t.Errorf("remote subnet %+v", r)
		}
		if again, err := parseMAC(r.RouterMAC); err != nil || again != r.RouterMAC || len(again) != len("00-15-5D-0A-0B-0C") {
			t.Errorf("router address %q is read as %q (%v)", r.RouterMAC, again, err)
		}
		if remove, add := changeRemotes([]hns.RemoteSubnet{r}, []hns.RemoteSubnet{r}); len(remove)+len(add) > 0 {
			t.Errorf("a remote subnet differs from itself: removed %v, added %v", remove, add)
		}
		if gateway := (Settings{}).Networks(r.Prefix)[1].Subnets[0].Gateway; !r.Prefix.Contains(gateway) || gateway == r.Prefix.Addr() {
			t.Errorf("gateway %v of %v", gateway, r.Prefix)
		}
	})
}

// FuzzRangesOfFlags checks that a parsed range can be formatted and parsed again.
func FuzzRangesOfFlags(f *testing.F) {
	f.Add("10.128.0.0/14/23,fd01::/48/64")
	f.Add("10.132.0.1/14, 10.0.0.0/8")
	f.Fuzz(func(t *testing.T, text string) {
		ranges, err := parseRanges(text)
		if err != nil || len(ranges) == 0 {
			return
		}
		var written []string
		for _, r := range ranges {
			written = append(written, r.String())
		}
		again, err := parseRanges(strings.Join(written, ","))
		if err != nil || !slices.Equal(again, ranges) {
			t.Errorf("%q becomes %v, then %v (%v)", text, ranges, again, err)
		}
	})
}
