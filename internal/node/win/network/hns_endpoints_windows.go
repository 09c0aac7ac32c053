package network

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/Microsoft/hcsshim"
	"github.com/Microsoft/hcsshim/hcn"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// List implements hostapi.Networks.
func (h *HNS) List(ctx context.Context) (hns.State, error) {
	return read(ctx, h, "looking at the Host Network Service", stateNow)
}

func stateNow() (s hns.State, err error) {
	if s.Networks, err = networksNow(); err != nil {
		return s, err
	}
	host, err := hostSpaces()
	if err != nil {
		return s, err
	}
	// The second generation of the API reads each object separately, and there can be thousands. The first returns all at once.
	endpoints, err := hcsshim.HNSListEndpointRequest()
	if err != nil {
		return s, err
	}
	for _, e := range endpoints {
		s.Endpoints = append(s.Endpoints, listedEndpoint(e, host))
	}
	balancers, err := hcsshim.HNSListPolicyListRequest()
	if err != nil {
		return s, err
	}
	for _, b := range balancers {
		if balancer, ok := listedLoadBalancer(b); ok {
			s.LoadBalancers = append(s.LoadBalancers, balancer)
		}
	}
	sortByID(s)
	return s, nil
}

// sortByID sorts endpoints and load balancers, as networksNow does with networks.
func sortByID(s hns.State) {
	slices.SortFunc(s.Endpoints, func(a, b hns.Endpoint) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortStableFunc(s.LoadBalancers, func(a, b hns.LoadBalancer) int { return cmp.Compare(a.ID, b.ID) })
}

// ReadObjects implements hostapi.Networks.
func (h *HNS) ReadObjects(ctx context.Context, endpoints []string) (hns.State, error) {
	ctx, cancel := context.WithTimeout(ctx, h.changeTimeout)
	defer cancel()
	var s hns.State
	err := h.run(ctx, h.objectReads, "reading each object of the Host Network Service", func() (err error) {
		s, err = closeState(endpoints)
		return err
	})
	if err != nil {
		return hns.State{}, ignoreNoHNS(err)
	}
	return s, nil
}

// closeState returns what the second generation of the API lists, and the endpoints with these IDs that the first generation has.
func closeState(ids []string) (s hns.State, err error) {
	if s.Networks, err = networksNow(); err != nil {
		return s, err
	}
	host, err := hostSpaces()
	if err != nil {
		return s, err
	}
	endpoints, err := listed(hcn.ListEndpoints)
	if err != nil {
		return s, err
	}
	for _, e := range endpoints {
		s.Endpoints = append(s.Endpoints, endpointOf(e, host))
	}
	for _, id := range ids {
		if slices.ContainsFunc(s.Endpoints, func(e hns.Endpoint) bool { return same(e.ID, id) }) {
			continue
		}
		if e, err := hcsshim.HNSEndpointRequest("GET", id, ""); err == nil && e != nil { // a missing one is an error without a code
			s.Endpoints = append(s.Endpoints, listedEndpoint(*e, host))
		}
	}
	balancers, err := listed(hcn.ListLoadBalancers)
	for _, b := range balancers {
		s.LoadBalancers = append(s.LoadBalancers, loadBalancersOf(b)...)
	}
	sortByID(s)
	return s, err
}

// loadBalancersOf converts a load balancer to one for each port.
func loadBalancersOf(from hcn.HostComputeLoadBalancer) (all []hns.LoadBalancer) {
	b := hns.LoadBalancer{ID: strings.ToLower(from.Id), DSR: from.Flags&hcn.LoadBalancerFlagsDSR != 0}
	b.SourceVIP, _ = netip.ParseAddr(from.SourceVIP)
	b.VIPs = addressesOf(from.FrontendVIPs)
	for _, e := range from.HostComputeEndpoints {
		b.Endpoints = append(b.Endpoints, strings.ToLower(e))
	}
	for _, p := range from.PortMappings {
		b.Protocol, b.External, b.Internal = hns.Protocol(p.Protocol), p.ExternalPort, p.InternalPort
		all = append(all, b)
	}
	return all
}

// hostSpaces returns the namespaces of the host's own compartment: one, or none before it has an endpoint.
func hostSpaces() ([]string, error) {
	all, err := listed(hcn.ListNamespaces)
	var ids []string
	for _, n := range all {
		if n.Type == hcn.NamespaceTypeHostDefault {
			ids = append(ids, strings.ToLower(n.Id))
		}
	}
	return ids, err
}

// CreateEndpoint implements hostapi.Networks.
func (h *HNS) CreateEndpoint(ctx context.Context, e hns.Endpoint) (hns.Endpoint, error) {
	var made hns.Endpoint
	err := h.change(ctx, fmt.Sprintf("creating endpoint %s on network %s", e.Name, e.Network), func() (err error) {
		made, err = createEndpoint(e)
		return err
	})
	if err != nil {
		return hns.Endpoint{}, err
	}
	return made, nil
}

func createEndpoint(e hns.Endpoint) (hns.Endpoint, error) {
	network, err := findNetwork(e.Network)
	if err != nil {
		return hns.Endpoint{}, err
	}
	others, err := hcsshim.HNSListEndpointRequest()
	if err != nil {
		return hns.Endpoint{}, err
	}
	for _, other := range others { // Windows allows duplicate names
		o := listedEndpoint(other, nil)
		if same(o.Network, e.Network) && (o.Name == e.Name || e.Address.IsValid() && o.Address == e.Address) {
			return hns.Endpoint{}, fmt.Errorf("endpoint %s, %s, %v: %w", o.ID, o.Name, o.Address, hns.ErrExists)
		}
	}
	wanted := &hcn.HostComputeEndpoint{Name: e.Name, HostComputeNetwork: network.Id, MacAddress: e.MAC, SchemaVersion: hcn.V2SchemaVersion()}
	if e.Remote {
		wanted.Flags = hcn.EndpointFlagsRemoteEndpoint
	}
	if e.Address.IsValid() {
		wanted.IpConfigurations = []hcn.IpConfig{{IpAddress: e.Address.String(), PrefixLength: prefixLength(networkOf(network), e)}}
	}
	made, err := wanted.Create()
	if err != nil || !e.Host {
		return asEndpoint(made, nil), err
	}
	space, err := attachToHost(made)
	if err != nil {
		return hns.Endpoint{}, errors.Join(err, made.Delete())
	}
	made.HostComputeNamespace = space
	return asEndpoint(made, []string{space}), nil
}

// asEndpoint is endpointOf for an endpoint that may be missing.
func asEndpoint(from *hcn.HostComputeEndpoint, host []string) hns.Endpoint {
	if from == nil {
		return hns.Endpoint{}
	}
	return endpointOf(*from, host)
}

// prefixLength returns the prefix length of the subnet that contains the endpoint's address.
func prefixLength(n hns.Network, e hns.Endpoint) uint8 {
	for _, s := range n.Subnets {
		if s.Prefix.Contains(e.Address) {
			return uint8(s.Prefix.Bits())
		}
	}
	return uint8(e.Address.BitLen())
}

// attachToHost adds an endpoint to the host's own compartment, and returns its namespace.
func attachToHost(e *hcn.HostComputeEndpoint) (space string, err error) {
	spaces, err := hostSpaces()
	if err != nil {
		return "", err
	}
	if len(spaces) == 0 {
		made, err := hcn.NewNamespace(hcn.NamespaceTypeHostDefault).Create()
		if err != nil {
			return "", fmt.Errorf("creating the namespace of the host: %w", asHNSError(err))
		}
		spaces = append(spaces, strings.ToLower(made.Id))
	}
	if err := e.NamespaceAttach(spaces[0]); err != nil {
		return "", fmt.Errorf("attaching it to the host: %w", asHNSError(err))
	}
	return spaces[0], nil
}

// Remove implements hostapi.Networks.
func (h *HNS) Remove(ctx context.Context, s hns.State) error {
	var failures error
	for _, b := range s.LoadBalancers {
		failures = errors.Join(failures, h.remove(ctx, "load balancer "+b.ID, (&hcn.HostComputeLoadBalancer{Id: b.ID}).Delete))
	}
	for _, e := range s.Endpoints {
		failures = errors.Join(failures, h.remove(ctx, "endpoint "+e.ID, (&hcn.HostComputeEndpoint{Id: e.ID}).Delete))
	}
	for _, n := range s.Networks {
		failures = errors.Join(failures, h.remove(ctx, "network "+n.ID, (&hcn.HostComputeNetwork{Id: n.ID}).Delete))
	}
	return failures
}

// remove removes an object; a missing one is not an error.
func (h *HNS) remove(ctx context.Context, what string, call func() error) error {
	err := h.change(ctx, "removing "+what, call)
	if errors.Is(err, hns.ErrNotFound) {
		return nil
	}
	return ignoreNoHNS(err)
}

// RemoveNamespace removes a namespace and the endpoints in it.
func (h *HNS) RemoveNamespace(ctx context.Context, id string) (removed bool, err error) {
	all, err := read(ctx, h, "looking for namespace "+id, func() ([]hcn.HostComputeNamespace, error) { return listed(hcn.ListNamespaces) })
	i := slices.IndexFunc(all, func(n hcn.HostComputeNamespace) bool { return same(n.Id, id) }) // reading an absent one has no specific error
	if err != nil || i < 0 {
		return false, err
	}
	space := &all[i]
	for _, r := range space.Resources {
		var endpoint hcn.HostComputeEndpoint
		if r.Type != hcn.NamespaceResourceTypeEndpoint || json.Unmarshal(r.Data, &endpoint) != nil {
			continue
		}
		if err := h.remove(ctx, fmt.Sprintf("endpoint %s of namespace %s", endpoint.Id, id), endpoint.Delete); err != nil {
			return false, err
		}
	}
	if err := h.remove(ctx, "namespace "+id, space.Delete); err != nil {
		return false, err
	}
	return true, nil
}
