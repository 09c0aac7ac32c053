package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// ownServiceCIDR is the ServiceCIDR that kube-apiserver creates for its flag --service-cluster-ip-range (KEP-1880).
const ownServiceCIDR = "kubernetes"

// listServiceCIDRs lists the ServiceCIDRs: the cluster's own first, then added ones by name.
func listServiceCIDRs(ctx context.Context, r client.Reader) ([]networkingv1.ServiceCIDR, error) {
	var list networkingv1.ServiceCIDRList
	if err := r.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing ServiceCIDRs: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("no ServiceCIDR exists; kube-apiserver creates ServiceCIDR " + ownServiceCIDR)
	}
	slices.SortFunc(list.Items, func(a, b networkingv1.ServiceCIDR) int { return strings.Compare(a.Name, b.Name) })
	own := slices.IndexFunc(list.Items, func(s networkingv1.ServiceCIDR) bool { return s.Name == ownServiceCIDR })
	if own > 0 {
		first := list.Items[own]
		list.Items = slices.Insert(slices.Delete(list.Items, own, own+1), 0, first)
	}
	return list.Items, nil
}

func serviceCIDRs(ctx context.Context, r client.Reader) (all []netip.Prefix, err error) {
	list, err := listServiceCIDRs(ctx, r)
	for _, s := range list {
		all = append(all, prefixes(s.Spec.CIDRs)...)
	}
	return all, err
}

// readServiceCIDRs reads all IPv4 ranges. It omits ranges within others, which exist while a cluster changes to a wider range.
func readServiceCIDRs(ctx context.Context, r client.Reader, c *desired.Cluster) error {
	list, err := listServiceCIDRs(ctx, r)
	if err != nil {
		return err
	}
	var all []netip.Prefix
	var seen []string
	for _, s := range list {
		seen = append(seen, fmt.Sprintf("%s %v", s.Name, s.Spec.CIDRs))
		for _, p := range prefixes(s.Spec.CIDRs) {
			if p.Addr().Is4() {
				all = append(all, p)
			}
		}
	}
	for _, p := range all {
		isWider := func(o netip.Prefix) bool { return o.Bits() < p.Bits() && o.Contains(p.Addr()) }
		if text := p.String(); !slices.ContainsFunc(all, isWider) && !slices.Contains(c.ServiceCIDRs, text) {
			c.ServiceCIDRs = append(c.ServiceCIDRs, text)
		}
	}
	if len(c.ServiceCIDRs) == 0 {
		return fmt.Errorf("no ServiceCIDR has an IPv4 range in spec.cidrs (%s); Windows nodes need one", strings.Join(seen, ", "))
	}
	return nil
}
