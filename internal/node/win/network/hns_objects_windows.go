package network

import (
	"cmp"
	"encoding/json"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/Microsoft/hcsshim"
	"github.com/Microsoft/hcsshim/hcn"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// networkOf converts a network. Unreadable parts are omitted: other programs create networks, too.
func networkOf(from hcn.HostComputeNetwork) hns.Network {
	n := hns.Network{
		ID: strings.ToLower(from.Id), Name: from.Name, Type: hns.NetworkType(from.Type), Persistent: from.Flags&hcn.EnableNonPersistent == 0,
	}
	for _, ipam := range from.Ipams {
		for _, s := range ipam.Subnets {
			n.Subnets = append(n.Subnets, subnetOf(s))
		}
	}
	for _, p := range from.Policies {
		readPolicy(&n, p)
	}
	slices.SortFunc(n.Remotes, func(a, b hns.RemoteSubnet) int { return a.Prefix.Compare(b.Prefix) })
	return n
}

func subnetOf(from hcn.Subnet) hns.Subnet {
	var s hns.Subnet
	s.Prefix, _ = netip.ParsePrefix(from.IpAddressPrefix)
	for _, r := range from.Routes {
		if to, err := netip.ParsePrefix(r.DestinationPrefix); err == nil && to.Bits() == 0 {
			s.Gateway, _ = netip.ParseAddr(r.NextHop)
		}
	}
	for _, raw := range from.Policies {
		var p hcn.SubnetPolicy
		if json.Unmarshal(raw, &p) == nil && p.Type == hcn.VSID {
			s.VNI = settingsOf[hcn.VsidPolicySetting](p.Settings).IsolationId
		}
	}
	return s
}

// readPolicy adds one policy of a network to it.
func readPolicy(n *hns.Network, p hcn.NetworkPolicy) {
	switch p.Type {
	case hcn.NetAdapterName:
		n.Adapter = settingsOf[hcn.NetAdapterNameNetworkPolicySetting](p.Settings).NetworkAdapterName
	case hcn.InterfaceConstraint:
		n.Adapter = cmp.Or(n.Adapter, settingsOf[hcn.InterfaceConstraintPolicySetting](p.Settings).InterfaceAlias)
	case hcn.VxlanPort:
		n.VXLANPort = hns.OwnVXLANPort(settingsOf[hcn.VxlanPortPolicySetting](p.Settings).Port)
	case hcn.RemoteSubnetRoute:
		n.Remotes = append(n.Remotes, remoteOf(p))
	case hcn.HostRoute:
		n.HostRoute = true
	case hcn.AutomaticDNS:
		n.AutomaticDNS = settingsOf[hcn.AutomaticDNSNetworkPolicySetting](p.Settings).Enable
	case hcn.DrMacAddress:
		n.RouterMAC = macOf(settingsOf[hcn.DrMacAddressNetworkPolicySetting](p.Settings).Address)
	case hcn.ProviderAddress:
		n.ManagementIP, _ = netip.ParseAddr(settingsOf[hcn.ProviderAddressEndpointPolicySetting](p.Settings).ProviderAddress)
	}
}

// settingsOf decodes the settings of a policy; unreadable ones are empty.
func settingsOf[T any](raw json.RawMessage) (settings T) {
	_ = json.Unmarshal(raw, &settings)
	return settings
}

// remoteOf decodes a policy of type RemoteSubnetRoute.
func remoteOf(p hcn.NetworkPolicy) hns.RemoteSubnet {
	s := settingsOf[hcn.RemoteSubnetRoutePolicySetting](p.Settings)
	r := hns.RemoteSubnet{VNI: uint32(s.IsolationId), RouterMAC: macOf(s.DistributedRouterMacAddress)}
	r.Prefix, _ = netip.ParsePrefix(s.DestinationPrefix)
	r.Host, _ = netip.ParseAddr(s.ProviderAddress)
	return r
}

// macOf formats an address as Windows does, such as 00-15-5D-0A-0B-0C.
func macOf(text string) string {
	mac, err := net.ParseMAC(text)
	if err != nil {
		return text
	}
	return strings.ToUpper(strings.ReplaceAll(mac.String(), ":", "-"))
}

// endpointOf converts an endpoint; host are the namespaces of the host's own compartment.
func endpointOf(from hcn.HostComputeEndpoint, host []string) hns.Endpoint {
	e := hns.Endpoint{
		ID: strings.ToLower(from.Id), Network: strings.ToLower(from.HostComputeNetwork), Name: from.Name, MAC: macOf(from.MacAddress),
		Remote: from.Flags&hcn.EndpointFlagsRemoteEndpoint != 0, Namespace: strings.ToLower(from.HostComputeNamespace),
	}
	if len(from.IpConfigurations) > 0 {
		e.Address, _ = netip.ParseAddr(from.IpConfigurations[0].IpAddress)
	}
	e.Host = slices.Contains(host, e.Namespace)
	return e
}

// listedEndpoint is endpointOf for the first generation of the API.
func listedEndpoint(from hcsshim.HNSEndpoint, host []string) hns.Endpoint {
	e := hns.Endpoint{
		ID: strings.ToLower(from.Id), Network: strings.ToLower(from.VirtualNetwork), Name: from.Name, MAC: macOf(from.MacAddress),
		Remote: from.IsRemoteEndpoint,
	}
	if from.Namespace != nil {
		e.Namespace = strings.ToLower(from.Namespace.ID)
	}
	if address, ok := netip.AddrFromSlice(from.IPAddress); ok {
		e.Address = address.Unmap()
	}
	e.Host = e.Namespace != "" && slices.Contains(host, e.Namespace)
	return e
}

// listedLoadBalancer converts a policy list if it is a load balancer.
func listedLoadBalancer(from hcsshim.PolicyList) (b hns.LoadBalancer, ok bool) {
	b = hns.LoadBalancer{ID: strings.ToLower(from.ID)}
	for _, reference := range from.EndpointReferences {
		b.Endpoints = append(b.Endpoints, strings.ToLower(strings.TrimPrefix(reference, "/endpoints/")))
	}
	for _, raw := range from.Policies {
		p := settingsOf[hcsshim.ELBPolicy](raw)
		if p.Type != hcsshim.ExternalLoadBalancer {
			continue
		}
		ok, b.DSR = true, p.DSR
		b.SourceVIP, _ = netip.ParseAddr(p.SourceVIP)
		b.Protocol, b.External, b.Internal = hns.Protocol(p.Protocol), p.ExternalPort, p.InternalPort
		b.VIPs = addressesOf(p.VIPs)
	}
	return b, ok
}

// addressesOf returns the addresses that can be read.
func addressesOf(texts []string) (all []netip.Addr) {
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil {
			all = append(all, a)
		}
	}
	return all
}
