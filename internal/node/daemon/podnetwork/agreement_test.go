package podnetwork

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// decideWithObjects evaluates a view with an object read that has a different state than the lists, as if the first generation of the API
// were wrong.
func decideWithObjects(m *networkMemory, v *networkView, second hns.State) networkPlan {
	v.evidence, v.objects = nil, nil
	return m.decide(overlayWanted(), v, queryFuncs{
		query:       confirmed,
		readObjects: func([]string) *objectView { return &objectView{second: second, after: v.state} },
		now:         func() time.Time { return v.now },
	})
}

// TestNothingIsRepairedWhileAPIGenerationsDisagree: what the lists lack exists when each object is read. Nothing is ended, removed or
// restarted, and the Node reports why. When the lists are correct again, the Node reports nothing.
func TestNothingIsRepairedWhileAPIGenerationsDisagree(t *testing.T) {
	without := func(ids ...string) func(hns.State) hns.State {
		return func(s hns.State) hns.State {
			s.Endpoints = slices.DeleteFunc(slices.Clone(s.Endpoints), func(e hns.Endpoint) bool { return slices.Contains(ids, e.ID) })
			s.LoadBalancers = slices.DeleteFunc(slices.Clone(s.LoadBalancers), func(b hns.LoadBalancer) bool { return slices.Contains(ids, b.ID) })
			return s
		}
	}
	for name, lists := range map[string]func(hns.State) hns.State{
		"an endpoint of a pod":               without("pod"),
		"one load balancer":                  without("lb-2"),
		"all load balancers":                 without("lb-0", "lb-1", "lb-2", "lb-3", "lb-4"),
		"everything but the host's endpoint": without("pod", "lb-0", "lb-1", "lb-2", "lb-3", "lb-4"),
		"addresses of endpoints": func(s hns.State) hns.State {
			s.Endpoints = slices.Clone(s.Endpoints)
			for i := range s.Endpoints {
				s.Endpoints[i].Address = netip.Addr{}
			}
			return s
		},
		"addresses of load balancers": func(s hns.State) hns.State {
			s.LoadBalancers = slices.Clone(s.LoadBalancers)
			for i := range s.LoadBalancers {
				s.LoadBalancers[i].VIPs = nil
			}
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, v := newNetworkMemory(), networkView{now: time.Now(), state: healthy(5), cluster: cluster(5), proxy: 100}
			m.proxy.process, m.proxy.since = v.proxy, v.now.Add(-time.Hour)
			_ = decideWithObjects(m, &v, healthy(5))
			v.state = lists(healthy(5))
			if got := ownAddresses(v.state); got[addr("10.132.1.5")] == "" {
				v.pods = []podNetwork{{"sandbox", addr("10.132.1.5")}}
			}
			reported := ""
			for range 30 {
				v.now = v.now.Add(20 * time.Second)
				p := decideWithObjects(m, &v, healthy(5))
				if len(p.restart)+len(p.end)+len(p.remove.Endpoints)+len(p.remove.LoadBalancers) > 0 || p.create != nil || p.values == nil || p.values.SourceVIP != "10.132.1.254" {
					t.Fatalf("planned: restart %v, end %v, remove %+v, create %+v; the network is %+v", p.restart, p.end, p.remove, p.create, p.values)
				}
				reason, message, isFault := p.message()
				if reported = reason; isFault || reason != "" && (reason != api.ReasonWindowsNetworkUnverified || !strings.Contains(message, "so nothing is repaired")) {
					t.Fatalf("reported %s: %s", reason, message)
				}
			}
			if reported != api.ReasonWindowsNetworkUnverified {
				t.Errorf("finally reported %q", reported)
			}
			v.state, v.pods = healthy(5), nil
			for range 3 {
				v.now = v.now.Add(20 * time.Second)
				if reason, message, _ := decideWithObjects(m, &v, healthy(5)).message(); reason != "" {
					t.Errorf("reported after the lists are correct: %s: %s", reason, message)
				}
			}
		})
	}
}

// TestOnlyObjectsInBothGenerationsAreRemoved: an object that only the lists have may have been replaced.
func TestOnlyObjectsInBothGenerationsAreRemoved(t *testing.T) {
	m, v := newNetworkMemory(), networkView{now: time.Now(), state: healthy(2), cluster: cluster(2), proxy: 100}
	m.proxy.process, m.proxy.since = v.proxy, v.now.Add(-time.Hour)
	for i := range 3 {
		v.state.LoadBalancers = append(v.state.LoadBalancers,
			hns.LoadBalancer{ID: fmt.Sprint("orphan-", i), VIPs: []netip.Addr{addr(fmt.Sprintf("10.96.9.%d", i+1))}, Protocol: hns.TCP, External: 80})
		v.state.Endpoints = append(v.state.Endpoints, remoteEndpoint(fmt.Sprint("stale-", i), fmt.Sprintf("10.132.7.%d", i+1)))
	}
	second := hns.State{Networks: v.state.Networks, Endpoints: slices.Clone(v.state.Endpoints), LoadBalancers: slices.Clone(v.state.LoadBalancers)}
	second.LoadBalancers = second.LoadBalancers[:len(second.LoadBalancers)-1]
	second.Endpoints = second.Endpoints[:len(second.Endpoints)-1]
	second.Endpoints[len(second.Endpoints)-1].Remote = false
	second.Endpoints[len(second.Endpoints)-1].Network = "n9"
	removed := ""
	for range 30 {
		v.now = v.now.Add(20 * time.Second)
		removed += removedBy(decideWithObjects(m, &v, second))
		if removed != "" {
			break
		}
	}
	if want := "orphan-0 orphan-1 stale-0"; removed != want {
		t.Errorf("removed %q, want %q", removed, want)
	}
}

