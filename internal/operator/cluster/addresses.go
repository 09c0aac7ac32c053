package cluster

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/addresses"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// ReadAddresses reads the addresses and names that the cluster uses for anything but its Windows hosts and Nodes, and the names under which hosts
// reach its API server; none if they use its address. Partial results are returned along with an error.
func ReadAddresses(ctx context.Context, r client.Reader, via Connection, config v1alpha1.WindowsConfigSpec) (known addresses.Cluster, names []string, err error) {
	known.Services, err = serviceCIDRs(ctx, r)
	failure := err
	pods, err := podCIDRs(ctx, r, config.Network)
	known.Pods = prefixes(pods)
	failure = errors.Join(failure, err)
	servers, err := APIServers(ctx, r)
	failure = errors.Join(failure, err)
	for _, s := range servers {
		known.Servers = append(known.Servers, s.Addr())
	}
	known.Domain, err = domainOf(ctx, r, via, config.Network.DNS)
	if !errors.Is(err, desired.ErrNetwork) { // an invalid value only prevents joins
		failure = errors.Join(failure, err)
	}
	urls, err := serverURLs(ctx, r, via, config.Cluster)
	failure = errors.Join(failure, err)
	for _, url := range urls {
		host := hostOf(url)
		known.AddServer(host)
		if _, err := netip.ParseAddr(host); err != nil {
			names = append(names, host)
		}
	}
	return known, names, failure
}

// APIEndpoints returns the endpoints of the cluster's API, as host:port in lower case: the addresses published for hosts, and the API servers' own.
func APIEndpoints(ctx context.Context, r client.Reader, via Connection, config v1alpha1.ClusterSpec) (all []string, err error) {
	urls, err := serverURLs(ctx, r, via, config)
	if err != nil {
		return nil, err
	}
	for _, url := range urls {
		endpoint, err := hostPort(url)
		if err != nil {
			return nil, err
		}
		all = append(all, endpoint)
	}
	servers, err := APIServers(ctx, r)
	for _, s := range servers {
		if text := s.String(); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all, err
}

// podCIDRs returns the pod ranges from the cluster's own objects. It ignores Nodes, which kubelets write.
func podCIDRs(ctx context.Context, r client.Reader, config v1alpha1.NetworkSpec) ([]string, error) {
	platform, err := ReadPlatform(ctx, r)
	if err != nil {
		return nil, err
	}
	n, err := ReadNetwork(ctx, r, platform, config)
	if err != nil {
		return nil, err
	}
	all := append(n.PodCIDRs, n.HybridCIDRs...)
	if n.Flannel != nil {
		all = append(all, n.Flannel.Network)
	}
	if len(n.PodCIDRs) > 0 {
		return all, nil
	}
	if !n.OpenShift {
		kubeadm, err := readKubeadm(ctx, r)
		return append(all, splitList(kubeadm.PodSubnet)...), err
	}
	network, err := openshiftNetwork(ctx, r)
	if network != nil {
		all = append(all, network.podCIDRs...)
	}
	return all, err
}

func prefixes(texts []string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			all = append(all, p.Masked())
		}
	}
	return all
}
