package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/addresses"
	"github.com/windows-machine-config/wmco/internal/desired"
)

// ReadAddresses reads which addresses and names the cluster has for something else than its Windows hosts, Nodes aside, and the name under
// which hosts reach its API server; empty where that is an address. With an error comes what could be read.
func ReadAddresses(ctx context.Context, r client.Reader, config v1alpha1.NetworkSpec) (is addresses.Cluster, server string, err error) {
	var services networkingv1.ServiceCIDR
	failure := r.Get(ctx, types.NamespacedName{Name: "kubernetes"}, &services)
	if failure != nil {
		failure = fmt.Errorf("reading ServiceCIDR kubernetes: %w", failure)
	}
	is.Services = prefixes(services.Spec.CIDRs)
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
