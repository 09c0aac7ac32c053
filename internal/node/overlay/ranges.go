package overlay

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Ranges are the ranges from which OVN-Kubernetes assigns a subnet to each node. They are empty if unknown.
type Ranges struct {
	// Cluster contains the ranges of Linux nodes, Hybrid those of the hybrid overlay: Windows nodes, and Linux nodes with another network.
	Cluster, Hybrid []netip.Prefix
}

// check returns why a subnet cannot belong to a node. If the node's ranges are unknown, the subnet must be outside of the others.
//
// The length of the subnet is not checked, except that it must be longer than that of the range. The length in OVN-Kubernetes' flags only applies to
// newly assigned subnets: a Node keeps a subnet of another length that it already has, and on OpenShift OVN-Kubernetes does not get the hostPrefix
// that the administrator has set.
func (r Ranges) check(subnet netip.Prefix, hybrid bool) error {
	name, allowed, others := "cluster network", r.Cluster, r.Hybrid
	if hybrid {
		name, allowed, others = "hybrid cluster network", r.Hybrid, r.Cluster
	}
	for _, item := range allowed {
		if item.Contains(subnet.Addr()) && item.Bits() < subnet.Bits() {
			return nil
		}
	}
	if len(allowed) > 0 {
		return fmt.Errorf("its subnet %s is not a part of the %s %v", subnet, name, allowed)
	}
	for _, item := range others {
		if item.Overlaps(subnet) {
			return fmt.Errorf("its subnet %s is not in the %s: it overlaps %s", subnet, name, item)
		}
	}
	return nil
}

// isRouted reports whether Linux nodes have a route to a subnet of the hybrid overlay. OVN-Kubernetes assigns subnets of all ranges, but routes only
// the first.
func (r Ranges) isRouted(subnet netip.Prefix) bool {
	return len(r.Hybrid) == 0 || r.Hybrid[0].Overlaps(subnet)
}

// parseRanges parses ranges in the form of OVN-Kubernetes' flags, such as 10.132.0.0/14/23,fd02::/48/64. IPv6 ranges are ignored,
// because Windows' overlays do not support them.
func parseRanges(text string) (ranges []netip.Prefix, err error) {
	if text == "" {
		return nil, nil
	}
	for entry := range strings.SplitSeq(text, ",") {
		r, err := parseRange(strings.TrimSpace(entry))
		if err != nil {
			return nil, fmt.Errorf("%.100q is not a range such as 10.132.0.0/14 or 10.132.0.0/14/23: %w", entry, err)
		}
		if r.Addr().Is4() {
			ranges = append(ranges, r)
		}
	}
	if len(ranges) == 0 {
		return nil, fmt.Errorf("%.100q has no IPv4 range", text)
	}
	return ranges, nil
}

// parseRange parses one range. The length of the nodes' subnets is checked and ignored.
func parseRange(entry string) (r netip.Prefix, err error) {
	parts := strings.SplitN(entry, "/", 3)
	if r, err = netip.ParsePrefix(strings.Join(parts[:min(len(parts), 2)], "/")); err != nil {
		return netip.Prefix{}, errors.New("invalid address or prefix length")
	}
	if len(parts) < 3 {
		return r.Masked(), nil
	}
	length, err := strconv.Atoi(parts[2])
	if err != nil {
		return netip.Prefix{}, errors.New("the second prefix length is not a number")
	}
	if length <= r.Bits() || length > r.Addr().BitLen() {
		return netip.Prefix{}, fmt.Errorf("a node cannot have a /%d of it", length)
	}
	return r.Masked(), nil
}
