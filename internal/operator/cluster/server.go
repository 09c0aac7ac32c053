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
	"strconv"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

type serverSource struct {
	from string
	read func(context.Context, client.Reader) (string, error)
}

// serverSources returns the cluster's sources, from the most to the least explicit: OpenShift's internal URL, the cluster-info that kubeadm
// publishes, the API server's own endpoint.
func serverSources() []serverSource {
	return []serverSource{
		{"Infrastructure cluster, status.apiServerInternalURI", serverOfOpenShift},
		{"ConfigMap kube-public/cluster-info", serverOfClusterInfo},
		{"EndpointSlice default/kubernetes", serverOfEndpoints},
	}
}

// Connection describes how the operator reaches the API server, which no object shows. The zero value suits clusters of several machines.
type Connection struct {
	// OneMachine means that the API server runs on the only host, which may reach it at a loopback address.
	OneMachine bool
	// ServerNames returns the DNS names in the API server's certificate; nil disables this source.
	ServerNames func(context.Context) ([]string, error)
}

// readServer finds the URL that hosts outside the pod network can use: the one in WindowsConfig, or else the cluster's own. It skips loopback
// addresses, which cluster-info contains if each Linux node runs a proxy to the API servers, because they would mean the host itself.
func readServer(ctx context.Context, r client.Reader, via Connection, config v1alpha1.ClusterSpec, c *desired.Cluster) error {
	if config.APIServer != "" {
		server, err := ParseServer(config.APIServer)
		if err != nil {
			return fmt.Errorf(`%w: WindowsConfig "cluster", spec.cluster.apiServer: %w`, desired.ErrSettings, err)
		}
		c.Server, c.ServerFrom = server, `WindowsConfig "cluster", spec.cluster.apiServer`
		return nil
	}
	var skipped []string
	for _, source := range serverSources() {
		server, err := source.read(ctx, r)
		if err != nil {
			return err
		}
		switch {
		case server == "":
			continue
		case !isServer(server):
			return fmt.Errorf("%s has the API server address %.200q; it must be an https URL without user, query and fragment", source.from, server)
		case isLoopback(hostOf(server)) && !via.OneMachine:
			skipped = append(skipped, fmt.Sprintf("%s has %.200q, which refers to each host itself", source.from, server))
			continue
		}
		c.Server, c.ServerFrom = server, source.from
		return nil
	}
	if len(skipped) == 0 {
		skipped = []string{"neither ConfigMap kube-public/cluster-info nor EndpointSlice default/kubernetes has one"}
	}
	return errors.New("finding the API server's address: " + strings.Join(skipped, "; ") + "; set spec.cluster.apiServer of WindowsConfig cluster")
}

// ParseServer parses the API server's address in the user's format, host:port or an https URL, and returns the URL.
func ParseServer(text string) (string, error) {
	server := text
	if !strings.Contains(text, "://") {
		if _, _, err := net.SplitHostPort(text); err != nil {
			return "", fmt.Errorf("%.300q must be <host>:<port>, such as api.example.com:6443, or an https URL", text)
		}
		server = "https://" + text
	}
	server = strings.TrimSuffix(server, "/")
	u, err := url.Parse(server)
	switch {
	case err != nil || !isServer(server) || u.Path != "":
		return "", fmt.Errorf("%.300q must be <host>:<port>, such as api.example.com:6443, or an https URL without user, path, query and fragment", text)
	case isLoopback(u.Hostname()):
		return "", fmt.Errorf("%.300q is a loopback address, which refers to each host itself; use another address", text)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", fmt.Errorf("%.300q has port %s; it must be from 1 to 65535", text, port)
		}
	}
	return server, nil
}

// isServer reports whether text is exactly an API server URL, because it becomes an argument of commands on hosts.
func isServer(text string) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/[]"
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "https" && u.Hostname() != "" && strings.Trim(text, plain) == ""
}

// hostOf returns the host of a URL that isServer accepts.
func hostOf(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// isLoopback reports whether a hostname or address means the connecting machine itself. Some resolvers treat 127.1 as an address.
func isLoopback(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap()
		return ip.IsLoopback() || ip.IsUnspecified()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || strings.HasPrefix(host, "127.") && strings.Trim(host, "0123456789.") == ""
}

// serverURLs returns the distinct URLs at which the cluster's API is served: WindowsConfig's, and the cluster's own, which hosts may be unable to reach.
func serverURLs(ctx context.Context, r client.Reader, via Connection, config v1alpha1.ClusterSpec) (all []string, err error) {
	specs := []v1alpha1.ClusterSpec{config}
	if config.APIServer != "" {
		specs = append(specs, v1alpha1.ClusterSpec{})
	}
	var failures error
	for _, spec := range specs {
		var c desired.Cluster
		if err := readServer(ctx, r, via, spec, &c); err != nil {
			failures = errors.Join(failures, err)
		} else if !slices.Contains(all, c.Server) {
			all = append(all, c.Server)
		}
	}
	if len(all) > 0 {
		return all, nil
	}
	return nil, failures
}

// hostPort returns a URL's host:port in lower case.
func hostPort(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	return strings.ToLower(net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443"))), nil
}

func serverOfOpenShift(ctx context.Context, r client.Reader) (string, error) {
	infrastructure, err := readCluster(ctx, r, openshiftConfig, "Infrastructure", "cluster")
	if infrastructure == nil || err != nil {
		return "", err
	}
	var current struct {
		Status struct {
			Server string `json:"apiServerInternalURI"`
		} `json:"status"`
	}
	err = decode(infrastructure, &current)
	return current.Status.Server, err
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

// APIServers returns the IPv4 addresses and ports of the API servers themselves, which they store in one EndpointSlice with a fixed name.
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
