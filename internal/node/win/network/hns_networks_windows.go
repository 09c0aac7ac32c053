package network

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/Microsoft/hcsshim"
	"github.com/Microsoft/hcsshim/hcn"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// Networks implements the port of the overlay: it returns the networks, ordered by ID.
func (h *HNS) Networks(ctx context.Context) ([]hns.Network, error) {
	return read(ctx, h, "looking at networks", networksNow)
}

func networksNow() ([]hns.Network, error) {
	all, err := listed(hcn.ListNetworks)
	if err != nil {
		return nil, err
	}
	var networks []hns.Network
	for _, n := range all {
		networks = append(networks, networkOf(n))
	}
	slices.SortFunc(networks, func(a, b hns.Network) int { return cmp.Compare(a.ID, b.ID) })
	return networks, nil
}

// findNetwork returns the network with an ID. hcn's own search is case-sensitive, and Windows uses upper case.
func findNetwork(id string) (hcn.HostComputeNetwork, error) {
	all, err := listed(hcn.ListNetworks)
	if err != nil {
		return hcn.HostComputeNetwork{}, err
	}
	i := slices.IndexFunc(all, func(n hcn.HostComputeNetwork) bool { return same(n.Id, id) })
	if i < 0 {
		return hcn.HostComputeNetwork{}, fmt.Errorf("network %s: %w", id, hns.ErrNotFound)
	}
	return all[i], nil
}

// tick is how often a new network without addresses is read.
const tick = 100 * time.Millisecond

// CreateNetwork implements the port of the overlay: it creates a network and returns it with its addresses. If it does not get
// them before ctx ends, the network exists without them. A duplicate name is hns.ErrExists.
func (h *HNS) CreateNetwork(ctx context.Context, n hns.Network) (hns.Network, error) {
	what := "creating network " + n.Name
	var made hns.Network
	err := h.change(ctx, what, func() (err error) {
		made, err = createNetwork(n)
		return err
	})
	if err != nil {
		return hns.Network{}, err
	}
	for !made.ManagementIP.IsValid() || made.Type == hns.Overlay && made.RouterMAC == "" {
		select {
		case <-ctx.Done():
			return hns.Network{}, fmt.Errorf("%s: waiting for its addresses: %w", what, ctx.Err())
		case <-time.After(tick):
		}
		var now hcn.HostComputeNetwork
		err := h.runRead(ctx, what+": waiting for its addresses", func() (err error) {
			now, err = findNetwork(made.ID)
			return err
		})
		if err != nil {
			return hns.Network{}, err
		}
		hasRoute := made.HostRoute // which Windows may not return
		made = networkOf(now)
		made.HostRoute = made.HostRoute || hasRoute
	}
	return made, nil
}

func createNetwork(n hns.Network) (hns.Network, error) {
	others, err := networksNow()
	if err != nil {
		return hns.Network{}, err
	}
	for _, other := range others { // Windows allows duplicate names
		if other.Name == n.Name {
			return hns.Network{}, fmt.Errorf("network %s: %w", other.ID, hns.ErrExists)
		}
	}
	if err := canHavePort(n.VXLANPort); err != nil {
		return hns.Network{}, err
	}
	made, err := documentOf(n).Create()
	if err != nil {
		return hns.Network{}, err
	}
	current := networkOf(*made)
	current.HostRoute = n.HostRoute && addHostRoute(made) == nil // only an existing network accepts it, and the network works without it
	return current, nil
}

// addHostRoute adds the host's own route to a network's endpoints. Builds before 18321 may refuse it.
func addHostRoute(n *hcn.HostComputeNetwork) error {
	return n.AddPolicy(hcn.PolicyNetworkRequest{Policies: []hcn.NetworkPolicy{policyOf(hcn.HostRoute, struct{}{})}})
}

// AddHostRoute implements the port of the overlay.
func (h *HNS) AddHostRoute(ctx context.Context, network string) error {
	return h.change(ctx, "adding the host's route to network "+network, func() error {
		n, err := findNetwork(network)
		if err != nil {
			return err
		}
		return addHostRoute(&n)
	})
}

// HasNetwork implements the port of the overlay, by the first generation of the API. A missing ID is an error without a code there, so its list
// decides.
func (h *HNS) HasNetwork(ctx context.Context, id string) (bool, error) {
	return read(ctx, h, "looking for network "+id, func() (bool, error) {
		if n, err := hcsshim.GetHNSNetworkByID(id); err == nil && n != nil && same(n.Id, id) {
			return true, nil
		}
		all, err := hcsshim.HNSListNetworkRequest("GET", "", "")
		return slices.ContainsFunc(all, func(n hcsshim.HNSNetwork) bool { return same(n.Id, id) }), err
	})
}

// canHavePort rejects a VXLAN port if the service would ignore it (VxlanPortVersion in hcn).
func canHavePort(port uint16) error {
	if hns.OwnVXLANPort(port) == 0 {
		return nil
	}
	globals, err := hcn.GetGlobals()
	if err != nil {
		return fmt.Errorf("reading the version of the Host Network Service: %w", err)
	}
	v, least := globals.Version, hcn.VxlanPortVersion[0].MinVersion
	if v.Major < least.Major || v.Major == least.Major && v.Minor < least.Minor {
		return fmt.Errorf("this Windows supports only VXLAN port %d: its Host Network Service is %d.%d, and port %[6]d needs %[4]d.%[5]d",
			hns.DefaultVXLANPort, v.Major, v.Minor, least.Major, least.Minor, port)
	}
	return nil
}

