package overlay

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// numbered returns Windows node number i.
func numbered(i int, subnet string) Node {
	return windowsNode(fmt.Sprintf("win-%d", i), fmt.Sprintf("192.0.2.%d", i), subnet, fmt.Sprintf("00-15-5D-00-00-%02X", i))
}

func numberedLinux(i int, subnet string) Node {
	n := numbered(i, "")
	n.Windows, n.LinuxSubnets = false, `{"default":"`+subnet+`"}`
	return n
}

func knownRanges() Ranges {
	return Ranges{Cluster: prefixes("10.128.0.0/14"), Hybrid: prefixes("10.132.0.0/14", "10.160.0.0/16")}
}

// names returns the Nodes with a remote subnet.
func (d decision) names() (all []string) {
	for _, r := range d.remotes {
		all = append(all, d.holders[r.Prefix])
	}
	slices.Sort(all)
	return all
}

func reports(neighbors []neighbor) (text string) {
	for _, n := range neighbors {
		text += n.node + ": " + n.err.Error() + "\n"
	}
	return text
}

// TestPrefixLengthOfNodeIsIgnored: OpenShift passes no prefix length to OVN-Kubernetes, and a Node keeps a subnet of another length that it
// had before.
func TestPrefixLengthOfNodeIsIgnored(t *testing.T) {
	for _, flag := range []string{"10.132.0.0/14/23", "10.132.0.0/14/24", "10.132.0.0/14"} {
		hybrid, err := parseRanges(flag)
		if err != nil {
			t.Fatal(err)
		}
		d := Settings{Ranges: Ranges{Hybrid: hybrid}}.decide(numbered(1, "10.132.0.0/24"), []Node{numbered(2, "10.132.1.0/24"), numbered(3, "10.132.2.0/23"), numbered(4, "10.132.4.0/26")}, nil)
		if got := d.names(); !slices.Equal(got, []string{"win-2", "win-3", "win-4"}) || d.own != nil {
			t.Errorf("ranges %s: remote subnets of %v, refused %s, own %v", flag, got, reports(d.refused), d.own)
		}
	}
}

func TestNodeSubnetsAreValidated(t *testing.T) {
	known := knownRanges()
	for name, test := range map[string]struct {
		ranges Ranges
		node   Node
		want   string // why it is refused
	}{
		"in the first range":               {known, numbered(2, "10.132.8.0/23"), ""},
		"in the second range":              {known, numbered(2, "10.160.8.0/24"), ""},
		"Linux node":                       {known, numberedLinux(2, "10.128.2.0/23"), ""},
		"the whole range":                  {known, numberedLinux(2, "10.128.0.0/14"), "its subnet 10.128.0.0/14 is not a part of the cluster network [10.128.0.0/14]"},
		"more than the range":              {known, numbered(2, "10.0.0.0/8"), "is not a part of the hybrid cluster network [10.132.0.0/14 10.160.0.0/16]"},
		"outside of the ranges":            {known, numbered(2, "8.8.8.0/23"), "is not a part of"},
		"Windows node among Linux nodes":   {known, numbered(2, "10.128.8.0/23"), "is not a part of the hybrid"},
		"Linux node among Windows nodes":   {known, numberedLinux(2, "10.132.10.0/23"), "is not a part of the cluster network"},
		"the same, hybrid ranges unknown":  {Ranges{Cluster: known.Cluster}, numbered(2, "10.128.8.0/23"), "its subnet 10.128.8.0/23 is not in the hybrid cluster network: it overlaps 10.128.0.0/14"},
		"the same, cluster ranges unknown": {Ranges{Hybrid: known.Hybrid}, numberedLinux(2, "10.132.8.0/24"), "is not in the cluster network: it overlaps 10.132.0.0/14"},
		"no room for a pod":                {known, numbered(2, "10.132.8.0/31"), `annotation k8s.ovn.org/hybrid-overlay-node-subnet: "10.132.8.0/31" is not an IPv4 subnet with 1 to 30 bits`},
		"no subnet":                        {known, numbered(2, "10.132.8.0"), "is not a subnet such as"},
		"no IPv4 subnet":                   {known, numbered(2, "fd00::/64"), "is not an IPv4 subnet"},
	} {
		t.Run(name, func(t *testing.T) {
			d := Settings{Ranges: test.ranges}.decide(numbered(1, "10.132.2.0/23"), []Node{test.node, numbered(5, "10.132.20.0/24")}, nil)
			want := []string{"win-2", "win-5"}
			if test.want != "" {
				want = want[1:]
			}
			if got := d.names(); !slices.Equal(got, want) || !strings.Contains(reports(d.refused), test.want) || test.want == "" && len(d.refused) > 0 {
				t.Errorf("remote subnets of %v, want %v; refused %s", got, want, reports(d.refused))
			}
			// The program on that host decides the same about itself.
			if own := (Settings{Ranges: test.ranges}).decide(test.node, nil, nil).own; (own == nil) != (test.want == "" && name != "in the second range") || own != nil && !strings.Contains(own.Error(), test.want) {
				t.Errorf("its own problem is %v", own)
			}
		})
	}
}

