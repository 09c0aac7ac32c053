package podnetwork

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/windows-machine-config/wmco/internal/daemon/apiclient"
	"github.com/windows-machine-config/wmco/internal/hns"
)

// frontend is an address and port at which a Service answers. It can be compared.
type frontend struct {
	vip      netip.Addr
	port     uint16
	protocol hns.Protocol
}

// String implements fmt.Stringer.
func (f frontend) String() string {
	protocol := "TCP"
	if f.protocol == hns.UDP {
		protocol = "UDP"
	}
	return fmt.Sprintf("%s:%d/%s", f.vip, f.port, protocol)
}

// frontends are what the cluster says of Services: no more than is needed to tell which load balancers must be there, and which
// belong to nobody. It is filled by two watches and may be read at any time.
type frontends struct {
	mu       sync.Mutex
	services map[types.NamespacedName]clusterService
	slices   map[types.NamespacedName]endpointSlice
	// told says which of the two kinds were told completely.
	told map[string]bool
}

// clusterService is what of a Service matters: its frontends by the name of the port.
type clusterService struct {
	vip   netip.Addr
	ports map[string]frontend
	since time.Time
}

// endpointSlice is what of an EndpointSlice matters.
type endpointSlice struct {
	service   types.NamespacedName
	ports     []string
	addresses []netip.Addr
	// ready says that one of the endpoints takes connections.
	ready bool
	since time.Time
}

func newFrontends() *frontends {
	return &frontends{
		services: map[types.NamespacedName]clusterService{}, slices: map[types.NamespacedName]endpointSlice{}, told: map[string]bool{},
	}
}

// follow keeps up with the cluster until ctx is done.
func (f *frontends) follow(ctx context.Context, client *apiclient.Client) {
	services := cache.NewListWatchFromClient(client.Core, "services", corev1.NamespaceAll, fields.Everything())
	endpoints := cache.NewListWatchFromClient(client.Discovery, "endpointslices", corev1.NamespaceAll, fields.Everything())
	var work sync.WaitGroup
	work.Go(func() {
		cache.NewReflectorWithOptions(services, &corev1.Service{}, mirror{f, "services"}, cache.ReflectorOptions{}).RunWithContext(ctx)
	})
	work.Go(func() {
		cache.NewReflectorWithOptions(endpoints, &discoveryv1.EndpointSlice{}, mirror{f, "endpointslices"}, cache.ReflectorOptions{}).RunWithContext(ctx)
	})
	work.Wait()
}

// known tells whether the cluster has told everything once.
func (f *frontends) known() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.told["services"] && f.told["endpointslices"]
}

// expected are the frontends for which kube-proxy must have made load balancers for so long: those of Services that have an endpoint
// which takes connections, and did not change lately. It leaves out what kube-proxy may have reasons to leave out.
func (f *frontends) expected(now time.Time, settled time.Duration) map[frontend]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	serves := map[types.NamespacedName]map[string]bool{}
	young := map[types.NamespacedName]bool{}
	for _, s := range f.slices {
		if serves[s.service] == nil {
			serves[s.service] = map[string]bool{}
		}
		for _, name := range s.ports {
			serves[s.service][name] = serves[s.service][name] || s.ready
		}
		young[s.service] = young[s.service] || now.Sub(s.since) < settled
	}
	all := map[frontend]string{}
	for name, s := range f.services {
		for port, front := range s.ports {
			if serves[name][port] && !young[name] && now.Sub(s.since) >= settled {
				all[front] = name.String()
			}
		}
	}
	return all
}

// busyChanges is how many changes within busyFor give kube-proxy more to do than it does in a moment.
const (
	busyChanges = 20
	busyFor     = 30 * time.Second
)

// busy tells whether much has changed just now.
func (f *frontends) busy(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	changes := 0
	for _, s := range f.services {
		if now.Sub(s.since) < busyFor {
			changes++
		}
	}
	for _, s := range f.slices {
		if now.Sub(s.since) < busyFor {
			changes++
		}
	}
	return changes > busyChanges
}

// addresses are those of Services and of their endpoints.
func (f *frontends) addresses() map[netip.Addr]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[netip.Addr]bool{}
	for _, s := range f.services {
		all[s.vip] = true
	}
	for _, s := range f.slices {
		for _, a := range s.addresses {
			all[a] = true
		}
	}
	return all
}

// mirror takes what a watch tells into the frontends. It implements cache.ReflectorStore.
type mirror struct {
	of   *frontends
	kind string
}

// Add implements cache.ReflectorStore.
func (m mirror) Add(o any) error {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	m.of.put(o, time.Now())
	return nil
}

