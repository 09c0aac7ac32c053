package ovn

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// A Range is divided into subnets for nodes.
type Range struct {
	Prefix netip.Prefix
	// Length is the length of a subnet.
	Length int
}

// defaultLength returns the length of a subnet if the configuration has none, like that of OpenShift's network operator for the
// hybrid overlay.
func defaultLength(p netip.Prefix) int {
	if p.Addr().Is4() {
		return 24
	}
	return 64
}

// parseRanges parses a comma-separated list of ranges. The length of the subnets is an optional third part, as in 10.128.0.0/14/23.
func parseRanges(purpose, text string) ([]Range, error) {
	var all []Range
	for part := range strings.SplitSeq(text, ",") {
		r, err := parseRange(strings.TrimSpace(part))
		if err != nil {
			return nil, configError("a range of the %s network: %v", purpose, err)
		}
		all = append(all, r)
	}
	return all, nil
}

func parseRange(text string) (Range, error) {
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 {
		return Range{}, fmt.Errorf("%q is not an address with a length", text)
	}
	p, err := netip.ParsePrefix(parts[0] + "/" + parts[1])
	if err != nil {
		return Range{}, err
	}
	r := Range{p.Masked(), defaultLength(p)}
	if len(parts) == 3 {
		if r.Length, err = strconv.Atoi(parts[2]); err != nil {
			return Range{}, fmt.Errorf("the length %q is not a number", parts[2])
		}
	}
	switch {
	case p.Addr().Is6() && r.Length != defaultLength(p):
		return Range{}, fmt.Errorf("IPv6 subnets have length 64, not %d", r.Length)
	case p.Addr().Is4() && r.Length > 32:
		return Range{}, fmt.Errorf("IPv4 has no length above 32")
	case r.Length <= p.Bits():
		return Range{}, fmt.Errorf("subnets of length %d do not divide a range of length %d", r.Length, p.Bits())
	}
	return r, nil
}

// A pool assigns subnets of ranges to owners.
type pool struct{ spans []*span }

type span struct {
	Range
	next   uint64 // the subnet with which the search for a free one starts: the one after the last that was assigned
	owners map[netip.Prefix]string
}

func newPool(ranges []Range) (*pool, error) {
	p := &pool{}
	for _, r := range ranges {
		if r.Length >= r.Prefix.Addr().BitLen() {
			return nil, &ExitError{Text: "a subnet without room for a host"} // with code 0, although it fails
		}
		p.spans = append(p.spans, &span{Range: r, owners: map[netip.Prefix]string{}})
	}
	return p, nil
}

// has reports whether the pool has a range of an address family.
func (p *pool) has(is4 bool) bool {
	for _, s := range p.spans {
		if s.Prefix.Addr().Is4() == is4 {
			return true
		}
	}
	return false
}

// keep assigns the subnet that an owner already has. It returns false if the subnet is outside of the ranges or has another
// owner. The length of the subnet is not checked.
func (p *pool) keep(owner string, subnet netip.Prefix) bool {
	for _, s := range p.spans {
		if !s.Prefix.Contains(subnet.Addr()) {
			continue
		}
		if other, owned := s.owners[subnet]; owned && other != owner {
			return false
		}
		s.owners[subnet] = owner
		return true
	}
	return false
}

// assign returns the subnet of an owner, or assigns the next free one. It returns false if all are in use.
func (p *pool) assign(owner string, is4 bool) (netip.Prefix, bool) {
	for _, s := range p.spans {
		if s.Prefix.Addr().Is4() != is4 {
			continue
		}
		if subnet, ok := s.assign(owner); ok {
			return subnet, true
		}
	}
	return netip.Prefix{}, false
}

func (s *span) assign(owner string) (netip.Prefix, bool) {
	for subnet, other := range s.owners {
		if other == owner {
			return subnet, true
		}
	}
	count := uint64(1) << min(s.Length-s.Prefix.Bits(), 24)
	for i := range count {
		number := (s.next + i) % count
		subnet, ok := s.subnet(number)
		if _, owned := s.owners[subnet]; !ok || owned {
			continue
		}
		s.owners[subnet], s.next = owner, number+1
		return subnet, true
	}
	s.next = 0
	return netip.Prefix{}, false
}

// subnet returns the subnet with a number, in the order of the cluster manager: if an octet has bits of both subnet and host,
// subnets with zeros in this octet come first, as in 10.128.0.0/23, 10.129.0.0/23, ..., 10.128.2.0/23. IPv6 subnets whose last
// word is zero are skipped.
func (s *span) subnet(number uint64) (netip.Prefix, bool) {
	bits := s.Length - s.Prefix.Bits()
	if s.Prefix.Addr().Is6() {
		if bits >= 16 && number&0xffff == 0 {
			return netip.Prefix{}, false
		}
		address := s.Prefix.Addr().As16()
		binary.BigEndian.PutUint64(address[:8], binary.BigEndian.Uint64(address[:8])|number<<(64-s.Length))
		return netip.PrefixFrom(netip.AddrFrom16(address), s.Length), true
	}
	host := 32 - s.Length
	if shared := (8 - host%8) % 8; shared > 0 && (host-1)/8 != (host+bits-1)/8 {
		others := bits - shared
		number = number&(1<<others-1)<<shared | number>>others
	}
	address := s.Prefix.Addr().As4()
	binary.BigEndian.PutUint32(address[:], binary.BigEndian.Uint32(address[:])|uint32(number)<<host)
	return netip.PrefixFrom(netip.AddrFrom4(address), s.Length), true
}

// release frees all subnets of an owner.
func (p *pool) release(owner string) {
	for _, s := range p.spans {
		for subnet, other := range s.owners {
			if other == owner {
				delete(s.owners, subnet)
			}
		}
	}
}
