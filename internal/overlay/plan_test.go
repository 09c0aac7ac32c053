package overlay

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windows-machine-config/wmco/internal/hns"
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
			all[i].VXLANPort, all[i].Adapter = port, adapter
		}
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
	} {
		if diff := cmp.Diff(test.want, test.settings.networks(own), compare()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNetworksThatDoNotMatchAreReplaced(t *testing.T) {
	wanted := Settings{}.networks(netip.MustParsePrefix("10.132.1.0/24"))
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
		"nothing there":      {nil, nil, []string{BaseNetwork, Network}},
		"all there":          {[]hns.Network{pods, base}, nil, nil},
		"only the base":      {[]hns.Network{base}, nil, []string{Network}},
		"only that of pods":  {[]hns.Network{pods}, nil, []string{BaseNetwork}},
		"networks of others": {[]hns.Network{is(1, "x", func(n *hns.Network) { n.Name = "vxlan0" }), base, pods}, nil, nil},
		"other subnet": {[]hns.Network{base, is(1, "p", func(n *hns.Network) { n.Subnets[0].Prefix = netip.MustParsePrefix("10.132.9.0/24") })},
			[]string{"p"}, []string{Network}},
		"other gateway": {[]hns.Network{base, is(1, "p", func(n *hns.Network) { n.Subnets[0].Gateway = netip.MustParseAddr("10.132.1.2") })},
			[]string{"p"}, []string{Network}},
		"other VNI":    {[]hns.Network{base, is(1, "p", func(n *hns.Network) { n.Subnets[0].VNI = 4096 })}, []string{"p"}, []string{Network}},
		"no subnet":    {[]hns.Network{base, is(1, "p", func(n *hns.Network) { n.Subnets = nil })}, []string{"p"}, []string{Network}},
		"other type":   {[]hns.Network{base, is(1, "p", func(n *hns.Network) { n.Type = "L2Bridge" })}, []string{"p"}, []string{Network}},
		"there twice":  {[]hns.Network{base, pods, is(1, "p2", nil)}, []string{"p2"}, nil},
		"4789 is none": {[]hns.Network{is(0, "b", func(n *hns.Network) { n.VXLANPort = 4789 }), pods}, nil, nil},
		"other port": {[]hns.Network{is(0, "b", func(n *hns.Network) { n.VXLANPort = 9898 }), is(1, "p", func(n *hns.Network) { n.VXLANPort = 9898 })},
			[]string{"p", "b"}, []string{BaseNetwork, Network}},
		"not finished": {[]hns.Network{base, is(1, "p", func(n *hns.Network) { n.HostRoute = false })}, []string{"p"}, []string{Network}},
		"in use, host route not shown": {[]hns.Network{base, is(1, "p", func(n *hns.Network) {
			n.HostRoute, n.Remotes = false, []hns.RemoteSubnet{remote("10.132.2.0/24", "192.0.2.2", "00-15-5D-00-00-02")}
		})}, nil, nil},
	} {
		c := changeNetworks(test.have, wanted)
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

func TestNetworkOnAnotherAdapter(t *testing.T) {
	wanted := Settings{Adapter: "Ethernet 2"}.networks(netip.MustParsePrefix("10.132.1.0/24"))
	for adapter, want := range map[string]bool{"Ethernet 2": true, "ethernet 2": true, "": true, "Ethernet": false} {
		is := wanted[1]
		is.Adapter = adapter
		if got := satisfies(is, wanted[1]); got != want {
			t.Errorf("a network on %q matches: %t, want %t", adapter, got, want)
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
		"itself":       {[]Node{own}, nil, nil},
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
		"subnet of another":                {[]Node{change(linux, func(n *Node) { n.Name = "linux-2" }), linux}, []hns.RemoteSubnet{linuxRemote}, []string{"linux-2"}},
		"wrong subnet, not of the overlay": {[]Node{change(linux, func(n *Node) { n.LinuxSubnets, n.RouterMAC = "none", "" })}, nil, nil},
	} {
		got, _, without := Settings{}.remotes(own, test.others, nil)
		if diff := cmp.Diff(test.want, got, compare()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		var names []string
		for _, u := range without {
			names = append(names, u.node)
		}
		if diff := cmp.Diff(test.without, names, compare()); diff != "" {
			t.Errorf("%s: unusable (-want +got):\n%s", name, diff)
		}
	}
}

// A Node writes its own annotations and addresses: a kubelet, or anyone with its certificate, can claim any subnet.
func TestANodeDoesNotGetTheSubnetOfAnother(t *testing.T) {
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	node := func(i int, subnet string) Node {
		n := windowsNode(fmt.Sprintf("win-%d", i), fmt.Sprintf("192.0.2.%d", i), subnet, fmt.Sprintf("00-15-5D-00-00-%02X", i))
		n.Created = day.Add(time.Duration(i) * time.Hour)
		return n
	}
	linux := func(i int, subnet string) Node {
		n := node(i, "")
		n.Windows, n.LinuxSubnets = false, `{"default":"`+subnet+`"}`
		return n
	}
	change := func(n Node, f func(*Node)) Node { f(&n); return n }
	own, victim := node(1, "10.132.2.0/23"), node(5, "10.132.8.0/23")
	known := Ranges{
		Cluster: []Range{{netip.MustParsePrefix("10.128.0.0/14"), 23}},
		Hybrid:  []Range{{netip.MustParsePrefix("10.132.0.0/14"), 23}, {netip.MustParsePrefix("10.160.0.0/16"), 24}},
	}
	for name, test := range map[string]struct {
		ranges  Ranges
		held    holders
		others  []Node
		has     []string // Nodes with a remote subnet
		without string   // why another Node has none
	}{
		"each its own": {ranges: known, others: []Node{victim, node(6, "10.132.10.0/23"), node(7, "10.160.8.0/24"), linux(8, "10.128.2.0/23")}, has: []string{"win-5", "win-6", "win-7", "win-8"}},

		"a range larger than all":          {ranges: known, others: []Node{node(2, "10.132.0.0/15"), victim}, has: []string{"win-5"}, without: "win-2: its subnet 10.132.0.0/15 is not a node's subnet of the hybrid cluster network [10.132.0.0/14/23 10.160.0.0/16/24]"},
		"a part of a node's":               {ranges: known, others: []Node{node(2, "10.132.8.4/30"), victim}, has: []string{"win-5"}, without: "win-2: its subnet 10.132.8.4/30 is not a node's subnet"},
		"outside of the ranges":            {ranges: known, others: []Node{node(2, "8.8.8.0/23"), victim}, has: []string{"win-5"}, without: "win-2: its subnet 8.8.8.0/23 is not a node's subnet"},
		"the length of another range":      {ranges: known, others: []Node{node(2, "10.160.8.0/23"), victim}, has: []string{"win-5"}, without: "win-2: its subnet 10.160.8.0/23 is not a node's subnet"},
		"Windows node among Linux nodes":   {ranges: known, others: []Node{node(2, "10.128.8.0/23"), victim}, has: []string{"win-5"}, without: "win-2: its subnet 10.128.8.0/23 is not a node's subnet"},
		"Linux node among Windows nodes":   {ranges: known, others: []Node{linux(2, "10.132.10.0/23"), victim}, has: []string{"win-5"}, without: "win-2: its subnet 10.132.10.0/23 is not a node's subnet of the cluster network [10.128.0.0/14/23]"},
		"the same, hybrid ranges unknown":  {ranges: Ranges{Cluster: known.Cluster}, others: []Node{node(2, "10.128.8.0/23"), victim}, has: []string{"win-5"}, without: "win-2: its subnet 10.128.8.0/23 is not in the hybrid cluster network: it overlaps 10.128.0.0/14"},
		"the same, cluster ranges unknown": {ranges: Ranges{Hybrid: known.Hybrid}, others: []Node{linux(2, "10.132.8.0/24"), victim}, has: []string{"win-5"}, without: "win-2: its subnet 10.132.8.0/24 is not in the cluster network"},

		"all of it, by a younger node":         {ranges: known, others: []Node{node(6, "10.132.8.0/23"), victim}, has: []string{"win-5"}, without: "win-6: its subnet 10.132.8.0/23 overlaps 10.132.8.0/23, which node win-5 has"},
		"more than it, by a younger node":      {others: []Node{node(6, "10.132.0.0/15"), linux(4, "10.133.0.0/24"), victim}, has: []string{"win-4", "win-5"}, without: "win-6: its subnet 10.132.0.0/15 overlaps 10.132.2.0/23, which node win-1 has"},
		"a part, by a younger node":            {others: []Node{node(6, "10.132.9.252/30"), victim}, has: []string{"win-5"}, without: "win-6: its subnet 10.132.9.252/30 overlaps 10.132.8.0/23, which node win-5 has"},
		"around two, by a younger node":        {others: []Node{node(6, "10.136.0.0/16"), linux(4, "10.136.7.0/24"), linux(3, "10.136.9.0/24")}, has: []string{"win-3", "win-4"}, without: "which node win-4 has"},
		"by a node whose age is unknown":       {others: []Node{change(node(2, "10.132.8.0/24"), func(n *Node) { n.Created = time.Time{} }), victim}, has: []string{"win-5"}, without: "which node win-5 has"},
		"by an older node, while held":         {held: holders{victim.subnet(t): "win-5"}, others: []Node{node(2, "10.132.8.0/23"), victim}, has: []string{"win-5"}, without: "win-2: its subnet 10.132.8.0/23 overlaps 10.132.8.0/23, which node win-5 has"},
		"a part, by an older node, while held": {held: holders{victim.subnet(t): "win-5"}, others: []Node{node(2, "10.132.8.128/25"), victim}, has: []string{"win-5"}, without: "which node win-5 has"},
		"while the victim has no router":       {held: holders{victim.subnet(t): "win-5"}, others: []Node{node(2, "10.132.8.0/23"), change(victim, func(n *Node) { n.RouterMAC = "" })}, without: "win-2: its subnet 10.132.8.0/23 overlaps 10.132.8.0/23, which node win-5 has"},
		"by an older node, before":             {others: []Node{node(2, "10.132.8.0/23"), victim}, has: []string{"win-2"}, without: "win-5: its subnet 10.132.8.0/23 overlaps 10.132.8.0/23, which node win-2 has"},
		"that of this host":                    {ranges: known, held: holders{own.subnet(t): "win-0"}, others: []Node{node(0, "10.132.2.0/23")}, without: "win-0: its subnet 10.132.2.0/23 overlaps 10.132.2.0/23, which node win-1 has"},
		"from whom held it and has it no more": {ranges: known, held: holders{victim.subnet(t): "win-5"}, others: []Node{node(6, "10.132.8.0/23"), change(victim, func(n *Node) { n.Subnet = "10.132.10.0/23" })}, has: []string{"win-5", "win-6"}},
	} {
		t.Run(name, func(t *testing.T) {
			remotes, held, without := Settings{Ranges: test.ranges}.remotes(own, test.others, test.held)
			var has []string
			for _, w := range remotes {
				has = append(has, held[w.Prefix])
			}
			slices.Sort(has)
			reported := ""
			for _, u := range without {
				reported += u.node + ": " + u.err.Error()
			}
			if !slices.Equal(has, test.has) || !strings.Contains(reported, test.without) || test.without == "" && reported != "" {
				t.Errorf("remotes of %v, unusable %q", has, reported)
			}
		})
	}
}

// subnet is what the Node says.
func (n Node) subnet(t *testing.T) netip.Prefix {
	t.Helper()
	p, _, err := n.prefix()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParsingRangesOfOVNKubernetes(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "[]",
		"10.132.0.0/14/23":              "[10.132.0.0/14/23]",
		"10.132.7.7/14":                 "[10.132.0.0/14]",
		"10.128.0.0/14/23,fd01::/48/64": "[10.128.0.0/14/23]",
		"10.128.0.0/14/23, 10.1.0.0/16": "[10.128.0.0/14/23 10.1.0.0/16]",
		"fd01::/48/64":                  "has no IPv4 range",
		"10.132.0.0":                    "is no range such as",
		"10.132.0.0/14/x":               "is no range such as",
		"10.132.0.0/14/23/24":           "is no range such as",
		"10.132.0.0/14/14":              "a node cannot have a /14",
		"10.132.0.0/14/33":              "a node cannot have a /33",
		"10.132.0.0/14,":                "is no range such as",
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
		"somebody else's":        {[]hns.RemoteSubnet{foreign}, []hns.RemoteSubnet{b}, nil, []hns.RemoteSubnet{b}},
		"there twice":            {[]hns.RemoteSubnet{a, a}, []hns.RemoteSubnet{a}, nil, nil},
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
		remotes, _, without := Settings{}.remotes(Node{Name: "own"}, []Node{n}, nil)
		if len(remotes) == 0 {
			for _, u := range without {
				if len(u.err.Error()) > 700 {
					t.Errorf("an error of %d bytes", len(u.err.Error()))
				}
			}
			return
		}
		r := remotes[0]
		if !r.Prefix.Addr().Is4() || r.Prefix != r.Prefix.Masked() || r.Prefix.Bits() < 1 || r.Prefix.Bits() > 30 || !r.Host.Is4() || r.VNI != VNI {
			t.Errorf("remote subnet %+v", r)
		}
		if again, err := parseMAC(r.RouterMAC); err != nil || again != r.RouterMAC || len(again) != len("00-15-5D-0A-0B-0C") {
			t.Errorf("router address %q is read as %q (%v)", r.RouterMAC, again, err)
		}
		if remove, add := changeRemotes([]hns.RemoteSubnet{r}, []hns.RemoteSubnet{r}); len(remove)+len(add) > 0 {
			t.Errorf("a remote subnet differs from itself: removed %v, added %v", remove, add)
		}
		if gateway := (Settings{}).networks(r.Prefix)[1].Subnets[0].Gateway; !r.Prefix.Contains(gateway) || gateway == r.Prefix.Addr() {
			t.Errorf("gateway %v of %v", gateway, r.Prefix)
		}
	})
}

// FuzzClaims checks that any annotations of other nodes give remote subnets that do not overlap and are within the ranges, and that
// an existing one stays.
func FuzzClaims(f *testing.F) {
	f.Add("10.132.8.0/23", "10.132.8.0/23", `{"default":"10.128.8.0/23"}`, true)
	f.Add("10.132.8.0/30", "10.132.0.0/15", `{"default":"10.132.9.0/24"}`, false)
	f.Add("0.0.0.0/1", "128.0.0.0/1", "", false)
	f.Fuzz(func(t *testing.T, first, second, linux string, limited bool) {
		s := Settings{}
		if limited {
			s.Ranges = Ranges{
				Cluster: []Range{{netip.MustParsePrefix("10.128.0.0/14"), 23}},
				Hybrid:  []Range{{netip.MustParsePrefix("10.132.0.0/14"), 23}},
			}
		}
		own := windowsNode("win-1", "192.0.2.1", "10.132.2.0/23", "00-15-5D-00-00-01")
		victim := windowsNode("win-5", "192.0.2.5", "10.132.8.0/23", "00-15-5D-00-00-05")
		before, held, _ := s.remotes(own, []Node{victim}, nil)
		others := []Node{
			windowsNode("a", "192.0.2.66", first, "00-15-5D-00-00-66"), windowsNode("b", "192.0.2.67", second, "00-15-5D-00-00-67"), victim,
			{Name: "c", LinuxSubnets: linux, Subnet: first, RouterMAC: "0a:58:0a:80:02:03", InternalIPs: []string{"192.0.2.68"}},
		}
		remotes, has, _ := s.remotes(own, others, held)
		if !slices.Contains(remotes, before[0]) {
			t.Errorf("the remote subnet %v is lost; there are %v", before, remotes)
		}
		ownPrefix, _, _ := own.prefix()
		for i, w := range remotes {
			if i > 0 && (byPrefix(remotes[i-1], w) >= 0 || remotes[i-1].Prefix.Overlaps(w.Prefix)) || w.Prefix.Overlaps(ownPrefix) {
				t.Errorf("remote subnet %v of %v", w, remotes)
			}
			if has[w.Prefix] == "" {
				t.Errorf("no node has %s", w.Prefix)
			}
			if limited && (w.Prefix.Bits() != 23 || w.Prefix.Addr().As4()[0] != 10 || w.Prefix.Addr().As4()[1]&^7 != 128) {
				t.Errorf("%s is in no range", w.Prefix)
			}
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
