package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

const (
	// defaultDomain is Kubernetes' default, and the only domain on OpenShift.
	defaultDomain = "cluster.local"
	// maxDNSServers is the maximum number of servers of a pod (MaxDNSNameservers of Kubernetes' validation).
	maxDNSServers = 3
	// dnsServices limits how many Services with a DNS label are read.
	dnsServices = 16
)

// kubeletConfig returns the name of the ConfigMap in which kubeadm, and tools based on it, store the configuration of new kubelets.
func kubeletConfig() types.NamespacedName {
	return types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: "kubelet-config"}
}

// readDNS finds the domain and servers of the cluster's DNS, from the most to the least explicit source: WindowsConfig, the configuration of Linux
// nodes, the Services. It never guesses a server's address: with a wrong one, pods could not resolve names, for no visible reason.
func readDNS(ctx context.Context, r client.Reader, via Connection, config v1alpha1.DNSSpec, c *desired.Cluster) error {
	var kubelets dnsOfKubelets
	if config.Domain == "" || len(config.Servers) == 0 {
		var err error
		if kubelets, err = readKubeletConfig(ctx, r); err != nil {
			return err
		}
	}
	if err := readDomain(ctx, r, via, config, kubelets, c); err != nil {
		return err
	}
	return readDNSServers(ctx, r, config, kubelets, c)
}

func domainOf(ctx context.Context, r client.Reader, via Connection, config v1alpha1.DNSSpec) (string, error) {
	var kubelets dnsOfKubelets
	if config.Domain == "" {
		var err error
		if kubelets, err = readKubeletConfig(ctx, r); err != nil {
			return "", err
		}
	}
	var c desired.Cluster
	err := readDomain(ctx, r, via, config, kubelets, &c)
	return c.Domain, err
}

type dnsOfKubelets struct {
	found   bool
	Domain  string   `json:"clusterDomain"`
	Servers []string `json:"clusterDNS"`
}

func readKubeletConfig(ctx context.Context, r client.Reader) (d dnsOfKubelets, err error) {
	var cm corev1.ConfigMap
	if err := r.Get(ctx, kubeletConfig(), &cm); err != nil {
		if apierrors.IsNotFound(err) {
			return d, nil
		}
		return d, fmt.Errorf("reading ConfigMap %s: %w", kubeletConfig(), err)
	}
	if err := yaml.Unmarshal([]byte(cm.Data["kubelet"]), &d); err != nil {
		return d, fmt.Errorf("%w: ConfigMap %s, key kubelet, is not a kubelet configuration (%w); correct it, or set domain and servers of spec.network.dns in WindowsConfig %s",
			desired.ErrNetwork, kubeletConfig(), err, api.WindowsConfigName)
	}
	d.found = true
	return d, nil
}

func readDomain(ctx context.Context, r client.Reader, via Connection, config v1alpha1.DNSSpec, kubelets dnsOfKubelets, c *desired.Cluster) error {
	sources := []struct {
		from string
		read func() (string, error)
	}{
		{`WindowsConfig "cluster", spec.network.dns.domain`, func() (string, error) { return config.Domain, nil }},
		{"ConfigMap " + kubeletConfig().String() + ", clusterDomain", func() (string, error) { return kubelets.Domain, nil }},
		{"ConfigMap kube-system/kubeadm-config, networking.dnsDomain", func() (string, error) {
			kubeadm, err := readKubeadm(ctx, r)
			return kubeadm.DNSDomain, err
		}},
	}
	for _, s := range sources {
		domain, err := s.read()
		if err != nil {
			return err
		}
		if domain = strings.ToLower(strings.TrimSuffix(domain, ".")); domain == "" {
			continue
		}
		if faults := validation.IsDNS1123Subdomain(domain); len(faults) > 0 {
			return fmt.Errorf("%w: %s is %.100q, and must be a DNS domain such as %s; correct it, or set spec.network.dns.domain of WindowsConfig %s",
				desired.ErrNetwork, s.from, domain, defaultDomain, api.WindowsConfigName)
		}
		c.Domain = domain
		return nil
	}
	platform, err := ReadPlatform(ctx, r)
	if err == nil && !platform.OpenShift && via.ServerNames != nil {
		var names []string
		if names, err = via.ServerNames(ctx); err != nil {
			return fmt.Errorf("reading the names in the API server's certificate: %w", err)
		}
		if c.Domain = domainOfServer(names); c.Domain != "" {
			return nil
		}
	}
	c.Domain, c.DomainAssumed = defaultDomain, !platform.OpenShift
	return err
}

