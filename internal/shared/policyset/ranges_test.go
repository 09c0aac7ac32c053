package policyset

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// TestRangeOperations compares unions, differences and prefixes with sets of single numbers, at the beginning and the end of the
// addresses.
func TestRangeOperations(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	const width = 64
	for n := range 2000 {
		base := uint32(0)
		if n%2 == 1 {
			base = 1<<32 - width
		}
		ranges := func() (ranges []Range, members map[uint32]bool) {
			members = map[uint32]bool{}
			for range random.IntN(6) {
				first := random.Uint32N(width)
				last := first + random.Uint32N(min(20, width-first))
				ranges = append(ranges, Range{base + first, base + last})
				for i := first; i <= last; i++ {
					members[base+i] = true
				}
			}
			return ranges, members
		}
		a, inA := ranges()
		except, inExcept := ranges()
		before := slices.Clone(a)
		union := Union(a)
		rest := Subtract(Range{base + 5, base + width - 1}, except)
		if !slices.Equal(a, before) {
			t.Fatalf("Union changed its argument from %v to %v", before, a)
		}
		for i := range uint32(width) {
			if got := contains(union, base+i); got != inA[base+i] {
				t.Errorf("the union of %v has %d: %t", a, base+i, got)
			}
			if got, want := contains(rest, base+i), i >= 5 && !inExcept[base+i]; got != want {
				t.Errorf("without %v, %d remains: %t", except, base+i, got)
			}
		}
		for _, list := range [][]Range{union, rest} {
			if !slices.Equal(list, Union(list)) {
				t.Errorf("%v could be shorter", list)
			}
			prefixes := Prefixes(list)
			if got := rangesOf(prefixes); !slices.Equal(got, list) {
				t.Errorf("%v became %v and then %v", list, prefixes, got)
			}
			if err := checkAddresses(prefixes); len(prefixes) > 0 && err != nil {
				t.Errorf("%v: %v", prefixes, err)
			}
		}
	}
}

func contains(ranges []Range, n uint32) bool {
	return slices.ContainsFunc(ranges, func(r Range) bool { return r.First <= n && n <= r.Last })
}

func TestPrefixesAreMinimal(t *testing.T) {
	for _, c := range []struct {
		ranges []Range
		want   string
	}{
		{[]Range{Everything()}, "0.0.0.0/0"},
		{[]Range{{0, 0}}, "0.0.0.0/32"},
		{[]Range{{1<<32 - 1, 1<<32 - 1}}, "255.255.255.255/32"},
		{[]Range{{0x0a000000, 0x0affffff}}, "10.0.0.0/8"},
		{[]Range{{0x0a000001, 0x0a000006}}, "10.0.0.1/32 10.0.0.2/31 10.0.0.4/31 10.0.0.6/32"},
		{Subtract(Range{0x0a000000, 0x0a00000f}, []Range{{0x0a000004, 0x0a000007}}), "10.0.0.0/30 10.0.0.8/29"},
		{Subtract(Range{0x0a000000, 0x0a00000f}, []Range{Everything()}), ""},
	} {
		got := ""
		for i, p := range Prefixes(c.ranges) {
			if i > 0 {
				got += " "
			}
			got += p.String()
		}
		if got != c.want {
			t.Errorf("%v: got %s, want %s", c.ranges, got, c.want)
		}
	}
	if got := len(Prefixes(Subtract(Everything(), []Range{{12345, 12345}}))); got != 32 {
		t.Errorf("all addresses but one are %d prefixes, want 32", got)
	}
}

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}