// TestNodeInSecondRangeIsReportedAndUsed: OVN-Kubernetes assigns subnets of all ranges, but makes Linux nodes route only the first.
func TestNodeInSecondRangeIsReportedAndUsed(t *testing.T) {
	s := Settings{Ranges: knownRanges()}
	d := s.decide(numbered(1, "10.132.2.0/23"), []Node{numbered(2, "10.160.8.0/24")}, nil)
	const want = "its subnet 10.160.8.0/24 is not in 10.132.0.0/14: OVN-Kubernetes routes only the first range of the hybrid cluster network to Linux nodes"
	if got := d.names(); !slices.Equal(got, []string{"win-2"}) || reports(d.limited) != "win-2: "+want+"\n" || d.own != nil {
		t.Errorf("remote subnets of %v, limited %s, own %v", got, reports(d.limited), d.own)
	}
	if d := s.decide(numbered(2, "10.160.8.0/24"), nil, nil); d.own == nil || d.own.Error() != want {
		t.Errorf("its own problem is %v", d.own)
	}
}

// TestClaimedSubnetOfAnotherNodeIsRejected: a Node writes its own annotations and addresses, so a kubelet, or anyone with its certificate,
// can claim any subnet.
func TestClaimedSubnetOfAnotherNodeIsRejected(t *testing.T) {
	change := func(n Node, f func(*Node)) Node { f(&n); return n }
	own, victim := numbered(1, "10.132.2.0/23"), numbered(5, "10.132.8.0/23")
	held := holders{netip.MustParsePrefix("10.132.8.0/23"): "win-5"}
	const unknown, several = "and it is unknown which had it first", "overlaps those of several other nodes"
	for name, test := range map[string]struct {
		held    holders
		others  []Node
		has     []string // Nodes with a remote subnet
		refused []string // others, with a part of the reason
		own     string   // why others refuse the subnet of this host
	}{
		"separate subnets": {others: []Node{victim, numbered(6, "10.132.10.0/23"), numbered(7, "10.160.8.0/24"), numberedLinux(8, "10.128.2.0/23")}, has: []string{"win-5", "win-6", "win-7", "win-8"}},

		"the whole subnet, while held":         {held: held, others: []Node{numbered(2, "10.132.8.0/23"), victim}, has: []string{"win-5"}, refused: []string{"win-2: its subnet 10.132.8.0/23 overlaps 10.132.8.0/23, which node win-5 has"}},
		"a part, while held":                   {held: held, others: []Node{numbered(2, "10.132.8.128/25"), victim}, has: []string{"win-5"}, refused: []string{"which node win-5 has"}},
		"more, while held":                     {held: held, others: []Node{numbered(2, "10.132.8.0/21"), victim, numbered(6, "10.132.12.0/24")}, has: []string{"win-5", "win-6"}, refused: []string{"which node win-5 has"}},
		"two parts, while held":                {held: held, others: []Node{numbered(2, "10.132.8.0/24"), numbered(3, "10.132.9.0/24"), victim}, has: []string{"win-5"}, refused: []string{"win-2: ", "win-3: "}},
		"while the victim has no router":       {held: held, others: []Node{numbered(2, "10.132.8.0/23"), change(victim, func(n *Node) { n.RouterMAC = "" })}, refused: []string{"which node win-5 has"}},
		"while the victim has no subnet":       {held: held, others: []Node{numbered(2, "10.132.8.0/23"), change(victim, func(n *Node) { n.Subnet = "" })}, refused: []string{"which node win-5 has"}},
		"from a holder that has another":       {held: held, others: []Node{numbered(6, "10.132.8.0/23"), change(victim, func(n *Node) { n.Subnet = "10.132.10.0/23" })}, has: []string{"win-5", "win-6"}},
		"from a holder that has left":          {held: held, others: []Node{numbered(6, "10.132.8.0/23")}, has: []string{"win-6"}},
		"from a holder that is Linux now":      {held: held, others: []Node{numbered(6, "10.132.8.0/23"), numberedLinux(5, "10.132.8.0/23")}, has: []string{"win-6"}, refused: []string{"win-5: its subnet 10.132.8.0/23 is not a part of the cluster network"}},
		"around several, not held":             {others: []Node{numbered(2, "10.132.8.0/21"), victim, numbered(6, "10.132.12.0/24")}, has: []string{"win-5", "win-6"}, refused: []string{"win-2: its subnet 10.132.8.0/21 " + several + ", such as 10.132.8.0/23 of node win-5"}},
		"around this host and another":         {others: []Node{numbered(2, "10.132.0.0/20"), victim}, has: []string{"win-5"}, refused: []string{"win-2: its subnet 10.132.0.0/20 " + several}},
		"twice around several":                 {others: []Node{numbered(2, "10.132.8.0/21"), numbered(3, "10.132.8.0/21"), numbered(4, "10.132.0.0/16"), victim, numbered(6, "10.132.12.0/24")}, has: []string{"win-5", "win-6"}, refused: []string{several, several, several}},
		"the whole subnet, not held":           {others: []Node{numbered(2, "10.132.8.0/23"), victim}, refused: []string{"win-2: its subnet 10.132.8.0/23 overlaps 10.132.8.0/23, which node win-5 claims, " + unknown, "win-5: its subnet 10.132.8.0/23 overlaps 10.132.8.0/23, which node win-2 claims, " + unknown}},
		"a part, not held":                     {others: []Node{numbered(2, "10.132.9.252/30"), victim, numbered(6, "10.132.12.0/24")}, has: []string{"win-6"}, refused: []string{"which node win-5 claims", "which node win-2 claims"}},
		"within one another":                   {others: []Node{numbered(2, "10.132.8.0/21"), victim, numbered(6, "10.132.8.0/24")}, refused: []string{unknown, unknown, unknown}},
		"a part without a router, not held":    {others: []Node{change(numbered(2, "10.132.9.252/30"), func(n *Node) { n.RouterMAC = "" }), victim}, refused: []string{"win-5: its subnet 10.132.8.0/23 overlaps 10.132.9.252/30, which node win-2 claims"}},
		"the subnet of this host, while held":  {held: holders{netip.MustParsePrefix("10.132.2.0/23"): "win-1"}, others: []Node{numbered(2, "10.132.2.0/23")}, refused: []string{"win-2: its subnet 10.132.2.0/23 overlaps 10.132.2.0/23, which node win-1 has"}},
		"the subnet of this host, not held":    {others: []Node{numbered(2, "10.132.2.0/23")}, refused: []string{"which node win-1 claims"}, own: "overlaps 10.132.2.0/23, which node win-2 claims"},
		"by this host":                         {held: holders{netip.MustParsePrefix("10.132.2.0/24"): "win-2"}, others: []Node{numbered(2, "10.132.2.0/24"), victim}, has: []string{"win-5"}, refused: []string{"win-2: its subnet 10.132.2.0/24 overlaps 10.132.2.0/23, the subnet of this node"}, own: "overlaps 10.132.2.0/24, which node win-2 has"},
		"a Linux node's, by a hybrid neighbor": {others: []Node{numbered(2, "10.128.8.0/24"), numberedLinux(8, "10.128.8.0/24")}, has: []string{"win-8"}, refused: []string{"win-2: its subnet 10.128.8.0/24 is not a part of the hybrid cluster network"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := Settings{Ranges: knownRanges()}.decide(own, test.others, test.held)
			refused := strings.Split(strings.TrimSuffix(reports(d.refused), "\n"), "\n")
			if len(d.refused) != len(test.refused) {
				t.Fatalf("refused %q, want %q", refused, test.refused)
			}
			for i, want := range test.refused {
				if !strings.Contains(refused[i], want) {
					t.Errorf("refused %q, want %q", refused[i], want)
				}
			}
			if got := d.names(); !slices.Equal(got, test.has) {
				t.Errorf("remote subnets of %v, want %v", got, test.has)
			}
			if (d.own == nil) != (test.own == "") || d.own != nil && !strings.Contains(d.own.Error(), test.own) {
				t.Errorf("its own problem is %v, want %q", d.own, test.own)
			}
		})
	}
}

