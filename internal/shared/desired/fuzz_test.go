package desired

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// FuzzSubnets: accepted ranges become a single argument of a command line, and parse to the same ranges again.
func FuzzSubnets(f *testing.F) {
	f.Add("10.128.0.0/14/23,fd01::/48/64")
	f.Add("10.132.0.1/14")
	f.Add("10.0.0.0/8/24,10.0.0.0/8 --x")
	f.Fuzz(func(t *testing.T, text string) {
		cidrs, hostPrefixes, err := ParseSubnets(text)
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		for _, cidr := range cidrs {
			p, err := netip.ParsePrefix(cidr)
			if length := hostPrefixes[cidr]; err != nil || length <= p.Bits() || length > p.Addr().BitLen() {
				t.Errorf("of %q, nodes get a /%d (%v)", cidr, length, err)
			}
		}
		argument := subnets(cidrs, hostPrefixes)
		if strings.Trim(argument, "0123456789./,") != "" {
			t.Errorf("the argument is %q", argument)
		}
		if argument == "" {
			return
		}
		again, lengths, err := ParseSubnets(argument)
		if err != nil || subnets(again, lengths) != argument {
			t.Errorf("%q is read differently the second time: %v", argument, err)
		}
	})
}

// FuzzAllowFrom: accepted ranges are ordered, do not overlap, and contain each address that was allowed.
func FuzzAllowFrom(f *testing.F) {
	f.Add("10.0.7.7/16", "10.0.0.0/8", "192.0.2.1/32")
	f.Add("fd00::/64", "fd00::1/128", "::ffff:1.2.3.4/128")
	f.Add("0.0.0.0/0", "128.0.0.0/1", "")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		requested := []string{a, b, c}
		list, err := AllowFrom(v1alpha1.NetworkSpec{AllowFrom: requested})
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		again, err := AllowFrom(v1alpha1.NetworkSpec{AllowFrom: list})
		if err != nil || !slices.Equal(again, list) {
			t.Errorf("%q becomes %q (%v)", list, again, err)
		}
		var ranges []netip.Prefix
		for _, text := range list {
			p := netip.MustParsePrefix(text)
			if slices.ContainsFunc(ranges, p.Overlaps) || p != p.Masked() || p.Bits() == 0 {
				t.Errorf("%s of %q", p, list)
			}
			ranges = append(ranges, p)
		}
		for _, text := range requested {
			p := netip.MustParsePrefix(text)
			if !slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(p.Masked().Addr()) && r.Bits() <= p.Bits() }) {
				t.Errorf("%s is not in %q", p, list)
			}
		}
	})
}
