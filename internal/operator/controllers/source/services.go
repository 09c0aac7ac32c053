package source

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/windows-machine-config/wmco/internal/operator/addresses"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Users of a namespace choose the addresses of their Services. kube-proxy sends connections to these addresses to the Services' pods, including those
// of the operator, which uses its node's network: the owner of a Service could impersonate the host.

const (
	// serviceAddresses limits the addresses of one Service that are compared, claimedAddresses those of all. Beyond that, any may be claimed.
	serviceAddresses = 1024
	claimedAddresses = 1 << 17
	// Memory limits: of one Service, of those in one namespace, and of all. A Service with three addresses takes a kilobyte.
	maxService          = 512 << 10
	servicesOfNamespace = 16 << 20
	allServices         = 64 << 20
	// servicesPage is how many Services are read at a time: each may be larger than a megabyte. servicesTimeout limits the time for reading all.
	servicesPage    = 50
	servicesTimeout = 30 * time.Second
	// claimsLifetime is how old claims from the cache may be.
	claimsLifetime = time.Second
	// releaseGrace is how long an address counts as claimed after its Service was deleted, because kube-proxy may still send connections there.
	// releaseHistory is how long ended claims are recorded, for joins that take long.
	releaseGrace   = 2 * time.Minute
	releaseHistory = time.Hour
)

// Services returns the informer of Services for the manager's cache.
func Services() kube.Informer {
	return kube.Informer{
		Object: &corev1.Service{}, Keep: kube.KeepFunc(keepService), Bytes: maxService,
		Share: &kube.Share{Total: allServices, PerOwner: servicesOfNamespace, Owner: client.Object.GetNamespace},
	}
}

// keepService keeps the addresses of a Service, up to one more than are compared.
func keepService(s *corev1.Service) (client.Object, bool) {
	kept := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion}}
	bounded := func(all []string) (kept []string) {
		for _, text := range all[:min(len(all), serviceAddresses+1)] {
			kept = append(kept, truncate.Text(text, truncate.Quoted))
		}
		return kept
	}
	kept.Spec.Type, kept.Spec.LoadBalancerIP = s.Spec.Type, truncate.Text(s.Spec.LoadBalancerIP, truncate.Quoted)
	kept.Spec.ClusterIPs, kept.Spec.ExternalIPs = bounded(s.Spec.ClusterIPs), bounded(s.Spec.ExternalIPs)
	for _, ingress := range s.Status.LoadBalancer.Ingress[:min(len(s.Status.LoadBalancer.Ingress), serviceAddresses+1)] {
		kept.Status.LoadBalancer.Ingress = append(kept.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: truncate.Text(ingress.IP, truncate.Quoted)})
	}
	return kept, true
}

type claims struct {
	claimants map[netip.Addr]string // the claiming field and Service
	// uncounted is a Service that claims more addresses than are compared.
	uncounted string
}

func (c *claims) add(s *corev1.Service) {
	if kube.IsCut(s) {
		c.uncounted = s.Namespace + "/" + s.Name
		return
	}
	count := 0
	claim := func(text, field string) {
		ip, err := netip.ParseAddr(text)
		if err != nil || c.uncounted != "" {
			return
		}
		name := s.Namespace + "/" + s.Name
		if count++; count > serviceAddresses || len(c.claimants) >= claimedAddresses {
			c.uncounted = name
			return
		}
		if ip = ip.Unmap(); c.claimants[ip] == "" {
			c.claimants[ip] = field + " of Service " + name
		}
	}
	for _, text := range s.Spec.ExternalIPs {
		claim(text, "spec.externalIPs")
	}
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		claim(ingress.IP, "status.loadBalancer")
	}
	for _, text := range s.Spec.ClusterIPs {
		claim(text, "spec.clusterIPs")
	}
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		claim(s.Spec.LoadBalancerIP, "spec.loadBalancerIP")
	}
}

