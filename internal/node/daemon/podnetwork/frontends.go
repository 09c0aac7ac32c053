package podnetwork

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/internal/node/daemon/apiclient"
	"github.com/windows-machine-config/wmco/internal/node/kubeapi"
	"github.com/windows-machine-config/wmco/internal/node/kubeproxy"
)

// frontends is WICD's view of the cluster's Services: just enough to determine which load balancers are required, and which are orphaned.
// Two watches fill it. It is safe for concurrent use.
type frontends struct {
	node string

	mu       sync.Mutex
	services map[types.NamespacedName]*clusterService
	// owners are the Services of EndpointSlices.
	owners map[types.NamespacedName]types.NamespacedName
	// servicesListed and slicesListed are true once all were read.
	servicesListed, slicesListed bool
	// former are addresses that Services had, and when they gave them up.
	former map[netip.Addr]time.Time
	// owned is the number of Services and EndpointSlices that have an address.
	owned map[netip.Addr]int
	// onHost is the presence from which the load balancers of services were computed.
	onHost kubeproxy.Presence
}

// clusterService is a Service and its EndpointSlices. The Service is nil while only EndpointSlices are known.
type clusterService struct {
	service *kubeproxy.Service
	slices  map[string]kubeproxy.EndpointSlice
	// versions are the resource versions of both: kube-proxy re-programs a Service at every change of its EndpointSlices, even at one without
	// effect. The Service has the empty name.
	versions map[string]string
	// since is when one of them last changed.
	since time.Time
	// balancers are its load balancers; they are recomputed if isStale.
	balancers []kubeproxy.Balancer
	isStale   bool
}

// balancer is a required load balancer.
type balancer struct {
	service  types.NamespacedName
	backends []netip.Addr
	// since is when the Service or its EndpointSlices last changed.
	since time.Time
}

func newFrontends(node string) *frontends {
	return &frontends{
		node: node, services: map[types.NamespacedName]*clusterService{}, owners: map[types.NamespacedName]types.NamespacedName{},
		former: map[netip.Addr]time.Time{}, owned: map[netip.Addr]int{},
	}
}

// Collections that are watched.
const (
	servicesPath = "/api/v1/services"
	slicesPath   = "/apis/discovery.k8s.io/v1/endpointslices"
)

// follow watches the cluster until ctx is done.
func (f *frontends) follow(ctx context.Context, client *apiclient.Client, log *slog.Logger) {
	services := kubeapi.Follower[*corev1.Service]{Path: servicesPath, Kind: "Services", Read: decode[corev1.Service], Store: serviceStore{f}, Log: log}
	endpoints := kubeapi.Follower[*discoveryv1.EndpointSlice]{
		Path: slicesPath, Kind: "EndpointSlices", Read: decode[discoveryv1.EndpointSlice], Store: sliceStore{f}, Log: log,
	}
	var work sync.WaitGroup
	work.Go(func() { _ = services.Run(ctx, client.Client) }) // the watch of the Node notices that the certificate is rejected
	work.Go(func() { _ = endpoints.Run(ctx, client.Client) })
	work.Wait()
}

func decode[T any](text json.RawMessage) (*T, error) {
	object := new(T)
	return object, json.Unmarshal(text, object)
}

// isSynced reports whether both kinds were listed once.
func (f *frontends) isSynced() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.servicesListed && f.slicesListed
}

// expected returns the load balancers that kube-proxy must have created: those of Services and EndpointSlices that did not change within settled.
// One that is uncertain, or expected by two Services, is left out: Windows gives it to only one of them.
func (f *frontends) expected(now time.Time, settled time.Duration, onHost kubeproxy.Presence) map[kubeproxy.Frontend]balancer {
	f.mu.Lock()
	defer f.mu.Unlock()
	isChanged := !maps.Equal(f.onHost, onHost)
	f.onHost = onHost
	all := map[kubeproxy.Frontend]balancer{}
	contested := map[kubeproxy.Frontend]bool{}
	for name, s := range f.services {
		if s.isStale || isChanged {
			s.compute(onHost)
		}
		for _, b := range s.balancers {
			if _, isTwice := all[b.Frontend]; isTwice || !b.Certain {
				contested[b.Frontend] = true
			}
			if b.Certain && now.Sub(s.since) >= settled {
				all[b.Frontend] = balancer{name, b.Backends, s.since}
			}
		}
	}
	maps.DeleteFunc(all, func(front kubeproxy.Frontend, _ balancer) bool { return contested[front] })
	return all
}

