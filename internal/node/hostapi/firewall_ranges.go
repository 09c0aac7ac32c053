package hostapi

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// maxRanges is how many address ranges a rule may have.
const maxRanges = 80

// checkRanges rejects invalid address ranges, and the range of all addresses.
func checkRanges(ranges []string) error {
	if len(ranges) > maxRanges {
		return fmt.Errorf("%d address ranges; at most %d are allowed", len(ranges), maxRanges)
	}
	for _, r := range ranges {
		if p, err := netip.ParsePrefix(r); err != nil || p.Addr().Is4In6() || p.Bits() == 0 || p != p.Masked() {
			return fmt.Errorf("%.100q is not a range of addresses such as 10.0.0.0/16", r)
		}
	}
	return nil
}

// SameRanges reports whether a list of addresses from the Windows firewall contains exactly these ranges. Windows returns 10.0.0.0/8 as
// 10.0.0.0/255.0.0.0. It may return a single address with or without a mask, an IPv6 range as first and last address, and the list in another order
// (INetFwRule::get_RemoteAddresses).
func SameRanges(list string, ranges []string) bool {
	var current, want []netip.Prefix
	for text := range strings.SplitSeq(list, ",") {
		p, ok := parseRange(strings.TrimSpace(text))
		if !ok {
			return false
		}
		current = append(current, p)
	}
	for _, r := range ranges {
		p, err := netip.ParsePrefix(r)
		if err != nil {
			return false
		}
		want = append(want, p.Masked())
	}
	slices.SortFunc(current, netip.Prefix.Compare)
	slices.SortFunc(want, netip.Prefix.Compare)
	return slices.Equal(slices.Compact(current), slices.Compact(want))
}

// parseRange parses an address, an address with a prefix length or a mask, or the first and last address of a prefix.
func parseRange(text string) (netip.Prefix, bool) {
	if first, last, isPair := strings.Cut(text, "-"); isPair {
		return prefixOfEnds(first, last)
	}
	address, mask, hasMask := strings.Cut(text, "/")
	a, err := netip.ParseAddr(address)
	if err != nil {
		return netip.Prefix{}, false
	}
	length := a.BitLen()
	if hasMask {
		var ok bool
		if length, ok = lengthOf(mask); !ok {
			return netip.Prefix{}, false
		}
	}
	p, err := a.Prefix(length)
	return p, err == nil
}

// lengthOf returns the length of a prefix from its mask or from the length itself.
func lengthOf(mask string) (int, bool) {
	if n, err := strconv.Atoi(mask); err == nil {
		return n, n >= 0
	}
	a, err := netip.ParseAddr(mask)
	if err != nil {
		return 0, false
	}
	length, size := net.IPMask(a.AsSlice()).Size()
	return length, size > 0 // otherwise there are ones after a zero
}

// prefixOfEnds returns the prefix with this first and last address.
func prefixOfEnds(first, last string) (netip.Prefix, bool) {
	a, errA := netip.ParseAddr(strings.TrimSpace(first))
	b, errB := netip.ParseAddr(strings.TrimSpace(last))
	if errA != nil || errB != nil {
		return netip.Prefix{}, false
	}
	for length := range a.BitLen() + 1 {
		if p, err := a.Prefix(length); err == nil && p.Addr() == a && p.Contains(b) && !p.Contains(b.Next()) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}
