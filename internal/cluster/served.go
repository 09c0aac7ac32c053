package cluster

import (
	"context"
	"net/netip"
	"net/url"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/desired"
)

// ReadServed reads what the cluster answers at, the ranges of pods aside, which its network has.
func ReadServed(ctx context.Context, r client.Reader) (desired.Served, error) {
	var s desired.Served
	servers, err := apiServers(ctx, r)
	if err != nil {
		return desired.Served{}, err
	}
	for _, server := range servers {
		s.Addresses = append(s.Addresses, server.Addr())
	}
	var c desired.Cluster
	if err := readServer(ctx, r, &c); err != nil {
		return desired.Served{}, err
	}
	server, err := url.Parse(c.Server)
	if err != nil {
		return desired.Served{}, err
	}
	s.AddServer(server.Hostname())
	if err := readServiceCIDR(ctx, r, &c); err != nil {
		return desired.Served{}, err
	}
	s.Ranges = Ranges([]string{c.ServiceCIDR})
	return s, nil
}

// Ranges reads ranges of addresses; what is none is left out.
func Ranges(texts []string) (all []netip.Prefix) {
	for _, text := range texts {
		if r, err := netip.ParsePrefix(text); err == nil {
			all = append(all, r.Masked())
		}
	}
	return all
}
