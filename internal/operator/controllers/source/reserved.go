package source

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/addresses"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// ReservedAddresses caches the addresses that the cluster uses for anything but its Windows hosts and Nodes: they rarely change, and hundreds of hosts
// may join at once.
type ReservedAddresses struct {
	client, live client.Reader
	connection   cluster.Connection
	resolver     *Resolver
	services     *services

	mu     sync.Mutex
	readAt time.Time
	config v1alpha1.WindowsConfigSpec
	known  addresses.Cluster
	err    error
}

// NewReservedAddresses returns a ReservedAddresses. It reads Nodes, WindowsConfig and, except for Live, Services from the cache; all else from the
// API server.
func NewReservedAddresses(client, live client.Reader, connection cluster.Connection, r *Resolver) *ReservedAddresses {
	return &ReservedAddresses{client: client, live: live, connection: connection, resolver: r, services: newServices(client, live)}
}

// Register watches the addresses of Services in the manager's cache.
func (r *ReservedAddresses) Register(ctx context.Context, m manager.Manager) error {
	return r.services.watch(ctx, m)
}

const (
	// reservedLifetime is how long the addresses are cached, reservedRetry how long if not all could be read. reservedTimeout limits the time of a read.
	reservedLifetime = 10 * time.Second
	reservedRetry    = 2 * time.Second
	reservedTimeout  = 10 * time.Second
)

// Live returns the addresses that no Windows host can have, including those that Services claim now or claimed since a time, according to the API
// server. self is the Node whose addresses may be the host's own; empty for none.
func (r *ReservedAddresses) Live(ctx context.Context, self string, since time.Time) (addresses.Cluster, error) {
	known, err := r.withNodes(ctx, self)
	return known, errors.Join(err, r.services.addLive(ctx, &known, since.Add(-releaseGrace)))
}

// With returns the addresses that no Windows host can have according to the cache. Along with an error, it returns those that are known. self is as for
// Live.
func (r *ReservedAddresses) With(ctx context.Context, self string) (addresses.Cluster, error) {
	known, err := r.withNodes(ctx, self)
	return known, errors.Join(err, r.services.addCached(ctx, &known, time.Now().Add(-releaseGrace)))
}

// AddServices adds what Services claim according to the cache.
func (r *ReservedAddresses) AddServices(ctx context.Context, to *addresses.Cluster) error {
	return r.services.addCached(ctx, to, time.Now().Add(-releaseGrace))
}

// AddLiveServices adds what Services claim according to the API server.
func (r *ReservedAddresses) AddLiveServices(ctx context.Context, to *addresses.Cluster) error {
	return r.services.addLive(ctx, to, time.Now().Add(-releaseGrace))
}

func (r *ReservedAddresses) withNodes(ctx context.Context, self string) (addresses.Cluster, error) {
	config, err := kube.ReadConfig(ctx, r.client)
	if err != nil {
		return addresses.Cluster{}, err
	}
	known, err := r.Read(ctx, config)
	var nodes corev1.NodeList
	if failure := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); failure != nil {
		err = errors.Join(err, fmt.Errorf("listing Nodes: %w", failure))
	}
	known.Nodes = map[netip.Addr]string{}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if nodestate.IsWindows(node) || node.Name == self {
			continue
		}
		for _, ip := range addressesOfNode(node) {
			known.Nodes[ip] = node.Name
		}
	}
	return known, err
}

// nodeAddresses is how many addresses of one Node count. Machines have one or two in each network; a kubelet may list any number.
const nodeAddresses = 8

// addressesOfNode returns the IPv4 addresses of a Node, internal ones first.
func addressesOfNode(node *corev1.Node) (all []netip.Addr) {
	for _, isInternal := range []bool{true, false} {
		for _, a := range node.Status.Addresses {
			ip, err := netip.ParseAddr(a.Address)
			if err != nil || !ip.Unmap().Is4() || (a.Type == corev1.NodeInternalIP) != isInternal || len(all) == nodeAddresses {
				continue
			}
			all = append(all, ip.Unmap())
		}
	}
	return all
}

// Read returns the reserved addresses without the claims of Nodes and Services, at most ten seconds old. Even with an error, it returns what is
// known.
func (r *ReservedAddresses) Read(ctx context.Context, config v1alpha1.WindowsConfigSpec) (addresses.Cluster, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	isFresh := time.Since(r.readAt) < reservedLifetime && (r.err == nil || time.Since(r.readAt) < reservedRetry)
	if isFresh && equality.Semantic.DeepEqual(r.config, config) {
		return r.known, r.err
	}
	ctx, cancel := context.WithTimeout(ctx, reservedTimeout)
	defer cancel()
	known, names, err := cluster.ReadAddresses(ctx, r.live, r.connection, config)
	for _, name := range names {
		ips, failure := r.resolver.Lookup(ctx, name) // if it does not resolve here, its Endpoints are known nevertheless
		if failure == nil {
			known.Servers = append(known.Servers, ips...)
		}
	}
	if err != nil {
		err = fmt.Errorf("reading reserved addresses: %w", err)
	}
	r.readAt, r.config, r.known, r.err = time.Now(), *config.DeepCopy(), known, err
	return known, err
}