// services records which addresses Services claim, and which they claimed a moment ago.
type services struct {
	cached, live client.Reader

	mu       sync.Mutex
	known    claims // from the cache
	knownAt  time.Time
	released map[netip.Addr]release
	// uncounted is the Service that released, at lostAt, an address that could not be recorded.
	uncounted string
	lostAt    time.Time

	reads *kube.SharedRead[struct{}, claims]
}

func newServices(cached, live client.Reader) *services {
	return &services{cached: cached, live: live, reads: kube.NewSharedRead[struct{}, claims]()}
}

// release is a claim that ended.
type release struct {
	claimant string
	at       time.Time
}

// watch records which claims end, from the events of the cache.
func (s *services) watch(ctx context.Context, m manager.Manager) error {
	informer, err := m.GetCache().GetInformer(ctx, &corev1.Service{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching Services: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) { s.changed(before, after) },
		DeleteFunc: func(before any) {
			if unseen, ok := before.(toolscache.DeletedFinalStateUnknown); ok {
				before = unseen.Obj
			}
			s.changed(before, nil)
		},
	})
	return err
}

func (s *services) changed(before, after any) {
	previous, existing := claims{claimants: map[netip.Addr]string{}}, claims{claimants: map[netip.Addr]string{}}
	service, ok := before.(*corev1.Service)
	if !ok {
		return
	}
	previous.add(service)
	if service, ok := after.(*corev1.Service); ok {
		existing.add(service)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.knownAt = time.Time{}
	now := time.Now()
	maps.DeleteFunc(s.released, func(_ netip.Addr, r release) bool { return now.Sub(r.at) > releaseHistory })
	if previous.uncounted != "" && existing.uncounted == "" {
		s.uncounted, s.lostAt = previous.uncounted, now
	}
	for ip, claimant := range previous.claimants {
		if existing.claimants[ip] != "" {
			continue
		}
		if len(s.released) >= claimedAddresses {
			s.uncounted, s.lostAt = service.Namespace+"/"+service.Name, now
			return
		}
		if s.released == nil {
			s.released = map[netip.Addr]release{}
		}
		s.released[ip] = release{claimant, now}
	}
}

// addCached adds what Services claim according to the cache, and what was claimed since a time.
func (s *services) addCached(ctx context.Context, to *addresses.Cluster, since time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.knownAt) >= claimsLifetime {
		var list corev1.ServiceList
		if err := s.cached.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing Services: %w", err)
		}
		s.known, s.knownAt = claims{claimants: map[netip.Addr]string{}}, now
		for i := range list.Items {
			s.known.add(&list.Items[i])
		}
	}
	s.setClaims(s.known, to, since)
	return nil
}

// addLive adds what Services claim now according to the API server, and what was claimed since a time.
func (s *services) addLive(ctx context.Context, to *addresses.Cluster, since time.Time) error {
	found, err := s.reads.Do(ctx, struct{}{}, 0, s.read)
	if err != nil {
		return fmt.Errorf("listing Services: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setClaims(found, to, since)
	return nil
}

func (s *services) read(ctx context.Context) (claims, error) {
	ctx, cancel := context.WithTimeout(ctx, servicesTimeout)
	defer cancel()
	found := claims{claimants: map[netip.Addr]string{}}
	page := client.ListOptions{Limit: servicesPage}
	for {
		var list corev1.ServiceList
		if err := s.live.List(ctx, &list, &page); err != nil {
			return claims{}, err
		}
		for i := range list.Items {
			found.add(&list.Items[i])
		}
		if page.Continue = list.Continue; page.Continue == "" {
			return found, nil
		}
	}
}

// setClaims sets the claims, and those that ended since a time. s.mu must be held. The map is shared and must no longer be written to.
func (s *services) setClaims(found claims, to *addresses.Cluster, since time.Time) {
	to.Claimed, to.Uncounted = found.claimants, found.uncounted
	if to.Uncounted == "" && s.lostAt.After(since) {
		to.Uncounted = s.uncounted
	}
	to.Released = map[netip.Addr]string{}
	for ip, r := range s.released {
		if r.at.After(since) {
			to.Released[ip] = r.claimant
		}
	}
}
