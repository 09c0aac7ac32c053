package podnetwork

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// hours has the results of two simulated hours.
type hours struct {
	restarts, reports int
	removed           []string
	last              string
}

// play evaluates two hours in passes of 30 seconds. A new kube-proxy starts two seconds after a restart.
func play(f *frontends, s hns.State) (h hours) {
	m := newNetworkMemory()
	v := networkView{now: time.Now(), state: s, cluster: f, proxy: 100}
	m.proxy.process, m.proxy.since = v.proxy, v.now.Add(-time.Hour)
	for range 240 {
		p := decideWithAnswers(m, overlayWanted(), &v, confirmed)
		for _, b := range p.remove.LoadBalancers {
			h.removed = append(h.removed, "load balancer "+b.ID)
			v.state.LoadBalancers = slices.DeleteFunc(v.state.LoadBalancers, func(x hns.LoadBalancer) bool { return x.ID == b.ID })
		}
		for _, e := range p.remove.Endpoints {
			h.removed = append(h.removed, "endpoint "+e.ID)
			v.state.Endpoints = slices.DeleteFunc(v.state.Endpoints, func(x hns.Endpoint) bool { return x.ID == e.ID })
		}
		for _, problem := range p.problems {
			h.reports++
			h.last = problem.reason + ": " + problem.message
		}
		for _, notice := range p.notices {
			h.reports++
			h.last = notice.message
		}
		if p.restart["proxy"] != "" {
			h.restarts++
			v.now = v.now.Add(2 * time.Second)
			v.proxy++
		}
		v.now = v.now.Add(30 * time.Second)
	}
	return h
}

func (h hours) wantNothing(t *testing.T) {
	t.Helper()
	if h.restarts > 0 || h.reports > 0 || len(h.removed) > 0 {
		t.Errorf("%d restarts of kube-proxy, %d reports (last: %s), removed %v; want nothing", h.restarts, h.reports, h.last, h.removed)
	}
}

// TestFalseAlarmTriggersNoRepair has a case for each cluster from which false alarms were reported. Each was also run with kube-proxy of
// Kubernetes 1.36.
func TestFalseAlarmTriggersNoRepair(t *testing.T) {
	no, yes, node := false, true, "win-1"
	udp, tcp, web, number := corev1.ProtocolUDP, corev1.ProtocolTCP, "web", int32(8080)
	type objects struct {
		service *corev1.Service
		slice   *discoveryv1.EndpointSlice
		state   func(*hns.State)
	}
	dualStack := func(first, second string, families ...corev1.IPFamily) *corev1.Service {
		s := serviceNamed("s", first)
		s.Spec.ClusterIPs, s.Spec.IPFamilies = []string{first, second}, families
		return s
	}
	ready := func(address string) *discoveryv1.EndpointSlice { return endpointsOf("s", address, true) }
	hasBalancer := func(s *hns.State) {
		s.Endpoints = append(s.Endpoints, remoteEndpoint("s-backend", "10.132.2.40"), hns.Endpoint{ID: "s-vip", Network: "n1", Address: addr("10.96.1.77"), Remote: true})
		s.LoadBalancers = append(s.LoadBalancers, hns.LoadBalancer{ID: "s", VIPs: []netip.Addr{addr("10.96.1.77")}, Protocol: hns.TCP, External: 80, Endpoints: []string{"s-backend"}})
	}
	withPorts := func(ports ...discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
		e := ready("203.0.113.9")
		e.Ports = ports
		return e
	}
	unready := ready("10.132.2.40")
	unready.Endpoints[0].Conditions.Serving, unready.Endpoints[0].Conditions.Terminating = &no, &no
	onHost := ready("192.0.2.10")
	onHost.Endpoints[0].NodeName = &node
	ending := endpointsOf("s", "10.132.2.41", false)
	ending.Endpoints[0].Conditions.Serving, ending.Endpoints[0].Conditions.Terminating = &yes, &yes
	labeled := serviceNamed("s", "10.96.1.77")
	labeled.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": ""}
	headless := ready("10.132.2.40")
	headless.Labels[corev1.IsHeadlessService] = ""
	for name, o := range map[string]objects{
		"dual stack, IPv6 first": {dualStack("fd00:10:96::a", "10.96.1.77", corev1.IPv6Protocol, corev1.IPv4Protocol), ready("10.132.2.40"), hasBalancer},
		"dual stack, IPv4 first": {dualStack("10.96.1.77", "fd00:10:96::a", corev1.IPv4Protocol, corev1.IPv6Protocol), ready("10.132.2.40"), hasBalancer},
		"an address of another range of Services": {serviceNamed("s", "10.200.0.7"), ready("10.132.2.40"), func(s *hns.State) {
			hasBalancer(s)
			s.LoadBalancers[len(s.LoadBalancers)-1].VIPs[0], s.Endpoints[len(s.Endpoints)-1].Address = addr("10.200.0.7"), addr("10.200.0.7")
		}},
		"addresses of pods that are not ready":      {serviceNamed("s", "10.96.1.77"), unready, nil},
		"the only pod has the network of this host": {serviceNamed("s", "10.96.1.77"), onHost, nil},
		"an EndpointSlice with another protocol":    {serviceNamed("s", "10.96.1.77"), withPorts(discoveryv1.EndpointPort{Name: &web, Port: &number, Protocol: &udp}), nil},
		"an EndpointSlice without port number":      {serviceNamed("s", "10.96.1.77"), withPorts(discoveryv1.EndpointPort{Name: &web, Protocol: &tcp}), nil},
		"all endpoints are terminating":             {serviceNamed("s", "10.96.1.77"), ending, nil},
		"another proxy, by a label without a value": {labeled, ready("10.132.2.40"), nil},
		"an EndpointSlice of a headless Service":    {serviceNamed("s", "10.96.1.77"), headless, nil},
		"a load balancer of another program": {serviceNamed("s", "10.96.1.77"), ending, func(s *hns.State) {
			s.LoadBalancers = append(s.LoadBalancers, hns.LoadBalancer{ID: "x", VIPs: []netip.Addr{addr("10.96.3.3")}, Protocol: hns.TCP, External: 80, SourceVIP: addr("192.0.2.99")})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := cluster(3), healthy(3)
			f.readService(o.service, time.Now())
			f.readSlice(o.slice, time.Now())
			age(f)
			if o.state != nil {
				o.state(&s)
			}
			play(f, s).wantNothing(t)
		})
	}
}