func (s *clusterService) compute(onHost kubeproxy.Presence) {
	s.balancers, s.isStale = nil, false
	if s.service != nil {
		s.balancers = s.service.Balancers(slices.Collect(maps.Values(s.slices)), onHost)
	}
}

// More than busyChanges changes within busyFor keep kube-proxy busy for a while.
const (
	busyChanges = 20
	busyFor     = 30 * time.Second
)

// busy reports whether much has changed recently.
func (f *frontends) busy(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	changes := 0
	for _, s := range f.services {
		if now.Sub(s.since) < busyFor {
			changes++
		}
	}
	return changes > busyChanges
}

// formerFor is how long former addresses of Services are remembered. Above maxFormer addresses, older ones are removed.
const (
	formerFor = 24 * time.Hour
	maxFormer = 10_000
)

// owns reports whether a Service or one of its endpoints has an address.
func (f *frontends) owns(a netip.Addr) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.owned[a] > 0
}

// wasServiceAddress reports whether a Service had an address within formerFor.
func (f *frontends) wasServiceAddress(a netip.Addr, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	since, wasOwned := f.former[a]
	return wasOwned && now.Sub(since) <= formerFor
}

// isCurrent reports whether the resource versions known for a Service and its EndpointSlices are the given ones.
func (f *frontends) isCurrent(name types.NamespacedName, versions map[string]string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.services[name]
	return c != nil && maps.Equal(c.versions, versions)
}

// count adds to the number of owners of addresses.
func (f *frontends) count(by int, addresses []netip.Addr) {
	for _, a := range addresses {
		if f.owned[a] += by; f.owned[a] <= 0 {
			delete(f.owned, a)
		}
	}
}

func addressesOf(s kubeproxy.EndpointSlice) []netip.Addr {
	var all []netip.Addr
	for _, e := range s.Endpoints {
		all = append(all, e.Address)
	}
	return all
}

// serviceStore stores Services in the frontends. It implements kubeapi.Store.
type serviceStore struct{ frontends *frontends }

// Replace implements kubeapi.Store. Unchanged Services keep their age.
func (s serviceStore) Replace(all map[types.NamespacedName]*corev1.Service) {
	s.frontends.mu.Lock()
	defer s.frontends.mu.Unlock()
	now := time.Now()
	for _, service := range all {
		s.frontends.readService(service, now)
	}
	for _, name := range slices.Collect(maps.Keys(s.frontends.services)) {
		if all[name] == nil {
			s.frontends.putService(name, nil, "", now)
		}
	}
	s.frontends.servicesListed = true
}

// Put implements kubeapi.Store.
func (s serviceStore) Put(_ types.NamespacedName, service *corev1.Service) {
	s.frontends.mu.Lock()
	defer s.frontends.mu.Unlock()
	s.frontends.readService(service, time.Now())
}

// Remove implements kubeapi.Store.
func (s serviceStore) Remove(name types.NamespacedName) {
	s.frontends.mu.Lock()
	defer s.frontends.mu.Unlock()
	s.frontends.putService(name, nil, "", time.Now())
}

// sliceStore stores EndpointSlices in the frontends. It implements kubeapi.Store.
type sliceStore struct{ frontends *frontends }

// Replace implements kubeapi.Store. Unchanged EndpointSlices keep their age.
func (s sliceStore) Replace(all map[types.NamespacedName]*discoveryv1.EndpointSlice) {
	s.frontends.mu.Lock()
	defer s.frontends.mu.Unlock()
	now := time.Now()
	for _, slice := range all {
		s.frontends.readSlice(slice, now)
	}
	for _, name := range slices.Collect(maps.Keys(s.frontends.owners)) {
		if all[name] == nil {
			s.frontends.removeSlice(name, now)
		}
	}
	s.frontends.slicesListed = true
}