func TestDuplicateNodeAddressIsReported(t *testing.T) {
	second := numbered(6, "10.132.10.0/23")
	second.InternalIPs = []string{"192.0.2.5"}
	d := Settings{}.decide(numbered(1, "10.132.2.0/23"), []Node{numbered(5, "10.132.8.0/23"), second}, nil)
	if got := d.names(); len(got) != 2 || reports(d.limited) != "win-6: its InternalIP 192.0.2.5 is also that of node win-5\n" {
		t.Errorf("remote subnets of %v, limited %s", got, reports(d.limited))
	}
}

func TestHoldersOfExistingRemoteSubnets(t *testing.T) {
	own, victim, twin := numbered(1, "10.132.2.0/23"), numbered(5, "10.132.8.0/23"), numbered(5, "10.132.8.0/23")
	twin.Name = "twin"
	found := []hns.RemoteSubnet{remote("10.132.8.0/23", "192.0.2.5", "00:15:5d:00:00:05"), remote("10.132.10.0/24", "192.0.2.7", "00-15-5D-00-00-07")}
	for name, test := range map[string]struct {
		others []Node
		want   holders
	}{
		"unchanged":       {[]Node{victim}, holders{netip.MustParsePrefix("10.132.8.0/23"): "win-5"}},
		"of two Nodes":    {[]Node{victim, twin}, holders{}},
		"another address": {[]Node{numbered(6, "10.132.8.0/23")}, holders{}},
		"removed Nodes":   {nil, holders{}},
	} {
		if got := (Settings{}).holdersOf(found, own, test.others); !maps.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// randomNodes returns Nodes: most have their own subnet, the others claim random ones.
func randomNodes(random *rand.Rand, nodes int) (all []Node) {
	for i := range nodes {
		n := numbered(i+1, fmt.Sprintf("10.132.%d.0/24", i))
		switch random.IntN(6) {
		case 0:
			n.Subnet = fmt.Sprintf("10.132.%d.%d/%d", random.IntN(nodes), random.IntN(256), 16+random.IntN(16))
		case 1:
			n.RouterMAC = ""
		case 2:
			n = numberedLinux(i+1, fmt.Sprintf("10.128.%d.0/%d", i, 23+random.IntN(4)))
		}
		all = append(all, n)
	}
	return all
}

// FuzzHostileNodes checks the invariants for any Nodes, some of which claim the subnets of others.
func FuzzHostileNodes(f *testing.F) {
	for i := range uint64(50) {
		f.Add(i, uint8(i), i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, size uint8, isStored bool) {
		random := rand.New(rand.NewPCG(seed, 1))
		nodes := randomNodes(random, 2+int(size)%40)
		s, held := Settings{Ranges: knownRanges()}, holders{}
		if isStored {
			held = s.decide(nodes[0], nodes[1:len(nodes)/2+1], nil).holders
		}
		own, others := nodes[0], nodes[1:]
		d := s.decide(own, others, held)
		checkDisjoint(t, own, d)

		mixed := slices.Clone(others)
		random.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		again := s.decide(own, mixed, held)
		if !slices.Equal(again.remotes, d.remotes) || !maps.Equal(again.holders, d.holders) || reports(again.refused) != reports(d.refused) || reports(again.limited) != reports(d.limited) {
			t.Errorf("another order of the Nodes: %v instead of %v", again, d)
		}
		if next := s.decide(own, others, d.holders); !slices.Equal(next.remotes, d.remotes) {
			t.Errorf("decided again: remote subnets %v instead of %v", next.remotes, d.remotes)
		}
		for subnet, node := range s.decide(own, others, d.holders).holders {
			if d.holders[subnet] != node {
				t.Errorf("%s goes from %q to %q", subnet, d.holders[subnet], node)
			}
		}
		// A new Node takes no subnet from a Node that has one, and blocks other claims only if it overlaps.
		hostile := random.IntN(len(others))
		before := s.decide(own, slices.Delete(slices.Clone(others), hostile, hostile+1), held)
		claimed, _, _ := others[hostile].prefix()
		for _, r := range before.remotes {
			if !slices.Contains(d.remotes, r) && (!r.Prefix.Overlaps(claimed) || held[r.Prefix] != "" && held[r.Prefix] != others[hostile].Name) && held[claimed] != others[hostile].Name {
				t.Errorf("%s with %s takes %v from its node", others[hostile].Name, claimed, r)
			}
		}
	})
}

func checkDisjoint(t *testing.T, own Node, d decision) {
	t.Helper()
	ownPrefix, _, _ := own.prefix()
	for i, r := range d.remotes {
		if i > 0 && (byPrefix(d.remotes[i-1], r) >= 0 || d.remotes[i-1].Prefix.Overlaps(r.Prefix)) || r.Prefix.Overlaps(ownPrefix) {
			t.Errorf("remote subnet %v of %v", r, d.remotes)
		}
		if d.holders[r.Prefix] == "" {
			t.Errorf("no node has %s", r.Prefix)
		}
	}
	for _, n := range slices.Concat(d.refused, d.limited) {
		if len(n.err.Error()) > 700 {
			t.Errorf("an error of %d bytes", len(n.err.Error()))
		}
	}
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
			s.Ranges = Ranges{Cluster: prefixes("10.128.0.0/14"), Hybrid: prefixes("10.132.0.0/14")}
		}
		own, victim := numbered(1, "10.132.2.0/23"), numbered(5, "10.132.8.0/23")
		before := s.decide(own, []Node{victim}, nil)
		others := []Node{
			windowsNode("a", "192.0.2.66", first, "00-15-5D-00-00-66"), windowsNode("b", "192.0.2.67", second, "00-15-5D-00-00-67"), victim,
			{Name: "c", LinuxSubnets: linux, Subnet: first, RouterMAC: "0a:58:0a:80:02:03", InternalIPs: []string{"192.0.2.68"}},
		}
		d := s.decide(own, others, before.holders)
		if !slices.Contains(d.remotes, before.remotes[0]) {
			t.Errorf("remote subnet %v is missing from %v", before.remotes, d.remotes)
		}
		checkDisjoint(t, own, d)
		for _, r := range d.remotes {
			if limited && (r.Prefix.Bits() <= 14 || r.Prefix.Addr().As4()[0] != 10 || r.Prefix.Addr().As4()[1]&^7 != 128) {
				t.Errorf("%s is in no range", r.Prefix)
			}
		}
	})
}