// TestNoLossIsReportedSoonAfterHNSStart: its lists may be incomplete. An object that comes back proves that it is still reading.
func TestNoLossIsReportedSoonAfterHNSStart(t *testing.T) {
	for name, start := range map[string]func(*networkView){
		"HNS has another process": func(v *networkView) { v.service++ },
		"a message":               func(v *networkView) { v.service, v.restarted = 0, true },
		"HNS was unavailable": func(v *networkView) {
			v.err = fmt.Errorf("reading: %w", hns.ErrUnavailable)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, v := newNetworkMemory(), networkView{now: time.Now(), state: healthy(0), cluster: cluster(0), proxy: 100, service: 7}
			if name == "a message" {
				v.service = 0
			}
			other := hns.Endpoint{ID: "late", Network: "n1", Address: addr("10.132.1.6")}
			v.state.Endpoints = append(v.state.Endpoints, other)
			_ = decideWithObjects(m, &v, v.state)
			v.now = v.now.Add(time.Hour)
			start(&v)
			_ = decideWithObjects(m, &v, v.state)
			v.err, v.restarted = nil, false
			v.state.Endpoints = v.state.Endpoints[:1]
			v.pods = []podNetwork{{"one", addr("10.132.1.5")}, {"two", addr("10.132.1.6")}}
			began, ended := v.now, time.Duration(0)
			for ; v.now.Sub(began) < 5*time.Minute && ended == 0; v.now = v.now.Add(2 * time.Second) {
				if v.now.Sub(began) == 40*time.Second { // one of the endpoints is now listed
					v.state.Endpoints, v.pods = append(v.state.Endpoints, other), v.pods[:1]
				}
				if p := decideWithObjects(m, &v, v.state); len(p.end) > 0 {
					ended = v.now.Sub(began)
				}
			}
			if ended < 40*time.Second+steadyAfter || ended > 2*time.Minute {
				t.Errorf("a pod is ended %v after the service started, want a minute after the last endpoint came back", ended)
			}
		})
	}
}

// TestHostEndpointIsRecreatedOnlyAsRepair: not with repairs disabled, and not as long as the service may still find it.
func TestHostEndpointIsRecreatedOnlyAsRepair(t *testing.T) {
	other := hns.Endpoint{ID: "other", Network: "n1", Address: addr("10.132.1.254")}
	for repair, isCreated := range map[v1alpha1.NetworkRepair]bool{v1alpha1.RepairFull: true, v1alpha1.RepairReport: false, v1alpha1.RepairOff: false} {
		t.Run(string(repair), func(t *testing.T) {
			want := overlayWanted()
			want.Repair = repair
			m, v := newNetworkMemory(), networkView{now: time.Now(), state: healthy(0), cluster: cluster(0), proxy: 100, service: 7}
			evaluate := func() networkPlan {
				v.evidence, v.objects = nil, nil
				return m.decide(want, &v, queryFuncs{
					query: confirmed, readObjects: func([]string) *objectView { return &objectView{second: v.state, after: v.state} }, now: func() time.Time { return v.now },
				})
			}
			_ = evaluate()
			v.now, v.service = v.now.Add(time.Hour), 8
			v.state.Endpoints = append(slices.DeleteFunc(v.state.Endpoints, func(e hns.Endpoint) bool { return e.Name == want.Endpoint }), other)
			for began := v.now; v.now.Sub(began) < time.Minute; v.now = v.now.Add(5 * time.Second) {
				p := evaluate()
				if wantCreated := isCreated && v.now.Sub(began) >= hns.IncompleteFor; (p.create != nil) != wantCreated || (len(p.remove.Endpoints) > 0) != wantCreated {
					t.Errorf("after %v: create %+v, remove %+v; want any: %v", v.now.Sub(began), p.create, p.remove, wantCreated)
				}
				if reason, message, _ := p.message(); reason != api.ReasonHNSEndpointLost ||
					!isCreated && v.now.Sub(began) >= hns.IncompleteFor && !strings.Contains(message, "repairs are disabled (spec.network.repair)") {
					t.Errorf("after %v: reported %s: %s", v.now.Sub(began), reason, message)
				}
			}
			want.Repair = v1alpha1.RepairFull
			if p := evaluate(); p.create == nil {
				t.Errorf("with repairs enabled, the endpoint is not created: %v", p.problems)
			}
		})
	}
}