// domainOfServer derives the cluster's DNS domain from the names in the API server's certificate, because installers include the full name of its
// Service. It is empty if there is no such name, or several: handwritten templates also contain parts of cluster.local, whatever the domain.
func domainOfServer(names []string) (domain string) {
	for _, name := range names {
		suffix, isWhole := strings.CutPrefix(strings.ToLower(strings.TrimSuffix(name, ".")), "kubernetes.default.svc.")
		switch {
		case !isWhole || suffix == domain:
		case domain != "" || len(validation.IsDNS1123Subdomain(suffix)) > 0:
			return ""
		default:
			domain = suffix
		}
	}
	return domain
}

func readDNSServers(ctx context.Context, r client.Reader, config v1alpha1.DNSSpec, kubelets dnsOfKubelets, c *desired.Cluster) error {
	for _, text := range config.Servers {
		if !isDNSServer(text) {
			return fmt.Errorf(`%w: WindowsConfig "cluster", spec.network.dns.servers: %.100q must be an IPv4 address such as 10.96.0.10, neither a loopback `+
				"nor a link-local one", desired.ErrNetwork, text)
		}
	}
	servers := config.Servers
	if len(servers) == 0 {
		servers = slices.DeleteFunc(slices.Clone(kubelets.Servers), func(text string) bool { return !isDNSServer(text) })
	}
	if len(servers) > 0 {
		c.DNSServers = servers[:min(len(servers), maxDNSServers)]
		return nil
	}
	checked := []string{"ConfigMap " + kubeletConfig().String() + " does not exist"}
	if kubelets.found {
		checked[0] = fmt.Sprintf("clusterDNS in ConfigMap %s is %.200q", kubeletConfig(), kubelets.Servers)
	}
	services, err := listDNSServices(ctx, r)
	if err != nil {
		return err
	}
	for _, s := range services {
		if ip := ipv4Of(s); ip != "" {
			c.DNSServers = []string{ip}
			return nil
		}
		checked = append(checked, fmt.Sprintf("Service %s/%s has no IPv4 address (%v)", s.Namespace, s.Name, s.Spec.ClusterIPs))
	}
	if len(services) == 0 {
		checked = append(checked, "none of these Services exists: openshift-dns/dns-default, kube-system/kube-dns, or one in kube-system with label k8s-app=kube-dns or k8s-app=coredns and port 53")
	}
	return &desired.NetworkError{Reason: api.ReasonClusterDNSUnknown, Message: "found no IPv4 address at which pods reach the cluster's DNS: " +
		truncate.Text(strings.Join(checked, "; "), truncate.Reported) + "; set spec.network.dns.servers of WindowsConfig " + api.WindowsConfigName + " to that address"}
}

// isDNSServer reports whether pods on Windows nodes can use an address as their DNS server. Node-local caches, such as NodeLocal DNSCache, have
// link-local addresses that only answer on Linux nodes; kubespray writes them into kubelet-config.
func isDNSServer(text string) bool {
	ip, err := netip.ParseAddr(text)
	return err == nil && ip.Is4() && ip.IsGlobalUnicast()
}

// listDNSServices returns the Services that may be the cluster's DNS, the most likely first.
func listDNSServices(ctx context.Context, r client.Reader) (all []corev1.Service, err error) {
	for _, name := range []types.NamespacedName{{Namespace: "openshift-dns", Name: "dns-default"}, {Namespace: metav1.NamespaceSystem, Name: "kube-dns"}} {
		var service corev1.Service
		err := r.Get(ctx, name, &service)
		if err == nil {
			all = append(all, service)
		} else if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading Service %s: %w", name, err)
		}
	}
	const label = "k8s-app"
	selector, err := labels.Parse(label + " in (kube-dns, coredns)")
	if err != nil {
		return nil, err
	}
	var list corev1.ServiceList
	if err := r.List(ctx, &list, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabelsSelector{Selector: selector}, client.Limit(dnsServices)); err != nil {
		return nil, fmt.Errorf("listing the Services in %s with label %s: %w", metav1.NamespaceSystem, selector, err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Service) int { return strings.Compare(a.Name, b.Name) })
	for _, s := range list.Items {
		if slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == 53 }) {
			all = append(all, s)
		}
	}
	return all, nil
}

// ipv4Of returns a Service's IPv4 address, whichever family comes first; empty if there is none.
func ipv4Of(s corev1.Service) string {
	for _, text := range append(slices.Clone(s.Spec.ClusterIPs), s.Spec.ClusterIP) {
		if isDNSServer(text) {
			return text
		}
	}
	return ""
}
