package network

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
)

// maxRoutes limits what is read of other programs' routes.
const maxRoutes = 1000

// parseRouteNames parses the names of the values in which Windows stores the routes of "route -p": destination, mask, gateway and
// metric, separated by commas. Others are ignored.
func parseRouteNames(names []string) (all []hostnetwork.Route) {
	for _, name := range names {
		fields := strings.Split(name, ",")
		if len(fields) != 4 {
			continue
		}
		to, errTo := netip.ParseAddr(fields[0])
		mask, errMask := netip.ParseAddr(fields[1])
		gateway, errGateway := netip.ParseAddr(fields[2])
		metric, err := strconv.ParseInt(fields[3], 10, 32) // -1: Windows chooses it
		if errTo != nil || errMask != nil || errGateway != nil || err != nil || !to.Is4() || !mask.Is4() || !gateway.Is4() {
			continue
		}
		length, bits := net.IPMask(mask.AsSlice()).Size()
		if bits == 0 || len(all) == maxRoutes {
			continue
		}
		all = append(all, hostnetwork.Route{To: netip.PrefixFrom(to, length).Masked(), Gateway: gateway, Metric: uint32(max(metric, 0))})
	}
	return all
}

// parseNetshRoutes parses the table of "netsh interface ipv4 show route". Its words depend on the language of Windows; metric, prefix,
// index and gateway, which follow each other, do not. A route without a gateway has the name of its interface instead.
func parseNetshRoutes(text string) (all []hostnetwork.Route) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		at := slices.IndexFunc(fields, func(f string) bool { p, err := netip.ParsePrefix(f); return err == nil && p.Addr().Is4() })
		if at < 1 || at+2 >= len(fields) || len(all) == maxRoutes {
			continue
		}
		metric, errMetric := strconv.ParseUint(fields[at-1], 10, 32)
		_, errIndex := strconv.ParseUint(fields[at+1], 10, 32)
		if errMetric != nil || errIndex != nil {
			continue
		}
		gateway, err := netip.ParseAddr(fields[at+2])
		if err != nil || !gateway.Is4() || at+3 != len(fields) {
			gateway = netip.IPv4Unspecified()
		}
		all = append(all, hostnetwork.Route{To: netip.MustParsePrefix(fields[at]).Masked(), Gateway: gateway, Metric: uint32(metric)})
	}
	return all
}

// routesOn returns the persistent routes that may belong to an interface with these subnets: their gateway is in one of them. For a route without
// a gateway, that is unknown. Default routes belong to the configuration of the interface, which Windows moves itself.
func routesOn(persistent []hostnetwork.Route, subnets []netip.Prefix) (all []hostnetwork.Route) {
	for _, r := range persistent {
		near := slices.ContainsFunc(subnets, func(s netip.Prefix) bool { return s.Contains(r.Gateway) })
		known := slices.ContainsFunc(all, func(o hostnetwork.Route) bool { return o.To == r.To && o.Gateway == r.Gateway })
		if r.To.Bits() > 0 && !r.To.Addr().IsMulticast() && !known && (near || r.Gateway.IsUnspecified()) {
			all = append(all, r)
		}
	}
	return all
}
