package hostapi

import (
	"net/netip"
	"strings"
	"testing"
)

func TestSameRangesAcceptsWindowsNotation(t *testing.T) {
	ranges := []string{"10.0.0.0/8", "192.0.2.1/32", "fd00:1::/64"}
	for list, same := range map[string]bool{
		"10.0.0.0/8,192.0.2.1/32,fd00:1::/64":                                    true,
		"192.0.2.1/255.255.255.255, fd00:1::/64, 10.0.0.0/255.0.0.0":             true,
		"192.0.2.1,fd00:1::-fd00:1::ffff:ffff:ffff:ffff,10.0.0.0-10.255.255.255": true,
		"192.0.2.1,192.0.2.1,fd00:1::/64,10.0.0.0/8":                             true,
		"192.0.2.1-192.0.2.1,fd00:1::/64,10.0.0.0/8":                             true,
		"*":                      false,
		"":                       false,
		"LocalSubnet,10.0.0.0/8": false,
		"10.0.0.0/8,192.0.2.1":   false,
		"10.0.0.0/8,192.0.2.1,fd00:1::/64,1.1.1.1":      false,
		"10.0.0.0/9,192.0.2.1,fd00:1::/64":              false,
		"10.0.0.0-10.255.255.254,192.0.2.1,fd00:1::/64": false,
		"10.0.0.1-10.255.255.255,192.0.2.1,fd00:1::/64": false,
		"10.0.0.0/255.0.255.0,192.0.2.1,fd00:1::/64":    false,
		"10.0.0.0/255.0.0.1,192.0.2.1,fd00:1::/64":      false,
		"10.0.0.0/-8,192.0.2.1,fd00:1::/64":             false,
		"10.0.0.0/33,192.0.2.1,fd00:1::/64":             false,
		"10.0.0.0-fd00::1,192.0.2.1,fd00:1::/64":        false,
	} {
		if got := SameRanges(list, ranges); got != same {
			t.Errorf("%q is the same: %t", list, got)
		}
	}
}

// FuzzRanges checks that lists that are considered equal contain the same prefix.
func FuzzRanges(f *testing.F) {
	f.Add("10.0.0.0/255.0.0.0,192.0.2.1", "10.0.0.0/8")
	f.Add("fd00::-fd00::ffff", "fd00::/112")
	f.Add("10.0.0.0/255.0.255.0", "10.0.0.0/8")
	f.Fuzz(func(t *testing.T, list, item string) {
		if checkRanges([]string{item}) != nil {
			return
		}
		if !SameRanges(item, []string{item}) {
			t.Errorf("%q is not itself", item)
		}
		if !SameRanges(list, []string{item}) {
			return
		}
		p := netip.MustParsePrefix(item)
		for text := range strings.SplitSeq(list, ",") {
			if got, ok := parseRange(strings.TrimSpace(text)); !ok || got != p {
				t.Errorf("%q of %q counts as %s", text, list, p)
			}
		}
	})
}
