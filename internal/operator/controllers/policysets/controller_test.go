package policysets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/policyset"
)

// place is a cluster with Flannel, a Windows node win-1 and a Linux node linux-1, and pod shop/web-1 on the first.
type place struct {
	t *testing.T
	client.Client
	controller *Controller
	events     *controllertest.Recorder
	// writes are the changes of sets, refused the API server's error for them. started and ended count watches.
	writes         []string
	refused        error
	started, ended int
}

func open(t *testing.T, policies v1alpha1.NetworkPolicies, objects ...client.Object) *place {
	t.Helper()
	config := &v1alpha1.WindowsConfig{ObjectMeta: metav1.ObjectMeta{Name: api.WindowsConfigName}}
	config.Spec.Network = v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkFlannel, Policies: policies}
	for name, system := range map[string]string{"win-1": "windows", "linux-1": "linux"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: system}}}
		n.Spec.PodCIDR = map[string]string{"win-1": "10.244.1.0/24", "linux-1": "10.244.0.0/24"}[name]
		objects = append(objects, n)
	}
	for _, name := range []string{"shop", "linux"} {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	objects = append(objects, config, newPod("shop", "web-1", "win-1", "10.244.1.2"))
	p := &place{t: t, events: &controllertest.Recorder{}}
	record := func(verb string, o client.Object) error {
		if _, ok := o.(*v1alpha1.WindowsPolicySet); ok {
			p.writes = append(p.writes, strings.TrimSpace(verb+" "+o.GetName()))
			return p.refused
		}
		return nil
	}
	c := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithObjects(objects...).Build()
	p.Client = interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			return first(record("create", o), func() error { return c.Create(ctx, o, options...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			return first(record("patch", o), func() error { return c.Patch(ctx, o, patch, options...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			return first(record("delete", o), func() error { return c.Delete(ctx, o, options...) })
		},
		DeleteAllOf: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteAllOfOption) error {
			return first(record("delete all", o), func() error { return c.DeleteAllOf(ctx, o, options...) })
		},
	})
	p.restart()
	return p
}

func first(err error, otherwise func() error) error {
	if err != nil {
		return err
	}
	return otherwise()
}

// restart replaces the controller, as a restart of the operator does.
func (p *place) restart() {
	p.controller = New(Options{Client: p.Client, Live: p.Client, Events: kube.NewEvents(p.events), Namespace: "ns", Registry: prometheus.NewRegistry()})
	p.controller.start = func() (client.Reader, func(), error) {
		p.started++
		return p.Client, func() { p.ended++ }, nil
	}
}

func newPod(namespace, name, node, address string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name + "-0123456789abcdef"), Labels: map[string]string{"app": name}}}
	pod.Spec.NodeName, pod.Status.PodIP, pod.Status.Phase = node, address, corev1.PodRunning
	return pod
}

// newPolicy returns a policy that admits pods with label app.
func newPolicy(namespace, name, app string) *networkingv1.NetworkPolicy {
	from := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), Generation: 1},
		Spec:       networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{from}}}},
	}
}

// must makes changes of the API visible to the controller as its watches would.
func (p *place) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	p.controller.isDue.Store(true)
}

func (p *place) reconcile() reconcile.Result {
	p.t.Helper()
	result, err := p.controller.Reconcile(p.t.Context(), reconcile.Request{})
	if err != nil {
		p.t.Fatal(err)
	}
	return result
}

// expect reconciles after the pause and compares the writes.
func (p *place) expect(want ...string) {
	p.t.Helper()
	time.Sleep(time.Minute)
	p.writes = nil
	p.reconcile()
	if !slices.Equal(p.writes, want) {
		p.t.Errorf("got writes %q, want %q", p.writes, want)
	}
}

// sets returns the published sets by name.
func (p *place) sets() map[string]policyset.Set {
	p.t.Helper()
	var list v1alpha1.WindowsPolicySetList
	if err := p.List(p.t.Context(), &list); err != nil {
		p.t.Fatal(err)
	}
	read := map[string]policyset.Set{}
	for _, item := range list.Items {
		set, err := policyset.Decode(item.Name, []byte(item.Spec.Set))
		if err != nil || item.Namespace != "ns" {
			p.t.Errorf("set %s/%s: %v", item.Namespace, item.Name, err)
		}
		read[item.Name] = set
	}
	return read
}

