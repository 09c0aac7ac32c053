package clusterversion

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windows-machine-config/wmco/internal/cluster"
)

const (
	// askWithin is how long an API server may take to say its version.
	askWithin = 5 * time.Second
	// maxServers is how many API servers are asked: no cluster has so many, whatever its EndpointSlice says.
	maxServers = 16
	// serverName is in the certificate of every API server, as the name of its Service.
	serverName = "kubernetes.default.svc"
)

// Servers asks each API server of a cluster for its version (GET /version).
type Servers struct {
	live   client.Reader
	config *rest.Config
	// last are the versions that servers said last, by address: one that is away for a while still counts. One caller uses it.
	last map[netip.AddrPort]string
}

// NewServers asks the API servers that live finds, with the certificate authorities of config.
func NewServers(live client.Reader, config *rest.Config) *Servers {
	return &Servers{live: live, config: config, last: map[netip.AddrPort]string{}}
}

// Versions returns the versions of the API servers, as in v1.36.3. Where the servers' own addresses cannot be reached, it is that of the
// one at which requests arrive.
func (s *Servers) Versions(ctx context.Context) []string {
	addresses, err := cluster.APIServers(ctx, s.live)
	if err != nil {
		log.FromContext(ctx).Info("Listing API servers failed", "error", err.Error())
	}
	addresses = addresses[:min(len(addresses), maxServers)]
	asked := make([]string, len(addresses))
	var all sync.WaitGroup
	for i, address := range addresses {
		all.Go(func() { asked[i] = s.askServer(ctx, address) })
	}
	all.Wait()
	last := map[netip.AddrPort]string{}
	var versions []string
	for i, address := range addresses {
		if asked[i] == "" {
			asked[i] = s.last[address]
		}
		if asked[i] != "" {
			last[address] = asked[i]
			versions = append(versions, asked[i])
		}
	}
	s.last = last
	if len(versions) == 0 {
		if v := ask(ctx, s.config); v != "" {
			versions = append(versions, v)
		}
	}
	return versions
}

// askServer asks one API server at its own address. The server must have the certificate of an API server before it gets credentials,
// which clusters without anonymous access require.
func (s *Servers) askServer(ctx context.Context, address netip.AddrPort) string {
	config := rest.CopyConfig(s.config)
	config.Host, config.ServerName = "https://"+address.String(), serverName
	return ask(ctx, config)
}

// ask returns the version of the API server at which config points; empty where it does not answer.
func ask(ctx context.Context, config *rest.Config) string {
	config = rest.CopyConfig(config)
	config.Timeout = askWithin
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		log.FromContext(ctx).Info("Asking an API server for its version failed", "server", config.Host, "error", err.Error())
		return ""
	}
	v, err := d.ServerVersion()
	if err != nil {
		log.FromContext(ctx).V(1).Info("Asking an API server for its version failed", "server", config.Host, "error", err.Error())
		return ""
	}
	return v.GitVersion
}
