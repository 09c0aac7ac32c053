package networkpolicies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// place is a cluster with a Windows node win-1 and a Linux node linux-1.
type place struct {
	t *testing.T
	client.Client
	controller *Controller
	events     *controllertest.Recorder
	// lists counts the requests for pods; refused is the API server's error for them.
	lists   int
	refused error
}

func open(t *testing.T, provider v1alpha1.NetworkProvider, objects ...client.Object) *place {
	config := &v1alpha1.WindowsConfig{ObjectMeta: metav1.ObjectMeta{Name: api.WindowsConfigName}}
	config.Spec.Network.Provider, config.Spec.Network.Policies = provider, v1alpha1.PoliciesOff
	for name, system := range map[string]string{"win-1": "windows", "linux-1": "linux"} {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: system}}})
	}
	p := &place{t: t, events: &controllertest.Recorder{}}
	c := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithObjects(append(objects, config)...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
	p.Client = interceptor.NewClient(c, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, ok := list.(*corev1.PodList); ok {
			if p.lists++; (&client.ListOptions{}).ApplyOptions(options).Limit == 0 {
				t.Error("all pods of a node are listed at once")
			}
			if p.refused != nil {
				return p.refused
			}
		}
		return c.List(ctx, list, options...)
	}})
	p.controller = New(Options{Client: p.Client, Live: p.Client, Events: kube.NewEvents(p.events)})
	return p
}

func newPolicy(namespace, name string, selects map[string]string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), Generation: 1},
		Spec:       networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: selects}},
	}
}

func newPod(namespace, name, node string, got map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: got}, Spec: corev1.PodSpec{NodeName: node}}
}

// check checks after a pause and returns the names of the policies with new events.
func (p *place) check(pause time.Duration) (reported []string) {
	p.t.Helper()
	time.Sleep(pause)
	before := len(p.events.Events)
	if err := p.controller.check(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	for _, e := range p.events.Events[before:] {
		reported = append(reported, strings.Fields(e)[3])
	}
	slices.Sort(reported)
	return reported
}

func (p *place) expect(pause time.Duration, want ...string) {
	p.t.Helper()
	if got := p.check(pause); !slices.Equal(got, want) {
		p.t.Errorf("reported %q, want %q", got, want)
	}
}

func TestUnenforcedPoliciesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := map[string]string{"app": "web"}
		host := newPod("host", "exporter", "win-1", web)
		host.Spec.HostNetwork = true
		done := newPod("done", "job", "win-1", web)
		done.Status.Phase = corev1.PodSucceeded
		p := open(t, v1alpha1.NetworkOVNHybridOverlay,
			newPod("shop", "web-1", "win-1", web), newPod("linux", "web-1", "linux-1", web), host, done,
			newPolicy("shop", "all", nil), newPolicy("shop", "web", web), newPolicy("shop", "database", map[string]string{"app": "database"}),
			newPolicy("linux", "all-linux", nil), newPolicy("host", "all-host", nil), newPolicy("done", "all-done", nil), newPolicy("empty", "all-empty", nil))
		p.expect(0, "all", "web")
		if e := p.events.Events[0]; !strings.HasPrefix(e, "Warning NetworkPolicyNotEnforced *v1.NetworkPolicy ") ||
			!strings.Contains(e, "pod web-1 on Windows node win-1, where the hybrid overlay of OVN-Kubernetes does not enforce NetworkPolicies") {
			t.Errorf("the event is %q", e)
		}
		p.expect(checkInterval)
		if p.lists != 1 {
			t.Errorf("pods were listed %d times although nothing is new", p.lists)
		}
		if err := p.Create(t.Context(), newPod("empty", "late", "win-1", nil)); err != nil {
			t.Fatal(err)
		}
		p.expect(recheckInterval, "all-empty")

		changed := &networkingv1.NetworkPolicy{}
		if err := p.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, changed); err != nil {
			t.Fatal(err)
		}
		changed.Generation++
		if err := p.Update(t.Context(), changed); err != nil {
			t.Fatal(err)
		}
		p.expect(checkInterval, "web")
		p.expect(checkInterval)
	})
}

// TestEnforcedPoliciesAreNotReported: nor those on a network that may enforce them itself, or that is not known yet.
func TestEnforcedPoliciesAreNotReported(t *testing.T) {
	for _, c := range []struct {
		provider v1alpha1.NetworkProvider
		policies v1alpha1.NetworkPolicies
		want     int
	}{
		{v1alpha1.NetworkFlannel, "", 0},
		{v1alpha1.NetworkFlannel, v1alpha1.PoliciesOff, 1},
		{v1alpha1.NetworkFlannel, v1alpha1.PoliciesReport, 1},
		{v1alpha1.NetworkFlannel, v1alpha1.PoliciesEnforce, 0},
		{v1alpha1.NetworkCustom, "", 0},
		{"", "", 0},
	} {
		p := open(t, c.provider, newPod("shop", "web-1", "win-1", nil), newPolicy("shop", "all", nil))
		config := &v1alpha1.WindowsConfig{}
		if err := p.Get(t.Context(), types.NamespacedName{Name: api.WindowsConfigName}, config); err != nil {
			t.Fatal(err)
		}
		config.Spec.Network.Policies = c.policies
		if err := p.Update(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		if got := p.check(0); len(got) != c.want || p.lists != c.want {
			t.Errorf("with provider %q and policies %q: reported %q, pods were listed %d times", c.provider, c.policies, got, p.lists)
		}
	}
}

func TestPolicyReportsAreBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := []client.Object{newPod("shop", "web-1", "win-1", nil)}
		for i := range 2*eventsAtOnce + 10 {
			objects = append(objects, newPolicy("shop", fmt.Sprint("p-", i), nil))
		}
		p := open(t, v1alpha1.NetworkFlannel, objects...)
		for i, want := range []int{eventsAtOnce, eventsAtOnce, 10, 0} {
			if got := p.check(checkInterval); len(got) != want {
				t.Errorf("check %d reported %d policies, want %d", i, len(got), want)
			}
		}
	})
}

// TestFailedPolicyCheckIsRetried: they are checked in the next round, not an hour later.
func TestFailedPolicyCheckIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, v1alpha1.NetworkFlannel, newPod("shop", "web-1", "win-1", nil), newPolicy("shop", "all", nil))
		p.refused = errors.New("refused")
		if err := p.controller.check(t.Context()); err == nil {
			t.Error("a failure is not an error")
		}
		p.refused = nil
		p.expect(checkInterval, "all")
	})
}

func TestCachedPolicyKeepsPodSelector(t *testing.T) {
	policy := newPolicy("shop", "all", map[string]string{"app": "web"})
	policy.Spec.Ingress = make([]networkingv1.NetworkPolicyIngressRule, 1000)
	policy.Annotations = map[string]string{"x": strings.Repeat("x", 1<<17)}
	kept, err := Policies().Transform(policy)
	if err != nil {
		t.Fatal(err)
	}
	got := kept.(*networkingv1.NetworkPolicy)
	if got.Spec.PodSelector.MatchLabels["app"] != "web" || got.Generation != 1 || len(got.Spec.Ingress) > 0 || len(got.Annotations) > 0 {
		t.Errorf("it keeps %+v", got)
	}
}
