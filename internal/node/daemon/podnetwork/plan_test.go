package podnetwork

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/internal/node/kubeproxy"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

func overlayWanted() desired.Network {
	return desired.Network{Name: "overlay", MadeBy: "creator", Endpoint: "VIPEndpoint", Proxy: "proxy", ServiceCIDR: "10.96.0.0/16", MoreServiceCIDRs: []string{"10.200.0.0/16"}}
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// healthy returns a host with its network, the host's endpoint, a pod, and load balancers for some Services of cluster.
func healthy(services int) hns.State {
	s := hns.State{
		Networks: []hns.Network{{
			ID: "n1", Name: "overlay", Type: hns.Overlay, RouterMAC: "00-15-5D-00-00-01", ManagementIP: addr("192.0.2.10"),
			Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.132.1.0/24"), Gateway: addr("10.132.1.1"), VNI: 4097}},
		}},
		Endpoints: []hns.Endpoint{
			{ID: "vip", Network: "n1", Name: "VIPEndpoint", Address: addr("10.132.1.254"), Host: true},
			{ID: "pod", Network: "n1", Name: "pod", Address: addr("10.132.1.5")},
		},
	}
	for i := range services {
		backend := remoteEndpoint(fmt.Sprintf("backend-%d", i), fmt.Sprintf("10.132.2.%d", i+10))
		s.Endpoints = append(s.Endpoints, backend)
		s.LoadBalancers = append(s.LoadBalancers, hns.LoadBalancer{
			ID: fmt.Sprintf("lb-%d", i), VIPs: []netip.Addr{vipOf(i)}, Protocol: hns.TCP, External: 80, Internal: 8080, Endpoints: []string{backend.ID},
		})
	}
	return s
}

// remoteEndpoint returns an endpoint as kube-proxy creates it for a pod of another host.
func remoteEndpoint(id, ip string) hns.Endpoint {
	a := addr(ip).As4()
	return hns.Endpoint{
		ID: id, Network: "n1", Address: addr(ip), Remote: true, MAC: fmt.Sprintf("02-11-%02X-%02X-%02X-%02X", a[0], a[1], a[2], a[3]),
	}
}

func vipOf(i int) netip.Addr { return addr(fmt.Sprintf("10.96.1.%d", i+1)) }

// cluster has old Services with one endpoint each.
func cluster(count int) *frontends {
	f := newFrontends("win-1")
	services, endpoints := map[types.NamespacedName]*corev1.Service{}, map[types.NamespacedName]*discoveryv1.EndpointSlice{}
	for i := range count {
		s := serviceNamed(fmt.Sprintf("s%d", i), vipOf(i).String())
		e := endpointsOf(s.Name, fmt.Sprintf("10.132.2.%d", i+10), true)
		services[nameOfObject(s)], endpoints[nameOfObject(e)] = s, e
	}
	serviceStore{f}.Replace(services)
	sliceStore{f}.Replace(endpoints)
	age(f)
	return f
}

// age makes all Services old.
func age(f *frontends) {
	for _, s := range f.services {
		s.since = time.Time{}
	}
}

func serviceNamed(name, ip string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Name: "web", Port: 80, Protocol: corev1.ProtocolTCP}}},
	}
}

func endpointsOf(service, ip string, ready bool) *discoveryv1.EndpointSlice {
	port, number := "web", int32(8080)
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: service + "-x", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &port, Port: &number}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
}

// planStep is one pass of a test case: the time since the previous one, the change, and the expected plan.
type planStep struct {
	after  time.Duration
	change func(*networkView)
	// restart, remove, end and problems are the expected plan in short; problems has their reasons.
	restart, remove, end, problems string
	create                         bool
}