// peersOf returns the addresses that the first rule of a set allows.
func (p *place) peersOf(namespace string) string {
	p.t.Helper()
	set := p.sets()[namespace]
	if len(set.Addresses) == 0 {
		return ""
	}
	return fmt.Sprint(set.Addresses[0])
}

func (p *place) setPolicies(mode v1alpha1.NetworkPolicies) {
	p.t.Helper()
	config := &v1alpha1.WindowsConfig{}
	p.must(p.Get(p.t.Context(), types.NamespacedName{Name: api.WindowsConfigName}, config))
	config.Spec.Network.Policies = mode
	p.must(p.Update(p.t.Context(), config))
}

func TestSetsFollowPoliciesAndPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, v1alpha1.PoliciesEnforce, newPolicy("shop", "web", "client"), newPolicy("linux", "all", "client"))
		p.expect("patch linux", "create linux", "patch shop", "create shop")
		sets := p.sets()
		if got := slices.Sorted(maps.Keys(sets)); !slices.Equal(got, []string{"linux", "shop"}) {
			t.Fatalf("got sets of %q", got)
		}
		if s := sets["shop"]; len(s.Pods) != 1 || s.Pods[0].Name != "web-1" || len(s.Policies) != 1 || !s.Unlisted.Ingress {
			t.Errorf("the set of shop is %+v", s)
		}
		p.expect() // nothing has changed

		p.must(p.Create(t.Context(), newPod("shop", "client", "linux-1", "10.244.0.7")))
		p.expect("patch shop")
		if got := p.peersOf("shop"); got != "[10.244.0.7/32]" {
			t.Errorf("the pod that came is %s in the set", got)
		}
		p.must(p.Delete(t.Context(), newPolicy("linux", "all", "client")))
		p.expect("delete linux")
		p.must(p.Create(t.Context(), newPolicy("shop", "other", "client")))
		p.expect("patch shop")
		if got := p.sets()["shop"]; len(got.Policies) != 2 || len(got.Addresses) != 1 {
			t.Errorf("the set is %+v", got)
		}
	})
}

// TestPodChangesOnlySetsThatConcernIt: not those of all namespaces that admit all pods, or may send DNS requests to them.
func TestPodChangesOnlySetsThatConcernIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		everyPod := newPolicy("bank", "all", "")
		everyPod.Spec.Ingress[0].From[0] = networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}}
		p := open(t, v1alpha1.PoliciesEnforce, newPolicy("shop", "web", "client"), everyPod, newPod("bank", "web-1", "win-1", "10.244.1.3"))
		p.expect("patch bank", "create bank", "patch shop", "create shop")
		if got, want := p.peersOf("bank"), "[10.244.0.4/30 "; !strings.HasPrefix(got, want) {
			t.Errorf("all pods are %s, want a list that begins with %s", got, want)
		}
		p.must(p.Create(t.Context(), newPod("shop", "client", "linux-1", "10.244.0.7")))
		p.expect("patch shop")
		p.must(p.Create(t.Context(), newPod("other", "client", "linux-1", "10.244.0.8")))
		p.expect()
	})
}

// TestSetsAreWrittenAgainAfterRestart: the operator does not know what happened to them; the API server ignores what does not change.
func TestSetsAreWrittenAgainAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, v1alpha1.PoliciesReport, newPolicy("shop", "web", "client"))
		p.expect("patch shop", "create shop")
		p.restart()
		p.expect("patch shop")
		p.expect()
	})
}

func TestSetsChangedByOthersAreRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, v1alpha1.PoliciesEnforce, newPolicy("shop", "web", "client"))
		p.expect("patch shop", "create shop")
		set := &v1alpha1.WindowsPolicySet{}
		if err := p.Get(t.Context(), controllertest.Key("shop"), set); err != nil {
			t.Fatal(err)
		}
		want := set.Spec.Set
		set.Spec.Set, set.Generation = "{}", set.Generation+1
		if err := p.Update(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		p.expect("patch shop")
		if err := p.Get(t.Context(), controllertest.Key("shop"), set); err != nil || set.Spec.Set != want {
			t.Errorf("the set is %q, error %v", set.Spec.Set, err)
		}
		if err := p.Delete(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		p.expect("patch shop", "create shop")
		extra := set.DeepCopy()
		extra.Name, extra.ResourceVersion, extra.UID = "other", "", "uid"
		if err := p.Create(t.Context(), extra); err != nil {
			t.Fatal(err)
		}
		p.expect("delete other")
		p.expect()
	})
}

