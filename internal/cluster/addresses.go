package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/addresses"
	"github.com/windows-machine-config/wmco/internal/desired"
)

// ReadAddresses reads which addresses and names the cluster has for something else than its Windows hosts, Nodes aside, and the name under
// which hosts reach its API server; empty where that is an address. With an error comes what could be read.
func ReadAddresses(ctx context.Context, r client.Reader, config v1alpha1.NetworkSpec) (is addresses.Cluster, server string, err error) {
	is.Services, err = serviceCIDRs(ctx, r)
	failure := err
	pods, err := podCIDRs(ctx, r, config)
	is.Pods = prefixes(pods)
	failure = errors.Join(failure, err)
	servers, err := APIServers(ctx, r)
	failure = errors.Join(failure, err)
	for _, s := range servers {
		is.Servers = append(is.Servers, s.Addr())
	}
	var c desired.Cluster
	if err := readServer(ctx, r, &c); err != nil {
		return is, "", errors.Join(failure, err)
	}
	u, err := url.Parse(c.Server) // readServer has done so once
	if err != nil {
		return is, "", errors.Join(failure, err)
	}
	is.AddServer(u.Hostname())
	if len(is.Names) == 0 {
		return is, "", failure
	}
	return is, u.Hostname(), failure
}

// ServedAt lists where the cluster's API is served, as host:port in lower case: as hosts are told, and at the API servers' own endpoints.
func ServedAt(ctx context.Context, r client.Reader) (all []string, err error) {
	var c desired.Cluster
	if err := readServer(ctx, r, &c); err != nil {
		return nil, err
	}
	u, err := url.Parse(c.Server) // readServer has done so once
	if err != nil {
		return nil, err
	}
	all = append(all, strings.ToLower(net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443"))))
	servers, err := APIServers(ctx, r)
	for _, s := range servers {
		if text := s.String(); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all, err
}

// serviceCIDRs are the ranges of Services: of the cluster's own ServiceCIDR, and of those that were added to it.
func serviceCIDRs(ctx context.Context, r client.Reader) (all []netip.Prefix, err error) {
	var list networkingv1.ServiceCIDRList
	if err := r.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing ServiceCIDRs: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("there is no ServiceCIDR; kube-apiserver makes ServiceCIDR kubernetes")
	}
	for i := range list.Items {
		all = append(all, prefixes(list.Items[i].Spec.CIDRs)...)
	}
	return all, nil
}

// podCIDRs are the ranges of pods, as far as something of the cluster's own says: not the Nodes, which kubelets write.
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
		kubeadm, err := kubeadmPodCIDRs(ctx, r)
		return append(all, kubeadm...), err
	}
	network, err := openshiftNetwork(ctx, r)
	if network != nil {
		all = append(all, network.podCIDRs...)
	}
	return all, err
}

// prefixes leaves out what is no range.
func prefixes(texts []string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			all = append(all, p.Masked())
		}
	}
	return all
}