func TestHoldersFileRoundTrips(t *testing.T) {
	for name, want := range map[string]holders{
		"empty": {},
		"two":   {netip.MustParsePrefix("10.132.8.0/23"): "win-5", netip.MustParsePrefix("10.128.0.0/23"): "linux-1.example.com"},
	} {
		text, err := formatHolders(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseHolders(text)
		if diff := cmp.Diff(want, got, compare()); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestDamagedHoldersFileIsIgnored(t *testing.T) {
	for name, text := range map[string]string{
		"empty":            "",
		"cut":              `{"version":1,"subnets":{"10.132.8.0/2`,
		"followed by more": `{"version":1,"subnets":{}}}`,
		"other version":    `{"version":2,"subnets":{}}`,
		"unknown field":    `{"version":1,"subnets":{},"more":1}`,
		"overlapping":      `{"version":1,"subnets":{"10.132.8.0/23":"a","10.132.9.0/24":"b"}}`,
		"twice one node":   `{"version":1,"subnets":{"10.132.8.0/24":"a","10.132.9.0/24":"a"}}`,
		"host bits":        `{"version":1,"subnets":{"10.132.8.1/24":"a"}}`,
		"IPv6":             `{"version":1,"subnets":{"fd00::/64":"a"}}`,
		"all addresses":    `{"version":1,"subnets":{"0.0.0.0/0":"a"}}`,
		"no name":          `{"version":1,"subnets":{"10.132.8.0/24":""}}`,
		"odd name":         `{"version":1,"subnets":{"10.132.8.0/24":"a\nb"}}`,
		"long name":        `{"version":1,"subnets":{"10.132.8.0/24":"` + strings.Repeat("a", 254) + `"}}`,
	} {
		if got, err := parseHolders([]byte(text)); err == nil {
			t.Errorf("%s: read as %v", name, got)
		}
	}
}

// FuzzHolders checks that what is read from the file is bounded, has no overlaps, and is written in the same form.
func FuzzHolders(f *testing.F) {
	f.Add([]byte(`{"version":1,"subnets":{"10.132.8.0/24":"win-1","10.128.0.0/23":"linux-1"}}`))
	f.Add([]byte(`{"version":1,"subnets":{"10.132.8.0/16":"win-1"}} x`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parseHolders(text)
		if err != nil {
			if len(err.Error()) > 700+len(text) {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		written, err := formatHolders(got)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseHolders(written)
		if err != nil || !maps.Equal(again, got) || len(got) > maxHolders {
			t.Errorf("%q becomes %v, then %v (%v)", text, got, again, err)
		}
	})
}
