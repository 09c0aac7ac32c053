package policyset

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"
)

// Range is an inclusive range of numbers: of IPv4 addresses, or of ports.
type Range struct {
	First, Last uint32
}

// RangeOf returns the addresses of an IPv4 prefix.
func RangeOf(prefix netip.Prefix) Range {
	first := Number(prefix.Masked().Addr())
	return Range{first, first | uint32(1<<(32-prefix.Bits())-1)}
}

// Number returns an IPv4 address as a number.
func Number(address netip.Addr) uint32 {
	bytes := address.As4()
	return binary.BigEndian.Uint32(bytes[:])
}

func address(number uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, number)))
}

// Everything is all IPv4 addresses.
func Everything() Range { return Range{0, 1<<32 - 1} }

// Union returns the numbers that are in any of the ranges, as the fewest ranges, in order.
func Union(ranges []Range) []Range {
	sorted := slices.Clone(ranges)
	slices.SortFunc(sorted, func(a, b Range) int { return cmp.Compare(a.First, b.First) })
	union := sorted[:0]
	for _, r := range sorted {
		if last := len(union) - 1; last >= 0 && uint64(r.First) <= uint64(union[last].Last)+1 {
			union[last].Last = max(union[last].Last, r.Last)
			continue
		}
		union = append(union, r)
	}
	return union
}

// Subtract returns the numbers that are in from and in none of the excepted ranges, as the fewest ranges, in order.
func Subtract(from Range, except []Range) []Range {
	var rest []Range
	next := uint64(from.First) // of a larger type, because it can be one more than the last number
	for _, e := range Union(except) {
		if uint64(e.Last) < next {
			continue
		}
		if e.First > from.Last {
			break
		}
		if uint64(e.First) > next {
			rest = append(rest, Range{uint32(next), e.First - 1})
		}
		next = uint64(e.Last) + 1
	}
	if next <= uint64(from.Last) {
		rest = append(rest, Range{uint32(next), from.Last})
	}
	return rest
}

// Prefixes returns the fewest prefixes that have exactly the addresses of the ranges, which Union or Subtract returned.
func Prefixes(ranges []Range) []netip.Prefix {
	prefixes := slices.Grow[[]netip.Prefix](nil, len(ranges)) // most ranges are one prefix
	for _, r := range ranges {
		for next, end := uint64(r.First), uint64(r.Last); next <= end; {
			aligned := bits.TrailingZeros64(next | 1<<32)
			size := min(aligned, bits.Len64(end-next+1)-1)
			prefixes = append(prefixes, netip.PrefixFrom(address(uint32(next)), 32-size))
			next += 1 << size
		}
	}
	return prefixes
}

// rangesOf is the inverse of Prefixes.
func rangesOf(prefixes []netip.Prefix) []Range {
	ranges := make([]Range, len(prefixes))
	for i, p := range prefixes {
		ranges[i] = RangeOf(p)
	}
	return Union(ranges)
}
