package podnetwork

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/windows-machine-config/wmco/internal/node/kubeproxy"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// fakeProxy creates load balancers as kube-proxy does: it programs a changed Service once, retries every 30 seconds what it could not program,
// and never checks what it has created. What it creates matches the real one (the lab's differential test); its timing is simulated. When it
// starts, it waits until it has its Node from the API server, and only then removes everything (newProxierInternal).
type fakeProxy struct {
	process            uint32
	clearsAt, startsAt time.Time
	// pending are the Services that it is programming, speed how many per second: Windows may be slow.
	pending  []string
	speed    int
	services map[string]*corev1.Service
	slices   map[string]*discoveryv1.EndpointSlice
	// dirty are Services to program, retryAt the time of the next attempt unless something changes before.
	dirty     map[string]bool
	isChanged bool
	retryAt   time.Time
	created   map[string][]string
	// refused are Services for which Windows creates no load balancer until a time.
	refused map[string]time.Time
	numbers int
}

// startProxy starts a new process, which some time later removes all load balancers and re-creates them ten seconds after that.
func (w *world) startProxy() {
	k := &w.kube
	k.process++
	k.clearsAt = w.now
	if w.one(2) {
		k.clearsAt = w.now.Add(time.Duration(w.random.Int64N(int64(3 * time.Minute))))
	}
	k.startsAt, k.retryAt, k.pending, k.speed = k.clearsAt.Add(10*time.Second), time.Time{}, nil, 1<<w.random.IntN(8)
	k.services, k.slices = maps.Clone(w.services), maps.Clone(w.slices)
	k.dirty, k.created = map[string]bool{}, map[string][]string{}
	for name := range k.services {
		k.dirty[name] = true
	}
	w.proxy = watch{} // it has listed everything
	clear(w.lost)
}

func (k *fakeProxy) notify(t notification, _ time.Time) {
	if t.isSlice {
		k.slices[t.name] = t.slice
	} else {
		k.services[t.name] = t.service
	}
	k.dirty[t.name], k.isChanged = true, true
}

// programs lets kube-proxy program what has changed, at most once a second, and with it everything that it could not program before.
func (w *world) programs() {
	k := &w.kube
	if !k.clearsAt.IsZero() && !w.now.Before(k.clearsAt) {
		w.state.LoadBalancers, k.clearsAt = nil, time.Time{}
	}
	if w.now.Before(k.startsAt) {
		return
	}
	if len(k.pending) == 0 && (k.isChanged || !w.now.Before(k.retryAt)) {
		k.isChanged, k.retryAt, k.pending = false, w.now.Add(30*time.Second), slices.Sorted(maps.Keys(k.dirty))
	}
	count := min(k.speed, len(k.pending))
	for _, name := range k.pending[:count] {
		w.program(name)
	}
	k.pending = k.pending[count:]
}

// program programs one Service, which stays dirty if it has no endpoints or Windows refuses a load balancer.
func (w *world) program(name string) {
	k := &w.kube
	removed := k.created[name]
	delete(k.created, name)
	w.state.LoadBalancers = slices.DeleteFunc(slices.Clone(w.state.LoadBalancers), func(b hns.LoadBalancer) bool { return slices.Contains(removed, b.ID) })
	s := k.services[name]
	if s == nil {
		delete(k.dirty, name)
		return
	}
	var endpoints []kubeproxy.EndpointSlice
	if e := k.slices[name]; e != nil {
		endpoints = append(endpoints, kubeproxy.ReadEndpointSlice(e, "win-1"))
	}
	for _, b := range kubeproxy.ReadService(s).Balancers(endpoints, presenceIn(w.state, "n1")) {
		if w.now.Before(k.refused[name]) {
			return
		}
		k.numbers++
		lb := hns.LoadBalancer{ID: fmt.Sprint("lb-", k.numbers), Protocol: b.Protocol, External: b.Port, SourceVIP: addr("10.132.1.254")}
		if b.VIP.IsValid() {
			lb.VIPs = []netip.Addr{b.VIP}
		}
		for _, a := range b.Backends {
			lb.Endpoints = append(lb.Endpoints, w.endpoint(a))
		}
		w.state.LoadBalancers = append(slices.Clone(w.state.LoadBalancers), lb)
		k.created[name] = append(k.created[name], lb.ID)
		delete(w.lost, b.Frontend)
	}
	if len(k.created[name]) > 0 {
		delete(k.dirty, name)
	}
}

// endpoint returns the ID of the endpoint with an address, and creates it if necessary.
func (w *world) endpoint(a netip.Addr) string {
	for _, e := range w.state.Endpoints {
		if e.Address == a && e.Network == "n1" {
			return e.ID
		}
	}
	e := remoteEndpoint("remote-"+a.String(), a.String())
	w.state.Endpoints = append(slices.Clone(w.state.Endpoints), e)
	return e.ID
}