func TestNetworkPlan(t *testing.T) {
	lose := func(ids ...string) func(*networkView) {
		return func(v *networkView) {
			gone := func(id string) bool { return slices.Contains(ids, id) }
			v.state.Networks = slices.DeleteFunc(v.state.Networks, func(n hns.Network) bool { return gone(n.ID) })
			v.state.Endpoints = slices.DeleteFunc(v.state.Endpoints, func(e hns.Endpoint) bool { return gone(e.ID) })
			v.state.LoadBalancers = slices.DeleteFunc(v.state.LoadBalancers, func(b hns.LoadBalancer) bool { return gone(b.ID) })
		}
	}
	restore := func(v *networkView) { v.state, v.err = healthy(5), nil }
	// recreate gives all load balancers new IDs, as kube-proxy does some time after its start.
	recreate := func(v *networkView) {
		v.state = healthy(5)
		for i := range v.state.LoadBalancers {
			v.state.LoadBalancers[i].ID = fmt.Sprint("new-", i)
		}
	}
	unavailable := func(v *networkView) { v.state, v.err = hns.State{}, fmt.Errorf("reading: %w", hns.ErrUnavailable) }
	newProxy := func(v *networkView) { v.proxy++ }
	all := func(changes ...func(*networkView)) func(*networkView) {
		return func(v *networkView) {
			for _, c := range changes {
				c(v)
			}
		}
	}
	withOrphans := func(v *networkView) {
		v.state.LoadBalancers = append(v.state.LoadBalancers,
			hns.LoadBalancer{ID: "orphan", VIPs: []netip.Addr{addr("10.96.9.9")}, Protocol: hns.TCP, External: 80, Endpoints: []string{"used"}},
			hns.LoadBalancer{ID: "node-port", Protocol: hns.TCP, External: 30080},
			hns.LoadBalancer{ID: "added", VIPs: []netip.Addr{addr("10.200.9.9")}, Protocol: hns.TCP, External: 80}, // of a range that was added
			hns.LoadBalancer{ID: "external", VIPs: []netip.Addr{addr("203.0.113.7")}, Protocol: hns.TCP, External: 80})
		v.state.Endpoints = append(v.state.Endpoints,
			remoteEndpoint("stale", "10.132.7.9"), remoteEndpoint("used", "10.132.7.8"),
			hns.Endpoint{ID: "of another program", Network: "n1", Address: addr("10.132.7.7"), Remote: true, MAC: "00-11-22-33-44-55"},
			hns.Endpoint{ID: "service", Network: "n1", Address: vipOf(0), Remote: true},
			hns.Endpoint{ID: "backend", Network: "n1", Address: addr("10.132.2.11"), Remote: true},
			hns.Endpoint{ID: "others", Network: "n9", Address: addr("10.132.7.9"), Remote: true})
	}
	withoutEndpoint := func(v *networkView) { v.pods = []podNetwork{{"sandbox", addr("10.132.1.5")}} }
	minute := time.Minute
	for name, steps := range map[string][]planStep{
		"nothing is missing": {{}, {after: minute}, {after: time.Hour}},
		"one load balancer is lost": {
			{}, {after: minute, change: lose("lb-1")}, {after: 2 * time.Second}, {after: 4 * time.Second, problems: "LoadBalancersLost"},
			{after: 10 * time.Second, restart: "proxy", problems: "LoadBalancersLost"},
			{after: 2 * time.Second, change: newProxy, problems: "LoadBalancersLost"}, {after: 12 * time.Second, change: recreate}, {after: minute},
		},
		"most load balancers are lost": {
			{}, {after: minute, change: lose("lb-1", "lb-2", "lb-3", "lb-4")}, {after: 16 * time.Second, restart: "proxy", problems: "LoadBalancersLost"},
		},
		"all load balancers are lost": {
			{}, {after: minute, change: lose("lb-0", "lb-1", "lb-2", "lb-3", "lb-4"), restart: "proxy", problems: "LoadBalancersLost"},
		},
		"load balancers are lost again after a repair": {
			{}, {after: minute, change: lose("lb-1")}, {after: 16 * time.Second, restart: "proxy", problems: "LoadBalancersLost"},
			{after: 2 * time.Second, change: newProxy, problems: "LoadBalancersLost"}, {after: 12 * time.Second, change: recreate},
			{after: 2 * time.Second, change: lose("new-0", "new-1", "new-2", "new-3", "new-4"), restart: "proxy", problems: "LoadBalancersLost"},
		},
		"kube-proxy waits for the API server before it removes old load balancers": {
			{}, {after: minute, change: lose("lb-1")}, {after: 16 * time.Second, restart: "proxy", problems: "LoadBalancersLost"},
			{after: 2 * time.Second, change: newProxy, problems: "LoadBalancersLost"}, {after: 10 * minute, problems: "LoadBalancersLost"},
			{after: time.Second, change: lose("lb-0", "lb-2", "lb-3", "lb-4"), problems: "LoadBalancersLost"}, {after: 16 * time.Second, problems: "LoadBalancersLost"},
			{after: time.Second, change: recreate}, {after: minute},
		},
		"kube-proxy re-creates load balancers one by one": {
			{}, {after: minute, change: newProxy}, {after: minute, change: lose("lb-0", "lb-1", "lb-2", "lb-3", "lb-4")},
			{after: minute, change: all(recreate, lose("new-1", "new-2", "new-3", "new-4"))}, {after: 30 * time.Second, change: all(recreate, lose("new-4"))},
			{after: time.Second, change: recreate}, {after: minute, change: lose("new-4")}, {after: 16 * time.Second, restart: "proxy", problems: "LoadBalancersLost"},
		},
		"kube-proxy started before WICD": {
			{change: newProxy}, {after: minute}, {after: 30 * time.Second, change: lose("lb-0", "lb-1", "lb-2", "lb-3", "lb-4")}, {after: minute, change: recreate},
			{after: minute}, {after: minute, change: lose("new-4")}, {after: 16 * time.Second, restart: "proxy", problems: "LoadBalancersLost"},
		},
		"a load balancer that never existed causes no restart": {
			{change: lose("lb-1")}, {after: minute}, {after: 70 * time.Second}, {after: time.Hour},
		},
		"a load balancer is lost while many Services change": {
			{}, {after: minute, change: all(lose("lb-1"), func(v *networkView) {
				for i := range 25 {
					v.cluster.readService(serviceNamed(fmt.Sprintf("new%d", i), fmt.Sprintf("10.96.2.%d", i)), v.now)
				}
			})}, {after: 10 * time.Second}, {after: 15 * time.Second}, {after: 16 * time.Second, restart: "proxy", problems: "LoadBalancersLost"},
		},
		"kube-proxy that cannot re-create a load balancer is restarted once": {
			{}, {after: minute, change: lose("lb-1")}, {after: 16 * time.Second, restart: "proxy", problems: "LoadBalancersLost"},
			{after: 2 * time.Second, change: newProxy, problems: "LoadBalancersLost"},
			{after: 4 * minute, problems: "LoadBalancersLost"},
			{after: 10 * minute, problems: "LoadBalancersLost"}, {after: 24 * time.Hour, problems: "LoadBalancersLost"}, {after: minute, change: restore}, {after: minute},
		},
		"a starting kube-proxy has no load balancers yet": {
			{change: all(newProxy, lose("lb-0", "lb-1", "lb-2", "lb-3", "lb-4"))}, {after: 10 * time.Second}, {after: 5 * time.Second, change: restore}, {after: minute},
		},
		"kube-proxy is not running": {
			{change: func(v *networkView) { v.proxy = 0 }}, {after: minute, change: lose("lb-1")}, {after: minute},
		},
		"Services are not listed yet": {
			{change: func(v *networkView) { v.cluster = nil }}, {after: minute, change: lose("lb-1", "stale")}, {after: time.Hour},
		},
		"the Host Network Service was unavailable": {
			{}, {after: minute, change: unavailable, problems: "HNSUnavailable"}, {after: 2 * time.Second, problems: "HNSUnavailable"},
			{after: 2 * time.Second, change: restore, restart: "proxy"}, {after: 2 * time.Second}, {after: 10 * time.Second, change: newProxy}, {after: minute},
		},
		"the Host Network Service restarts without objects": {
			{}, {after: minute, change: unavailable, problems: "HNSUnavailable"},
			{after: 2 * time.Second, change: all(restore, lose("n1", "vip", "pod", "lb-0", "lb-1", "lb-2", "lb-3", "lb-4")), problems: "HNSNetworkMissing"},
			{after: 5 * time.Second, change: all(restore, func(v *networkView) { v.state.Networks[0].ID = "n2" }, lose("vip")), restart: "proxy", create: true, problems: "HNSEndpointLost"},
		},
		"the network is re-created": {
			{}, {after: minute, change: lose("n1"), problems: "HNSNetworkMissing"}, {after: 10 * time.Second, problems: "HNSNetworkMissing"},
			{after: 10 * time.Second, change: all(restore, func(v *networkView) {
				v.state.Networks[0].ID, v.state.Endpoints[0].Network, v.state.Endpoints[1].Network = "n2", "n2", "n2"
			}), restart: "proxy"}, {after: time.Second},
		},
		"the network stays missing": {
			{}, {after: minute, change: lose("n1"), problems: "HNSNetworkMissing"}, {after: 2 * minute, problems: "HNSNetworkMissing"},
			{after: 2 * minute, problems: "HNSNetworkMissing", restart: "creator"}, {after: minute, problems: "HNSNetworkMissing"},
			{after: 3 * minute, problems: "HNSNetworkMissing", restart: "creator"},
		},
		"the network never existed": {
			{change: lose("n1"), problems: "HNSNetworkMissing"}, {after: time.Hour, problems: "HNSNetworkMissing"},
		},
		"the network has no address yet": {
			{change: func(v *networkView) { v.state.Networks[0].ManagementIP = netip.Addr{} }, problems: "HNSNetworkMissing"}, {after: minute, change: restore},
		},
		"the host's endpoint is lost": {
			{}, {after: minute, change: lose("vip"), create: true, problems: "HNSEndpointLost"}, {after: 2 * time.Second, change: restore},
		},
		"kube-proxy took the address of the host's endpoint": {
			{change: all(lose("vip"), func(v *networkView) {
				v.state.Endpoints = append(v.state.Endpoints, hns.Endpoint{ID: "hasty", Network: "n1", Address: addr("10.132.1.254")})
			}), create: true, remove: "hasty", problems: "HNSEndpointLost"}, {after: 2 * time.Second, change: restore},
		},
		"a pod lost its endpoint": {
			{}, {after: minute, change: all(lose("pod"), withoutEndpoint)}, {after: 6 * time.Second, end: "sandbox", problems: "HNSEndpointLost"},
			{after: 2 * time.Second, change: func(v *networkView) { v.pods = nil }},
		},
		"a pod whose endpoint never existed is not stopped": {
			{change: all(lose("pod"), withoutEndpoint)}, {after: minute}, {after: time.Hour},
		},
		"no load balancer ever existed": {
			{change: lose("lb-0", "lb-1", "lb-2", "lb-3", "lb-4")}, {after: 3 * minute, problems: "LoadBalancersLost"}, {after: time.Hour, problems: "LoadBalancersLost"},
		},
		"a pod is created before its endpoint": {
			{}, {after: minute, change: all(lose("pod"), withoutEndpoint)}, {after: 2 * time.Second, change: restore}, {after: minute},
		},
		"orphaned objects are removed": {
			{}, {after: minute, change: withOrphans}, {after: 2 * minute}, {after: 2 * minute, remove: "orphan added stale"},
			{after: 2 * time.Second, change: lose("orphan", "added", "stale")}, {after: 2 * minute}, {after: 2 * minute, remove: "used"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, v := newNetworkMemory(), networkView{now: time.Now(), state: healthy(5), cluster: cluster(5), proxy: 100}
			m.proxy.process, m.proxy.since = v.proxy, v.now.Add(-time.Hour)
			for i, step := range steps {
				v.now = v.now.Add(step.after)
				if step.change != nil {
					step.change(&v)
				}
				p := decideWithAnswers(m, overlayWanted(), &v, confirmed)
				if len(p.unlisted) > 0 {
					t.Errorf("step %d: unlisted transitions %v", i, p.unlisted)
				}
				for what, pair := range map[string][2]string{
					"restart": {strings.Join(slices.Sorted(maps.Keys(p.restart)), " "), step.restart}, "remove": {removedBy(p), step.remove},
					"end": {endedBy(p), step.end}, "problems": {reasonsOf(p), step.problems},
					"create": {fmt.Sprint(p.create != nil), fmt.Sprint(step.create)},
				} {
					if pair[0] != pair[1] {
						t.Errorf("step %d: %s is %q, want %q (%v)", i, what, pair[0], pair[1], p.problems)
					}
				}
			}
		})
	}
}