// TestLossRequiresConfirmation: one watch is not enough evidence to interrupt all Services of a node.
func TestLossRequiresConfirmation(t *testing.T) {
	lose := func(v *networkView) { v.state.LoadBalancers = v.state.LoadBalancers[1:] }
	for name, test := range map[string]struct {
		answer   func(queries) *evidence
		restarts int
	}{
		"the API server confirms it":           {confirmed, 1},
		"the API server does not answer":       {func(queries) *evidence { return &evidence{err: errNoClient} }, 0},
		"the Service was deleted":              {func(q queries) *evidence { e := confirmed(q); clear(e.lost); return e }, 0},
		"another node reported the loss first": {func(q queries) *evidence { e := confirmed(q); e.first = "win-0"; return e }, 0},
		"this Node does not report it yet":     {func(queries) *evidence { return &evidence{err: errNotReported} }, 0},
		"only other queries are answered":      {func(queries) *evidence { return &evidence{owned: newFrontends("win-1")} }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, v := newNetworkMemory(), networkView{now: time.Now(), state: healthy(5), cluster: cluster(5), proxy: 100}
			m.proxy.process, m.proxy.since = v.proxy, v.now.Add(-time.Hour)
			_ = decideWithAnswers(m, overlayWanted(), &v, test.answer)
			lose(&v)
			restarts := 0
			for range 100 {
				v.now = v.now.Add(6 * time.Second)
				if decideWithAnswers(m, overlayWanted(), &v, test.answer).restart["proxy"] != "" {
					restarts++
				}
			}
			if restarts != test.restarts {
				t.Errorf("%d restarts, want %d", restarts, test.restarts)
			}
		})
	}
}

// TestRestartsAreLimited: Windows may lose load balancers repeatedly.
func TestRestartsAreLimited(t *testing.T) {
	m, v := newNetworkMemory(), networkView{now: time.Now(), state: healthy(5), cluster: cluster(5), proxy: 100}
	m.proxy.process, m.proxy.since = v.proxy, v.now.Add(-time.Hour)
	var at []time.Duration
	began := v.now
	for v.now.Sub(began) < 48*time.Hour {
		v.now, v.state = v.now.Add(30*time.Second), healthy(5)
		if v.now.Sub(began)%(5*time.Minute) < 2*time.Minute && v.now.Sub(began) > time.Minute {
			v.state.LoadBalancers = v.state.LoadBalancers[1:]
		}
		if decideWithAnswers(m, overlayWanted(), &v, confirmed).restart["proxy"] != "" {
			at = append(at, v.now.Sub(began))
			v.proxy++
		}
	}
	for i := range at {
		if i >= restartsPerHour && at[i]-at[i-restartsPerHour] < time.Hour || i >= restartsPerDay && at[i]-at[i-restartsPerDay] < 24*time.Hour {
			t.Errorf("restart %d is too soon: %v", i, at)
		}
	}
	if len(at) != 2*restartsPerDay {
		t.Errorf("%d restarts in two days, want %d: %v", len(at), 2*restartsPerDay, at)
	}
}

