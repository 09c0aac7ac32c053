package policysets

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// gauge returns the value of a metric without labels; -1 if there is none.
func (p *place) gauge(name string) float64 {
	families, err := p.controller.Registry.(*prometheus.Registry).Gather()
	if err != nil {
		p.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name && len(f.GetMetric()) == 1 {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

// withRange returns a policy that admits a range.
func withRange(namespace, name, cidr string) *networkingv1.NetworkPolicy {
	p := newPolicy(namespace, name, "")
	p.Spec.Ingress[0].From[0] = networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr}}
	return p
}

// TestProblemsAreReportedOnce: once for each generation, and only in namespaces with pods on Windows nodes.
func TestProblemsAreReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, v1alpha1.PoliciesReport, withRange("shop", "invalid", "10.0.0.0/99"), withRange("shop", "v6", "fd00::/8"), withRange("linux", "elsewhere", "fd00::/8"))
		p.expect("patch linux", "create linux", "patch shop", "create shop")
		want := []string{"Warning NetworkPolicyInvalid *v1.NetworkPolicy invalid spec.ingress[0].from[0]", "Warning NetworkPolicyIPv6Ignored *v1.NetworkPolicy v6 spec.ingress[0].from[0]"}
		if len(p.events.Events) != len(want) {
			t.Fatalf("got events %q", p.events.Events)
		}
		for i, text := range want {
			if !strings.HasPrefix(p.events.Events[i], text) {
				t.Errorf("event %d is %q, want %q", i, p.events.Events[i], text)
			}
		}
		if got := p.gauge(api.MetricPolicyProblemNamespaces); got != 1 {
			t.Errorf("%v namespaces have problems, want only shop", got)
		}
		p.must(p.Create(t.Context(), newPod("shop", "web-2", "win-1", "10.244.1.3")))
		p.expect("patch shop")
		if len(p.events.Events) != len(want) {
			t.Errorf("they are reported again: %q", p.events.Events)
		}
		changed := &networkingv1.NetworkPolicy{}
		p.must(p.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "v6"}, changed))
		changed.Generation++
		p.must(p.Update(t.Context(), changed))
		p.expect()
		if len(p.events.Events) != len(want)+1 {
			t.Errorf("got events %q after a change", p.events.Events)
		}
	})
}

func TestProblemReportsAreRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objects []client.Object
		for i := range eventsPerRound + 10 {
			objects = append(objects, withRange("shop", fmt.Sprintf("p-%03d", i), "fd00::/8"))
		}
		p := open(t, v1alpha1.PoliciesEnforce, objects...)
		result := p.reconcile()
		if len(p.events.Events) != eventsPerRound || result.RequeueAfter != eventsRound {
			t.Errorf("%d events, then %+v", len(p.events.Events), result)
		}
		time.Sleep(eventsRound)
		if result = p.reconcile(); len(p.events.Events) != eventsPerRound+10 || result.RequeueAfter != 0 {
			t.Errorf("%d events, then %+v", len(p.events.Events), result)
		}
	})
}

func TestLargePoliciesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := newPolicy("shop", "large", "")
		large.Spec.Ingress = nil
		for i := range 90_000 {
			cidr := fmt.Sprintf("11.%d.%d.%d/32", i>>15, i>>7&255, i&127*2)
			large.Spec.Ingress = append(large.Spec.Ingress, withRange("", "", cidr).Spec.Ingress...)
		}
		p := open(t, v1alpha1.PoliciesEnforce, large)
		p.expect("patch shop", "create shop")
		if set := p.sets()["shop"]; set.Omitted == 0 || !set.Unlisted.Ingress {
			t.Errorf("the set is %+v", set)
		}
		if len(p.events.Events) != 1 || !strings.HasPrefix(p.events.Events[0], "Warning NetworkPolicyTooLarge *v1.NetworkPolicy large the policies of namespace shop need") {
			t.Errorf("got events %.300q", p.events.Events)
		}
	})
}