// Update implements cache.ReflectorStore.
func (m mirror) Update(o any) error { return m.Add(o) }

// Delete implements cache.ReflectorStore.
func (m mirror) Delete(o any) error {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	switch o := o.(type) {
	case *corev1.Service:
		delete(m.of.services, types.NamespacedName{Namespace: o.Namespace, Name: o.Name})
	case *discoveryv1.EndpointSlice:
		delete(m.of.slices, types.NamespacedName{Namespace: o.Namespace, Name: o.Name})
	}
	return nil
}

// Replace implements cache.ReflectorStore. What is the same as before keeps its age.
func (m mirror) Replace(list []any, _ string) error {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	listed := map[types.NamespacedName]bool{}
	for _, o := range list {
		if named, ok := o.(metav1.Object); ok {
			listed[types.NamespacedName{Namespace: named.GetNamespace(), Name: named.GetName()}] = true
		}
		m.of.put(o, time.Now())
	}
	if m.kind == "services" {
		maps.DeleteFunc(m.of.services, func(name types.NamespacedName, _ clusterService) bool { return !listed[name] })
	} else {
		maps.DeleteFunc(m.of.slices, func(name types.NamespacedName, _ endpointSlice) bool { return !listed[name] })
	}
	m.of.told[m.kind] = true
	return nil
}

// Resync implements cache.ReflectorStore.
func (m mirror) Resync() error { return nil }

// put keeps what matters of an object. One that says the same as before keeps its age.
func (f *frontends) put(o any, now time.Time) {
	switch o := o.(type) {
	case *corev1.Service:
		name := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
		s, matters := serviceOf(o)
		s.since = now
		was, there := f.services[name]
		switch {
		case !matters:
			delete(f.services, name)
		case !there || !s.same(was):
			f.services[name] = s
		}
	case *discoveryv1.EndpointSlice:
		name := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
		s := sliceOf(o)
		s.since = now
		if was, there := f.slices[name]; !there || !s.same(was) {
			f.slices[name] = s
		}
	}
}

func (s clusterService) same(other clusterService) bool {
	if s.vip != other.vip || len(s.ports) != len(other.ports) {
		return false
	}
	for name, front := range s.ports {
		if other.ports[name] != front {
			return false
		}
	}
	return true
}

func (s endpointSlice) same(other endpointSlice) bool {
	return s.service == other.service && s.ready == other.ready && slices.Equal(s.ports, other.ports) && slices.Equal(s.addresses, other.addresses)
}

// labelProxyName is that of Services that another proxy serves (KEP-2447).
const labelProxyName = "service.kubernetes.io/service-proxy-name"

// serviceOf reads a Service; matters is false when kube-proxy makes no load balancer for an IPv4 address of it.
func serviceOf(o *corev1.Service) (s clusterService, matters bool) {
	vip, err := netip.ParseAddr(o.Spec.ClusterIP)
	if err != nil || !vip.Is4() || o.Labels[labelProxyName] != "" || o.Spec.Type == corev1.ServiceTypeExternalName {
		return clusterService{}, false
	}
	s = clusterService{vip: vip, ports: map[string]frontend{}}
	local := o.Spec.InternalTrafficPolicy != nil && *o.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal
	for _, p := range o.Spec.Ports {
		front := frontend{vip: vip, port: uint16(p.Port), protocol: protocolOf(p.Protocol)}
		if front.protocol != 0 && !local { // with local endpoints only, there may be none on this node
			s.ports[p.Name] = front
		}
	}
	return s, true
}

// protocolOf is 0 for protocols that Windows' load balancers do not have.
func protocolOf(p corev1.Protocol) hns.Protocol {
	switch cmp.Or(p, corev1.ProtocolTCP) {
	case corev1.ProtocolTCP:
		return hns.TCP
	case corev1.ProtocolUDP:
		return hns.UDP
	}
	return 0
}

func sliceOf(o *discoveryv1.EndpointSlice) endpointSlice {
	s := endpointSlice{service: types.NamespacedName{Namespace: o.Namespace, Name: o.Labels[discoveryv1.LabelServiceName]}}
	if o.AddressType != discoveryv1.AddressTypeIPv4 {
		return s
	}
	for _, p := range o.Ports {
		if p.Name != nil {
			s.ports = append(s.ports, strings.Clone(*p.Name))
		} else {
			s.ports = append(s.ports, "")
		}
	}
	for _, e := range o.Endpoints {
		s.ready = s.ready || e.Conditions.Ready == nil || *e.Conditions.Ready
		for _, text := range e.Addresses {
			if a, err := netip.ParseAddr(text); err == nil {
				s.addresses = append(s.addresses, a)
			}
		}
	}
	return s
}
