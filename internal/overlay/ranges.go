package overlay

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Ranges are the ranges from which OVN-Kubernetes assigns a subnet to each node. Empty if they are not known.
type Ranges struct {
	// Cluster are the ranges of Linux nodes, Hybrid those of the hybrid overlay: Windows nodes, and Linux nodes with another network.
	Cluster, Hybrid []Range
}

// Range is one range of addresses.
type Range struct {
	Prefix netip.Prefix
	// HostPrefix is the length of each node's prefix; 0 if it is not known.
	HostPrefix int
}

// String formats a range as in OVN-Kubernetes' flags.
func (r Range) String() string {
	if r.HostPrefix == 0 {
		return r.Prefix.String()
	}
	return fmt.Sprintf("%s/%d", r.Prefix, r.HostPrefix)
}

func (r Range) gives(subnet netip.Prefix) bool {
	return r.Prefix.Contains(subnet.Addr()) && subnet.Bits() >= r.Prefix.Bits() && (r.HostPrefix == 0 || subnet.Bits() == r.HostPrefix)
}

// check reports why a subnet cannot belong to a node. If the node's ranges are not known, the subnet must be outside of the others.
func (r Ranges) check(subnet netip.Prefix, hybrid bool) error {
	name, its, others := "cluster network", r.Cluster, r.Hybrid
	if hybrid {
		name, its, others = "hybrid cluster network", r.Hybrid, r.Cluster
	}
	for _, one := range its {
		if one.gives(subnet) {
			return nil
		}
	}
	if len(its) > 0 {
		return fmt.Errorf("its subnet %s is not a node's subnet of the %s %v", subnet, name, its)
	}
	for _, one := range others {
		if one.Prefix.Overlaps(subnet) {
			return fmt.Errorf("its subnet %s is not in the %s: it overlaps %s", subnet, name, one.Prefix)
		}
	}
	return nil
}

// parseRanges parses ranges in the form of OVN-Kubernetes' flags, such as 10.132.0.0/14/23,fd02::/48/64. IPv6 ranges are ignored,
// because Windows' overlays do not support them.
func parseRanges(text string) (ranges []Range, err error) {
	if text == "" {
		return nil, nil
	}
	for entry := range strings.SplitSeq(text, ",") {
		r, err := parseRange(strings.TrimSpace(entry))
		if err != nil {
			return nil, err
		}
		if r.Prefix.Addr().Is4() {
			ranges = append(ranges, r)
		}
	}
	if len(ranges) == 0 {
		return nil, fmt.Errorf("%q has no IPv4 range", text)
	}
	return ranges, nil
}

func parseRange(entry string) (r Range, err error) {
	parts := strings.SplitN(entry, "/", 3)
	if len(parts) == 3 {
		if r.HostPrefix, err = strconv.Atoi(parts[2]); err != nil {
			return Range{}, fmt.Errorf("%q is no range such as 10.132.0.0/14/23", entry)
		}
		entry = parts[0] + "/" + parts[1]
	}
	if r.Prefix, err = netip.ParsePrefix(entry); err != nil {
		return Range{}, fmt.Errorf("%q is no range such as 10.132.0.0/14/23", entry)
	}
	r.Prefix = r.Prefix.Masked()
	if len(parts) == 3 && (r.HostPrefix <= r.Prefix.Bits() || r.HostPrefix > r.Prefix.Addr().BitLen()) {
		return Range{}, fmt.Errorf("a node cannot have a /%d of range %s", r.HostPrefix, r.Prefix)
	}
	return r, nil
}