// decideWithAnswers evaluates a view, and again if it has queries for the API server, with their results a second later. Windows' second
// generation of the API has what the first lists.
func decideWithAnswers(m *networkMemory, want desired.Network, v *networkView, answer func(queries) *evidence) networkPlan {
	v.evidence, v.objects = nil, nil
	return m.decide(want, v, queryFuncs{
		query: func(q queries) *evidence {
			v.now = v.now.Add(time.Second)
			return answer(q)
		},
		readObjects: func([]string) *objectView { return &objectView{second: v.state, after: v.state} },
		now:         func() time.Time { return v.now },
	})
}

// confirmed returns the evidence of an API server that confirms all losses and orphans.
func confirmed(q queries) *evidence {
	e := &evidence{lost: map[kubeproxy.Frontend]bool{}, owned: newFrontends("win-1")}
	for front := range q.lost {
		e.lost[front] = true
	}
	return e
}

func removedBy(p networkPlan) string {
	var ids []string
	for _, b := range p.remove.LoadBalancers {
		ids = append(ids, b.ID)
	}
	for _, e := range p.remove.Endpoints {
		ids = append(ids, e.ID)
	}
	return strings.Join(ids, " ")
}

func endedBy(p networkPlan) string {
	var sandboxes []string
	for _, pod := range p.end {
		sandboxes = append(sandboxes, pod.sandbox)
	}
	return strings.Join(sandboxes, " ")
}