// Put implements kubeapi.Store.
func (s sliceStore) Put(_ types.NamespacedName, slice *discoveryv1.EndpointSlice) {
	s.frontends.mu.Lock()
	defer s.frontends.mu.Unlock()
	s.frontends.readSlice(slice, time.Now())
}

// Remove implements kubeapi.Store.
func (s sliceStore) Remove(name types.NamespacedName) {
	s.frontends.mu.Lock()
	defer s.frontends.mu.Unlock()
	s.frontends.removeSlice(name, time.Now())
}

// readService stores the relevant part of a Service. An unchanged one keeps its age.
func (f *frontends) readService(o *corev1.Service, now time.Time) {
	s := kubeproxy.ReadService(o)
	f.putService(types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, &s, o.ResourceVersion, now)
}

// readSlice stores the relevant part of an EndpointSlice. An unchanged one keeps its age.
func (f *frontends) readSlice(o *discoveryv1.EndpointSlice, now time.Time) {
	f.putSlice(types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, kubeproxy.ReadEndpointSlice(o, f.node), o.ResourceVersion, now)
}

// putService stores a Service, or removes it if it is nil.
func (f *frontends) putService(name types.NamespacedName, s *kubeproxy.Service, version string, now time.Time) {
	c := f.at(name)
	if c.service != nil && s != nil && reflect.DeepEqual(c.service, s) && c.versions[""] == version {
		return
	}
	c.versions[""] = version
	if c.service != nil {
		f.count(-1, c.service.Addresses)
		f.rememberFormer(c.service.Addresses, now)
	}
	if s != nil {
		f.count(1, s.Addresses)
	}
	if c.service != nil || s != nil {
		c.service, c.since, c.isStale = s, now, true
	}
	f.drop(name)
}

// rememberFormer remembers addresses that a Service had. If there are many, those older than formerFor are removed.
func (f *frontends) rememberFormer(addresses []netip.Addr, now time.Time) {
	if len(f.former) > maxFormer {
		maps.DeleteFunc(f.former, func(_ netip.Addr, since time.Time) bool { return now.Sub(since) > formerFor })
	}
	for _, a := range addresses {
		if len(f.former) <= 2*maxFormer {
			f.former[a] = now
		}
	}
}

// putSlice stores an EndpointSlice, which may have belonged to another Service before.
func (f *frontends) putSlice(slice types.NamespacedName, s kubeproxy.EndpointSlice, version string, now time.Time) {
	if owner, exists := f.owners[slice]; exists && owner != s.Service {
		f.removeSlice(slice, now)
	}
	f.owners[slice] = s.Service
	c := f.at(s.Service)
	old, exists := c.slices[slice.Name]
	if exists && reflect.DeepEqual(old, s) && c.versions[slice.Name] == version {
		return
	}
	c.versions[slice.Name] = version
	f.count(-1, addressesOf(old))
	f.count(1, addressesOf(s))
	c.slices[slice.Name], c.since, c.isStale = s, now, true
}

func (f *frontends) removeSlice(slice types.NamespacedName, now time.Time) {
	owner, exists := f.owners[slice]
	if !exists {
		return
	}
	delete(f.owners, slice)
	c := f.at(owner)
	f.count(-1, addressesOf(c.slices[slice.Name]))
	delete(c.slices, slice.Name)
	delete(c.versions, slice.Name)
	c.since, c.isStale = now, true
	f.drop(owner)
}

// at returns the entry of a Service, and creates it if necessary.
func (f *frontends) at(name types.NamespacedName) *clusterService {
	c, exists := f.services[name]
	if !exists {
		c = &clusterService{slices: map[string]kubeproxy.EndpointSlice{}, versions: map[string]string{}}
		f.services[name] = c
	}
	return c
}

// drop removes an entry that has become empty.
func (f *frontends) drop(name types.NamespacedName) {
	if c := f.services[name]; c.service == nil && len(c.slices) == 0 {
		delete(f.services, name)
	}
}