// documentOf converts a network to hcn's form.
func documentOf(n hns.Network) *hcn.HostComputeNetwork {
	d := &hcn.HostComputeNetwork{Name: n.Name, Type: hcn.NetworkType(n.Type), SchemaVersion: hcn.V2SchemaVersion()}
	if !n.Persistent {
		d.Flags = hcn.EnableNonPersistent
	}
	ipam := hcn.Ipam{Type: "Static"}
	for _, s := range n.Subnets {
		ipam.Subnets = append(ipam.Subnets, subnetFor(s))
	}
	d.Ipams = []hcn.Ipam{ipam}
	if n.Adapter != "" {
		d.Policies = append(d.Policies, policyOf(hcn.NetAdapterName, hcn.NetAdapterNameNetworkPolicySetting{NetworkAdapterName: n.Adapter}))
	}
	if n.Type == hns.Overlay {
		d.Policies = append(d.Policies, policyOf(hcn.AutomaticDNS, hcn.AutomaticDNSNetworkPolicySetting{Enable: n.AutomaticDNS}))
	}
	if hns.OwnVXLANPort(n.VXLANPort) != 0 {
		d.Policies = append(d.Policies, policyOf(hcn.VxlanPort, hcn.VxlanPortPolicySetting{Port: n.VXLANPort}))
	}
	return d
}

func subnetFor(s hns.Subnet) hcn.Subnet {
	d := hcn.Subnet{IpAddressPrefix: s.Prefix.String()}
	if s.Gateway.IsValid() {
		everywhere := "0.0.0.0/0"
		if s.Gateway.Is6() {
			everywhere = "::/0"
		}
		d.Routes = []hcn.Route{{NextHop: s.Gateway.String(), DestinationPrefix: everywhere}}
	}
	if s.VNI != 0 {
		d.Policies = []json.RawMessage{mustEncode(hcn.SubnetPolicy{Type: hcn.VSID, Settings: mustEncode(hcn.VsidPolicySetting{IsolationId: s.VNI})})}
	}
	return d
}

func policyOf(kind hcn.NetworkPolicyType, settings any) hcn.NetworkPolicy {
	return hcn.NetworkPolicy{Type: kind, Settings: mustEncode(settings)}
}

// mustEncode encodes a document of hcn as JSON, which cannot fail.
func mustEncode(document any) json.RawMessage {
	raw, _ := json.Marshal(document)
	return raw
}

// DeleteNetwork implements the port of the overlay. A missing network is hns.ErrNotFound.
func (h *HNS) DeleteNetwork(ctx context.Context, id string) error {
	return h.change(ctx, "deleting network "+id, (&hcn.HostComputeNetwork{Id: id}).Delete)
}

// AddRemotes implements the port of the overlay. Existing remotes stay unchanged; a subnet of another host is hns.ErrExists, and
// nothing changes.
func (h *HNS) AddRemotes(ctx context.Context, network string, remotes []hns.RemoteSubnet) error {
	return h.changeRemotes(ctx, "adding remote subnets to network "+network, network, func(n hcn.HostComputeNetwork) ([]hcn.NetworkPolicy, error) {
		have := networkOf(n).Remotes
		var missing []hcn.NetworkPolicy
		for _, r := range remotes {
			r.RouterMAC = macOf(r.RouterMAC)
			i := slices.IndexFunc(have, func(other hns.RemoteSubnet) bool { return other.Prefix == r.Prefix })
			switch {
			case i >= 0 && have[i] != r:
				return nil, fmt.Errorf("subnet %v is that of %v: %w", r.Prefix, have[i].Host, hns.ErrExists)
			case i < 0 && r.VNI > maxRemoteVNI:
				return nil, fmt.Errorf("subnet %v: VNI %d is more than %d, the largest for remote subnets", r.Prefix, r.VNI, maxRemoteVNI)
			case i < 0:
				missing = append(missing, policyOf(hcn.RemoteSubnetRoute, hcn.RemoteSubnetRoutePolicySetting{
					DestinationPrefix: r.Prefix.String(), IsolationId: uint16(r.VNI), ProviderAddress: r.Host.String(), DistributedRouterMacAddress: r.RouterMAC,
				}))
			}
		}
		return missing, nil
	}, (*hcn.HostComputeNetwork).AddPolicy)
}

// maxRemoteVNI is the largest VNI in the policy of a remote subnet.
const maxRemoteVNI = 1<<16 - 1

// RemoveRemotes implements the port of the overlay. Missing ones are not errors.
func (h *HNS) RemoveRemotes(ctx context.Context, network string, remotes []hns.RemoteSubnet) error {
	return h.changeRemotes(ctx, "removing remote subnets from network "+network, network, func(n hcn.HostComputeNetwork) ([]hcn.NetworkPolicy, error) {
		var existing []hcn.NetworkPolicy
		for _, p := range n.Policies {
			if p.Type != hcn.RemoteSubnetRoute {
				continue
			}
			current := remoteOf(p)
			if slices.ContainsFunc(remotes, func(r hns.RemoteSubnet) bool { r.RouterMAC = macOf(r.RouterMAC); return r == current }) {
				existing = append(existing, p) // in Windows' own form, which it needs to find the policy
			}
		}
		return existing, nil
	}, (*hcn.HostComputeNetwork).RemovePolicy)
}

// changeRemotes changes the policies of a network that find returns, in one request.
func (h *HNS) changeRemotes(ctx context.Context, what, network string, find func(hcn.HostComputeNetwork) ([]hcn.NetworkPolicy, error),
	change func(*hcn.HostComputeNetwork, hcn.PolicyNetworkRequest) error) error {
	return h.change(ctx, what, func() error {
		n, err := findNetwork(network)
		if err != nil {
			return err
		}
		policies, err := find(n)
		if err != nil || len(policies) == 0 {
			return err
		}
		return change(&n, hcn.PolicyNetworkRequest{Policies: policies})
	})
}
