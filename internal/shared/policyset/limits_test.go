package policyset

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// scattered returns that many addresses that cannot be merged, beginning at a number.
func scattered(first uint32, count int) []netip.Prefix {
	var ranges []Range
	for i := range uint32(count) {
		ranges = append(ranges, Range{first + 2*i, first + 2*i})
	}
	return Prefixes(ranges)
}

// ofRules returns a set with one pod, which the rules isolate in both directions.
func ofRules(lists [][]netip.Prefix, rules ...Rule) Set {
	both := Directions{Ingress: true, Egress: true}
	return Set{
		Namespace: "shop", Unlisted: both, Policies: []Policy{{Name: "p", Isolates: both, Ingress: rules}}, Addresses: lists,
		Pods: []Pod{{Name: "web", UID: "u", Policies: []int{0}}},
	}
}

func TestLongListsAreSplitAmongACLs(t *testing.T) {
	list := scattered(1<<24, 2*hns.MaxACLEntries+1)
	set := ofRules([][]netip.Prefix{list}, Rule{Peers: new(0), Ports: []Port{{Protocol: hns.TCP, First: 80, Last: 80}}})
	result := ACLs(set, PodID{"web", "u"}, Facts{})
	checkACLs(t, result.ACLs)
	var got []netip.Prefix
	for _, a := range result.ACLs {
		got = append(got, a.Remote...)
		if a.Priority == grantPriority && !slices.Equal(a.LocalPorts, []hns.PortRange{{First: 80, Last: 80}}) {
			t.Errorf("a part of the list has ports %v", a.LocalPorts)
		}
	}
	if !slices.Equal(got, list) || len(result.ACLs) != 3+2 {
		t.Errorf("%d addresses became %d in %d ACLs", len(list), len(got), len(result.ACLs))
	}
}

// TestOversizedPoliciesClose: the fallback of the user can open it instead. The other direction stays as it is.
func TestOversizedPoliciesClose(t *testing.T) {
	var manyPorts, manyLists []Rule
	var lists [][]netip.Prefix
	for i := range maxACLs + 1 {
		lists = append(lists, scattered(1<<24+uint32(i)<<8, 1))
		manyPorts = append(manyPorts, Rule{Peers: new(i), Ports: []Port{{Protocol: hns.TCP, First: uint16(i) + 1, Last: uint16(i) + 1}}})
	}
	half := scattered(1<<25, maxEntries/2)
	for i := range maxInput/len(half) + 1 {
		manyLists = append(manyLists, Rule{Peers: new(i), AnyPort: true})
	}
	overlapping := make([][]netip.Prefix, len(manyLists))
	for i := range overlapping {
		overlapping[i] = append(slices.Clone(half), scattered(1<<28+uint32(i)<<8, 1)...)
	}
	for name, c := range map[string]struct {
		set  Set
		want Excess
	}{
		"ACLs": {ofRules(lists, manyPorts...), Excess{"ACLs", maxACLs + 1, maxACLs}},
		"addresses": {ofRules([][]netip.Prefix{scattered(1<<24, maxEntries+1)}, Rule{Peers: new(0), AnyPort: true}),
			Excess{"addresses and ports", maxEntries + 1, maxEntries}},
		"input": {ofRules(overlapping, manyLists...),
			Excess{"addresses before lists are merged", len(manyLists) * (len(half) + 1), maxInput}},
		"set": {Set{Namespace: "shop", Unlisted: Directions{Ingress: true}, Omitted: MaxSize + 9},
			Excess{"bytes for the policies of the namespace", MaxSize + 9, MaxSize}},
	} {
		for _, open := range []bool{false, true} {
			result := ACLs(c.set, PodID{"web", "u"}, Facts{Node: addresses("10.4.0.1"), OpenIfTooLarge: open})
			if result.Ingress == nil || *result.Ingress != c.want || result.Egress != nil {
				t.Errorf("%s: got excess %v and %v, want %v", name, result.Ingress, result.Egress, c.want)
			}
			var got []string
			for _, a := range result.ACLs {
				got = append(got, text(a))
			}
			want := []string{"100 Allow In 0 10.4.0.1/32", "65500 Block In 0", "65500 Block Out 0"}
			if open {
				want = []string{"65500 Allow In 0", "65500 Block Out 0"}
			}
			if name == "set" {
				want[len(want)-1] = "65500 Allow Out 0"
				if open {
					want = nil
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, open %t:\ngot  %q\nwant %q", name, open, got, want)
			}
		}
	}
	if text := (Excess{"ACLs", 700, 500}).String(); text != "700 ACLs are needed; at most 500 are allowed" {
		t.Errorf("an excess reads %q", text)
	}
}

// TestLimitsAreInclusive: one less than in the test above.
func TestLimitsAreInclusive(t *testing.T) {
	set := ofRules([][]netip.Prefix{scattered(1<<24, maxEntries)}, Rule{Peers: new(0), AnyPort: true})
	result := ACLs(set, PodID{"web", "u"}, Facts{})
	if result.Ingress != nil || len(result.ACLs) != maxEntries/hns.MaxACLEntries+2 {
		t.Errorf("got %d ACLs and %v", len(result.ACLs), result.Ingress)
	}
}