// TestRepairsCanBeDisabled: Report reports everything, Off checks nothing, and neither repairs anything.
func TestRepairsCanBeDisabled(t *testing.T) {
	for repair, wantReported := range map[string]bool{"Report": true, "Off": false} {
		t.Run(repair, func(t *testing.T) {
			want := overlayWanted()
			want.Repair = v1alpha1.RepairFull
			m, v := newNetworkMemory(), networkView{now: time.Now(), state: healthy(5), cluster: cluster(5), proxy: 100}
			m.proxy.process, m.proxy.since = v.proxy, v.now.Add(-time.Hour)
			_ = decideWithAnswers(m, want, &v, confirmed)
			m.pods.known[addr("10.132.1.5")] = "pod"
			want.Repair = v1alpha1.NetworkRepair(repair)
			v.state.LoadBalancers = v.state.LoadBalancers[2:]
			v.state.LoadBalancers = append(v.state.LoadBalancers, hns.LoadBalancer{ID: "orphan", VIPs: []netip.Addr{addr("10.96.9.9")}, Protocol: hns.TCP, External: 80})
			v.state.Endpoints = slices.DeleteFunc(v.state.Endpoints, func(e hns.Endpoint) bool { return e.ID == "pod" })
			v.pods = []podNetwork{{"sandbox", addr("10.132.1.5")}}
			reported, withheld := false, 0
			for i := range 100 {
				v.now = v.now.Add(6 * time.Second)
				if i == 50 {
					v.err = fmt.Errorf("reading: %w", hns.ErrUnavailable)
				}
				p := decideWithAnswers(m, want, &v, confirmed)
				if v.err == nil {
					reported = reported || len(p.problems) == 2
					if slices.ContainsFunc(p.notices, func(n networkProblem) bool {
						return n.reason == api.ReasonNetworkRepairWithheld && strings.HasPrefix(n.message, "1 load balancers and 0 endpoints")
					}) {
						withheld++
					}
				}
				v.err = nil
				if len(p.restart)+len(p.end)+len(p.remove.LoadBalancers)+len(p.remove.Endpoints) > 0 {
					t.Fatalf("pass %d: %+v", i, p)
				}
			}
			if reported != wantReported || withheld > 50 != wantReported {
				t.Errorf("losses reported: %v, want %v; withheld removals reported in %d passes", reported, wantReported, withheld)
			}
		})
	}
}

// TestWrongBackendsAreReported: connections to them fail, but a restart of kube-proxy would interrupt all others.
func TestWrongBackendsAreReported(t *testing.T) {
	s := healthy(3)
	s.Endpoints = append(s.Endpoints, remoteEndpoint("former", "10.132.2.99"))
	s.LoadBalancers[1].Endpoints = []string{"former"}
	h := play(cluster(3), s)
	if want := "1 of 3 load balancers have different back ends than their Services: ns/s1 (10.96.1.2:80/TCP) has 10.132.2.99 instead of 10.132.2.11"; h.last != want || h.restarts > 0 {
		t.Errorf("%d restarts, reported %q, want none and %q", h.restarts, h.last, want)
	}
	s.LoadBalancers[1].Endpoints, s.Endpoints = []string{"backend-1", "gone"}, s.Endpoints[:len(s.Endpoints)-1]
	play(cluster(3), s).wantNothing(t)
}

// TestManyPodsAreStoppedInBatches: a host whose pods all start at once serves none of them.
func TestManyPodsAreStoppedInBatches(t *testing.T) {
	m, v := newNetworkMemory(), networkView{now: time.Now(), state: healthy(1), cluster: cluster(1), proxy: 100}
	m.proxy.process, m.proxy.since = v.proxy, v.now.Add(-time.Hour)
	for i := range 25 {
		a := addr(fmt.Sprintf("10.132.1.%d", i+20))
		m.pods.known[a] = fmt.Sprint("endpoint-", i)
		v.pods = append(v.pods, podNetwork{fmt.Sprint("sandbox-", i), a})
	}
	_ = m.evaluate(overlayWanted(), v)
	v.now = v.now.Add(steadyAfter)
	var ended []int
	for range 63 {
		p := decideWithAnswers(m, overlayWanted(), &v, confirmed)
		if ended = append(ended, len(p.end)); waitAfter(&p, 0) != networkSoon {
			t.Errorf("the next pass is after %s", waitAfter(&p, 0))
		}
		v.now = v.now.Add(time.Second)
	}
	if ended[0] != maxPodStops || slices.Max(ended[1:60]) > 0 || ended[60] != maxPodStops {
		t.Errorf("pods stopped in each pass, one a second: %v; want %d in a minute", ended, maxPodStops)
	}
	// If most pods have their endpoints, those without are few enough to be ended faster.
	for i := range 30 {
		v.state.Endpoints = append(v.state.Endpoints, hns.Endpoint{ID: fmt.Sprint("well-", i), Network: "n1", Address: addr(fmt.Sprintf("10.132.1.%d", i+100))})
	}
	for range 3 {
		if p := decideWithAnswers(m, overlayWanted(), &v, confirmed); len(p.end) != maxPodStops {
			t.Errorf("%d pods are stopped in a pass, want %d", len(p.end), maxPodStops)
		}
	}
	// A service that has just come back may not have read its endpoints yet.
	v.err = fmt.Errorf("reading: %w", hns.ErrUnavailable)
	_ = m.evaluate(overlayWanted(), v)
	v.err = nil
	for range 100 {
		v.now = v.now.Add(500 * time.Millisecond)
		if p := decideWithAnswers(m, overlayWanted(), &v, confirmed); len(p.end) != 0 {
			t.Fatalf("%d pods are stopped soon after the service came back", len(p.end))
		}
	}
}