// TestSetsAreRemovedWhenPoliciesAreOff: also those of an operator that ran before.
func TestSetsAreRemovedWhenPoliciesAreOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, v1alpha1.PoliciesEnforce, newPolicy("shop", "web", "client"))
		p.expect("patch shop", "create shop")
		p.setPolicies(v1alpha1.PoliciesOff)
		p.expect("delete all")
		p.expect()
		if len(p.sets()) > 0 || p.started != 1 || p.ended != 1 {
			t.Errorf("there are sets %v; %d watches were started, %d ended", p.sets(), p.started, p.ended)
		}
		p.setPolicies(v1alpha1.PoliciesEnforce)
		p.expect("patch shop", "create shop")
		p.setPolicies(v1alpha1.PoliciesOff)
		p.restart()
		p.expect("delete all")
		if len(p.sets()) > 0 || p.started != 2 {
			t.Errorf("there are sets %v; %d watches were started", p.sets(), p.started)
		}
	})
}

// TestMissingKindIsNoErrorWhileOff: what is not used need not be installed.
func TestMissingKindIsNoErrorWhileOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			refused error
			want    bool
		}{
			{apierrors.NewForbidden(schema.GroupResource{Resource: "windowspolicysets"}, "", errors.New("no role")), true},
			{apierrors.NewNotFound(schema.GroupResource{Resource: "windowspolicysets"}, ""), true},
			{errors.New("unavailable"), false},
		} {
			p := open(t, v1alpha1.PoliciesOff)
			p.refused = c.refused
			if _, err := p.controller.Reconcile(t.Context(), reconcile.Request{}); (err == nil) != c.want {
				t.Errorf("with %v, the error is %v", c.refused, err)
			}
		}
	})
}

func TestChangesAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, v1alpha1.PoliciesEnforce, newPolicy("shop", "web", "client"))
		p.expect("patch shop", "create shop")
		p.writes = nil
		for i := range 5 {
			p.must(p.Create(t.Context(), newPod("shop", fmt.Sprint("web-", 10+i), "win-1", fmt.Sprint("10.244.1.", 10+i))))
			if result := p.reconcile(); result.RequeueAfter <= 0 || result.RequeueAfter > minPause {
				t.Errorf("after change %d: %+v", i, result)
			}
		}
		time.Sleep(minPause)
		p.reconcile()
		if got := p.sets()["shop"]; len(p.writes) != 1 || len(got.Pods) != 6 {
			t.Errorf("got writes %q, set %+v", p.writes, got)
		}
	})
}

// TestLargeSetsAreWrittenSlowly: one pod may be a peer in many namespaces, and pods come and go all the time.
func TestLargeSetsAreWrittenSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objects []client.Object
		for i := range 12 {
			large := newPolicy(fmt.Sprint("large-", i), "all", "")
			large.Spec.Ingress = nil
			for j := range 10_000 {
				cidr := fmt.Sprintf("11.%d.%d.0/25", j>>8, j&255)
				large.Spec.Ingress = append(large.Spec.Ingress, withRange("", "", cidr).Spec.Ingress...)
			}
			objects = append(objects, large, newPod(large.Namespace, "web", "win-1", fmt.Sprint("10.244.2.", i)))
		}
		p := open(t, v1alpha1.PoliciesEnforce, objects...)
		p.reconcile()
		size := 0
		for _, s := range p.sets() {
			data, err := policyset.Encode(s)
			if err != nil {
				t.Fatal(err)
			}
			size += len(data)
		}
		want := time.Duration(size) * time.Second / maxRate
		if got := p.reconcile().RequeueAfter; got < want-time.Second || got > want || want < 2*time.Second {
			t.Errorf("after %d bytes, the next publication is in %v, want about %v", size, got, want)
		}
	})
}

func TestFailedWritesAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, v1alpha1.PoliciesEnforce, newPolicy("shop", "web", "client"), newPolicy("linux", "all", "client"))
		p.refused = errors.New("unavailable")
		if _, err := p.controller.Reconcile(t.Context(), reconcile.Request{}); err == nil || len(p.writes) != 2 {
			t.Errorf("error %v, writes %q: one failure must not hold up other sets", err, p.writes)
		}
		p.refused = nil
		p.expect("patch linux", "create linux", "patch shop", "create shop")
	})
}
