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

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/addresses"
	"github.com/windows-machine-config/wmco/internal/cluster"
	"github.com/windows-machine-config/wmco/internal/kube"
)

// ReservedAddresses remembers which addresses the cluster has for something else than its Windows hosts, Nodes aside: they change about never, and
// hundreds of hosts may join at once.
type ReservedAddresses struct {
	client, live client.Reader
	resolver     *Resolver

	mu     sync.Mutex
	readAt time.Time
	config v1alpha1.NetworkSpec
	known  addresses.Cluster
	err    error
}

// NewReservedAddresses reads Nodes and WindowsConfig from the cache, all else from the API server.
func NewReservedAddresses(client, live client.Reader, r *Resolver) *ReservedAddresses {
	return &ReservedAddresses{client: client, live: live, resolver: r}
}

const (
	// reservedFor is how old what is remembered may be, reservedAgain how old when not all could be read, and reservedWithin how long a
	// reading may take.
	reservedFor    = 10 * time.Second
	reservedAgain  = 2 * time.Second
	reservedWithin = 10 * time.Second
)

// With are those that no Windows host can have. With an error comes what is known. self is the Node whose addresses may be the
// host's own; empty for none.
func (r *ReservedAddresses) With(ctx context.Context, self string) (addresses.Cluster, error) {
	config, err := kube.ReadConfig(ctx, r.client)
	if err != nil {
		return addresses.Cluster{}, err
	}
	known, err := r.Read(ctx, config.Network)
	var nodes corev1.NodeList
	if failure := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); failure != nil {
		err = errors.Join(err, fmt.Errorf("listing Nodes: %w", failure))
	}
	known.Nodes = map[netip.Addr]string{}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if kube.IsWindows(node) || node.Name == self {
			continue
		}
		for _, a := range node.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil {
				known.Nodes[ip.Unmap()] = node.Name
			}
		}
	}
	return known, err
}

// Read returns those without Nodes, no older than ten seconds. With an error comes what is known.
func (r *ReservedAddresses) Read(ctx context.Context, config v1alpha1.NetworkSpec) (addresses.Cluster, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	isFresh := time.Since(r.readAt) < reservedFor && (r.err == nil || time.Since(r.readAt) < reservedAgain)
	if isFresh && equality.Semantic.DeepEqual(r.config, config) {
		return r.known, r.err
	}
	ctx, cancel := context.WithTimeout(ctx, reservedWithin)
	defer cancel()
	known, server, err := cluster.ReadAddresses(ctx, r.live, config)
	if server != "" {
		ips, failure := r.resolver.Lookup(ctx, server) // where it does not resolve here, its Endpoints are known all the same
		if failure == nil {
			known.Servers = append(known.Servers, ips...)
		}
	}
	if err != nil {
		err = fmt.Errorf("reading which addresses no host can have: %w", err)
	}
	r.readAt, r.config, r.known, r.err = time.Now(), *config.DeepCopy(), known, err
	return known, err
}
