// Package cluster reads what every node must know of its cluster: where the API server is, which certificates
// to trust, which addresses services have. It works on plain Kubernetes and on OpenShift, and asks only for
// objects it names.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/desired"
)

// Read reads the cluster. namespace is the operator's own, whose kube-root-ca.crt is read. The error names the
// object that is missing or wrong and what to do.
func Read(ctx context.Context, r client.Reader, namespace string) (desired.Cluster, error) {
	c := desired.Cluster{Domain: "cluster.local"} // as the original: no API tells another
	parts := []func(context.Context, client.Reader, *desired.Cluster) error{
		readID,
		func(ctx context.Context, r client.Reader, c *desired.Cluster) (err error) {
			c.CA, err = configMapValue(ctx, r, namespace, "kube-root-ca.crt", "ca.crt")
			return err
		},
		readKubeletClientCA,
		readServer,
		readServiceCIDR,
		readClusterDNS,
	}
	for _, part := range parts {
		if err := part(ctx, r, &c); err != nil {
			return desired.Cluster{}, err
		}
	}
	return c, nil
}

func readID(ctx context.Context, r client.Reader, c *desired.Cluster) (err error) {
	c.ID, err = ID(ctx, r)
	return err
}

// ID identifies the cluster: it is the UID of namespace kube-system.
func ID(ctx context.Context, r client.Reader) (string, error) {
	var ns corev1.Namespace
	if err := r.Get(ctx, types.NamespacedName{Name: "kube-system"}, &ns); err != nil {
		return "", fmt.Errorf("reading Namespace kube-system: %w", err)
	}
	return string(ns.UID), nil
}

// readKubeletClientCA takes the bundle that the API server itself checks its clients with: the certificates with
// which it speaks to kubelets come from the same authority.
func readKubeletClientCA(ctx context.Context, r client.Reader, c *desired.Cluster) (err error) {
	c.KubeletClientCA, err = configMapValue(ctx, r, "kube-system", "extension-apiserver-authentication", "client-ca-file")
	return err
}

// readServer finds the URL that hosts outside the pod network can use, from the most to the least explicit:
// OpenShift's internal URL, the cluster-info that kubeadm publishes, the API server's own endpoint.
func readServer(ctx context.Context, r client.Reader, c *desired.Cluster) error {
	sources := []func(context.Context, client.Reader) (string, error){serverOfOpenShift, serverOfClusterInfo, serverOfEndpoints}
	for _, source := range sources {
		server, err := source(ctx, r)
		if err != nil {
			return err
		}
		if server == "" {
			continue
		}
		if !isServer(server) {
			return fmt.Errorf("the cluster says its API server is at %.200q; an https URL is needed, without user, query and fragment", server)
		}
		c.Server = server
		return nil
	}
	return errors.New("finding the API server's address: neither ConfigMap kube-public/cluster-info nor " +
		"EndpointSlice default/kubernetes has one")
}

// isServer tells whether a text is the URL of an API server, and no more: it becomes an argument of commands on hosts.
func isServer(text string) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/[]"
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "https" && u.Hostname() != "" && strings.Trim(text, plain) == ""
}

func serverOfOpenShift(ctx context.Context, r client.Reader) (string, error) {
	infrastructure, err := readCluster(ctx, r, openshiftConfig, "Infrastructure", "cluster")
	if infrastructure == nil || err != nil {
		return "", err
	}
	var is struct {
		Status struct {
			Server string `json:"apiServerInternalURI"`
		} `json:"status"`
	}
	err = decode(infrastructure, &is)
	return is.Status.Server, err
}

func serverOfClusterInfo(ctx context.Context, r client.Reader) (string, error) {
	text, err := configMapValue(ctx, r, "kube-public", "cluster-info", "kubeconfig")
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	kubeconfig, err := clientcmd.Load([]byte(text))
	if err != nil {
		return "", fmt.Errorf("reading kubeconfig of ConfigMap kube-public/cluster-info: %w", err)
	}
	for _, cluster := range kubeconfig.Clusters { // kubeadm writes exactly one
		return cluster.Server, nil
	}
	return "", nil
}

func serverOfEndpoints(ctx context.Context, r client.Reader) (string, error) {
	servers, err := APIServers(ctx, r)
	if err != nil || len(servers) == 0 {
		return "", err
	}
	return "https://" + servers[0].String(), nil
}

// APIServers are the IPv4 addresses and ports at which the API servers themselves answer. They keep them in one
// EndpointSlice of a fixed name.
func APIServers(ctx context.Context, r client.Reader) ([]netip.AddrPort, error) {
	name := types.NamespacedName{Namespace: "default", Name: "kubernetes"}
	var slice discoveryv1.EndpointSlice
	if err := r.Get(ctx, name, &slice); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading EndpointSlice %s: %w", name, err)
	}
	var servers []netip.AddrPort
	for _, e := range slice.Endpoints {
		for _, address := range e.Addresses {
			ip, err := netip.ParseAddr(address)
			if err == nil && ip.Is4() && len(slice.Ports) > 0 && slice.Ports[0].Port != nil {
				servers = append(servers, netip.AddrPortFrom(ip, uint16(*slice.Ports[0].Port)))
			}
		}
	}
	return servers, nil
}

// readServiceCIDR takes the first IPv4 range of the cluster's own ServiceCIDR (KEP-1880; always there since Kubernetes 1.33).
func readServiceCIDR(ctx context.Context, r client.Reader, c *desired.Cluster) error {
	var cidr networkingv1.ServiceCIDR
	if err := r.Get(ctx, types.NamespacedName{Name: "kubernetes"}, &cidr); err != nil {
		return fmt.Errorf("reading ServiceCIDR kubernetes: %w", err)
	}
	for _, s := range cidr.Spec.CIDRs {
		if prefix, err := netip.ParsePrefix(s); err == nil && prefix.Addr().Is4() {
			c.ServiceCIDR = s
			return nil
		}
	}
	return fmt.Errorf("ServiceCIDR kubernetes has no IPv4 range in spec.cidrs (%v); Windows nodes need one", cidr.Spec.CIDRs)
}

// readClusterDNS takes the address of the DNS service, or, before one is installed, the tenth address of the
// service range, which every installer gives to it.
func readClusterDNS(ctx context.Context, r client.Reader, c *desired.Cluster) error {
	for _, name := range []types.NamespacedName{{Namespace: "openshift-dns", Name: "dns-default"}, {Namespace: "kube-system", Name: "kube-dns"}} {
		var service corev1.Service
		err := r.Get(ctx, name, &service)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading Service %s: %w", name, err)
		}
		if ip, err := netip.ParseAddr(service.Spec.ClusterIP); err == nil && ip.Is4() {
			c.ClusterDNS = service.Spec.ClusterIP
			return nil
		}
	}
	prefix, err := netip.ParsePrefix(c.ServiceCIDR)
	if err != nil {
		return err
	}
	ip := prefix.Masked().Addr()
	for range 10 {
		ip = ip.Next()
	}
	c.ClusterDNS = ip.String()
	return nil
}

func configMapValue(ctx context.Context, r client.Reader, namespace, name, key string) (string, error) {
	var cm corev1.ConfigMap
	if err := r.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &cm); err != nil {
		return "", fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, name, err)
	}
	if cm.Data[key] == "" {
		return "", fmt.Errorf("ConfigMap %s/%s has no key %s", namespace, name, key)
	}
	return cm.Data[key], nil
}