func reasonsOf(p networkPlan) string {
	var reasons []string
	for _, problem := range p.problems {
		reasons = append(reasons, problem.reason)
	}
	return strings.Join(reasons, " ")
}

func TestValuesOfNetworkFiles(t *testing.T) {
	p := newNetworkMemory().evaluate(overlayWanted(), networkView{now: time.Now(), state: healthy(0)})
	want := desired.NetworkValues{Network: "overlay", PodCIDR: "10.132.1.0/24", LastPodIP: "10.132.1.253", SourceVIP: "10.132.1.254", ManagementIP: "192.0.2.10"}
	if p.values == nil || *p.values != want {
		t.Errorf("the values are %+v, want %+v", p.values, want)
	}
	for prefix, last := range map[string]string{"10.0.0.0/23": "10.0.1.254", "10.0.0.128/26": "10.0.0.190", "172.16.0.0/12": "172.31.255.254"} {
		if got := lastOf(netip.MustParsePrefix(prefix)); got != addr(last) {
			t.Errorf("the last address of %s is %s, want %s", prefix, got, last)
		}
	}
}

// TestUnchangedServiceKeepsItsAge: a repeated list is not a change. kube-proxy re-programs a Service for each version.
func TestUnchangedServiceKeepsItsAge(t *testing.T) {
	f := newFrontends("win-1")
	slice := endpointsOf("s", "10.132.1.9", true)
	serviceStore{f}.Put(nameOfObject(slice), serviceNamed("s", "10.96.0.1"))
	sliceStore{f}.Put(nameOfObject(slice), slice)
	time.Sleep(20 * time.Millisecond)
	again := serviceNamed("s", "10.96.0.1")
	again.Annotations = map[string]string{"touched": "now"}
	serviceStore{f}.Put(nameOfObject(again), again)
	sliceStore{f}.Replace(map[types.NamespacedName]*discoveryv1.EndpointSlice{nameOfObject(slice): slice})
	if len(f.expected(time.Now(), 10*time.Millisecond, nil)) != 1 {
		t.Error("an equal Service counts as a change")
	}
	again.ResourceVersion = "2"
	serviceStore{f}.Put(nameOfObject(again), again)
	if len(f.expected(time.Now(), 10*time.Millisecond, nil)) != 0 {
		t.Error("a new version of a Service does not count as a change")
	}
	if f.isSynced() {
		t.Error("isSynced() before Services are listed")
	}
	serviceStore{f}.Replace(nil)
	if !f.isSynced() || len(f.expected(time.Now(), 0, nil)) != 0 {
		t.Error("Services remain after an empty list")
	}
	sliceStore{f}.Remove(nameOfObject(slice))
	if len(f.owned)+len(f.services)+len(f.owners) != 0 {
		t.Errorf("remaining after removal: addresses %v, Services %v, EndpointSlices %v", f.owned, f.services, f.owners)
	}
}
