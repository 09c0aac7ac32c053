package source

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/machines"
)

// sources is a cluster with all sources of instances, in namespace ns.
type sources struct {
	t *testing.T
	client.WithWatch
	*controllertest.Recorder
	machineAPI, clusterAPI *machineSource
	configMap              *configMaps
	writes                 int
	names                  map[string][]string // DNS records
	unreadable             error               // error of live reads of Machines, if set
}

func newSources(t *testing.T, objects ...client.Object) *sources {
	t.Helper()
	w := &sources{t: t, Recorder: &controllertest.Recorder{}, names: map[string][]string{"host.example": {"10.0.0.1"}}}
	w.WithWatch = fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			w.writes++
			o.SetUID(types.UID(fmt.Sprintf("uid-%d", w.writes)))
			return c.Create(ctx, o, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			w.writes++
			return c.Patch(ctx, o, p, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			w.writes++
			return c.Delete(ctx, o, options...)
		},
	}).Build()
	resolver := NewResolver(func(_ context.Context, _, name string) ([]netip.Addr, error) {
		var ips []netip.Addr
		if !strings.HasSuffix(name, ".") {
			t.Errorf("DNS is queried for %q, which a search list would complete", name)
		}
		for _, text := range w.names[strings.ToLower(strings.TrimSuffix(name, "."))] {
			ips = append(ips, netip.MustParseAddr(text))
		}
		if ips == nil {
			return nil, errors.New("no such host")
		}
		return ips, nil
	})
	h := NewOwnership(resolver)
	c := Options{
		Client: w.WithWatch, Live: liveReader{w}, Events: kube.NewEvents(w.Recorder), Namespace: "ns", Hosts: h,
		Reserved: NewReservedAddresses(w.WithWatch, liveReader{w}, cluster.Connection{}, resolver),
	}
	w.machineAPI, w.clusterAPI = NewMachines(c, api.SourceMachine), NewMachines(c, api.SourceClusterAPI)
	h.Announcers = []Announcer{w.machineAPI, w.clusterAPI}
	w.configMap = NewConfigMap(c)
	for s, kind := range map[*machineSource]schema.GroupVersionKind{
		w.machineAPI: {Group: machines.MachineAPIGroup, Version: "v1beta1", Kind: machines.Kind},
		w.clusterAPI: {Group: machines.ClusterAPIGroup, Version: "v1beta2", Kind: machines.Kind},
	} {
		s.tried.Store(true)
		namespace := MachineAPINamespace
		if s == w.clusterAPI {
			namespace = ClusterAPINamespace
		}
		s.place.Store(&machinePlace{kind, namespace, labelledReader{w.WithWatch}, machines.Cluster{Namespace: "ns", Platform: "AWS"}})
	}
	return w
}

// labelledReader is the cache, which has only Machines with label LabelMachineOS.
type labelledReader struct{ client.Reader }

func (r labelledReader) Get(ctx context.Context, name client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if err := r.Reader.Get(ctx, name, o, options...); err != nil {
		return err
	}
	if o.GetLabels()[api.LabelMachineOS] != "Windows" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "machines"}, name.Name)
	}
	return nil
}

func (r labelledReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return r.Reader.List(ctx, list, append(options, client.MatchingLabels{api.LabelMachineOS: "Windows"})...)
}

// liveReader is the API server.
type liveReader struct{ w *sources }

func (r liveReader) Get(ctx context.Context, name client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, isMachine := o.(*unstructured.Unstructured); isMachine && r.w.unreadable != nil {
		return r.w.unreadable
	}
	return r.w.WithWatch.Get(ctx, name, o, options...)
}

func (r liveReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return r.w.WithWatch.List(ctx, list, options...)
}

// aMachine returns a Machine of an API ("machine" or "cluster") that runs at an address; manifest is further YAML.
func aMachine(group, name, address string, manifest ...string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal([]byte(strings.Join(manifest, "\n")), &o.Object); err != nil {
		panic(err) // the test is wrong
	}
	if o.Object == nil {
		o.Object = map[string]any{}
	}
	o.SetKind(machines.Kind)
	o.SetName(name)
	switch group {
	case "machine":
		o.SetAPIVersion("machine.openshift.io/v1beta1")
		o.SetNamespace(MachineAPINamespace)
	case "cluster":
		o.SetAPIVersion("cluster.x-k8s.io/v1beta2")
		o.SetNamespace(ClusterAPINamespace)
	}
	if o.GetLabels() == nil {
		o.SetLabels(map[string]string{api.LabelMachineOS: "Windows"})
	}
	if o.Object["status"] == nil {
		o.Object["status"] = map[string]any{"phase": "Running", "addresses": []any{map[string]any{"type": "InternalIP", "address": address}}}
	}
	return o
}

// pass reconciles all Machines, those that the instances name, and the ConfigMap, until DNS has answered.
func (w *sources) pass() {
	w.t.Helper()
	for {
		w.passOf(w.machineAPI)
		w.passOf(w.clusterAPI)
		w.reconcile()
		for w.configMap.Hosts.hasPendingLookups() {
			time.Sleep(time.Millisecond)
		}
		select {
		case <-w.configMap.Hosts.Answered:
		default:
			return
		}
	}
}

// hasPendingLookups reports whether lookups are in progress.
func (r *Resolver) hasPendingLookups() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.known {
		if m.lookingUp {
			return true
		}
	}
	return r.unresolved > 0
}

// reconcile reconciles the ConfigMap once.
func (w *sources) reconcile() reconcile.Result {
	w.t.Helper()
	result, err := w.configMap.Reconcile(w.t.Context(), reconcile.Request{})
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

func (w *sources) passOf(s *machineSource) {
	w.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(s.place.Load().kind)
	if err := w.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	requests := map[reconcile.Request]bool{}
	for i := range list.Items {
		requests[reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])}] = true
	}
	for _, i := range w.instances() {
		for _, r := range s.requestsForInstance(w.t.Context(), &i) {
			requests[r] = true
		}
	}
	for r := range requests {
		if _, err := s.Reconcile(w.t.Context(), r); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *sources) instances() []v1alpha1.WindowsInstance {
	w.t.Helper()
	var list v1alpha1.WindowsInstanceList
	if err := w.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

// leave removes the finalizers of deleted instances, as the instance controller eventually does.
func (w *sources) leave() {
	w.t.Helper()
	for _, i := range w.instances() {
		if i.DeletionTimestamp == nil {
			continue
		}
		i.Finalizers = nil
		if err := w.Update(w.t.Context(), &i); err != nil {
			w.t.Fatal(err)
		}
	}
}

// expect compares the instances, each as name, source, address and state, sorted by name.
func (w *sources) expect(want ...string) {
	w.t.Helper()
	var got []string
	for _, i := range w.instances() {
		line := strings.Join([]string{i.Name, i.Labels[api.LabelSource], i.Spec.Address}, " ")
		if i.DeletionTimestamp != nil {
			line += " leaves"
		}
		if i.Annotations[api.AnnotationRelease] == "true" {
			line += " released"
		}
		got = append(got, line)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		w.t.Errorf("instances are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// expectEvent expects an event whose line contains all words.
func (w *sources) expectEvent(words ...string) {
	w.t.Helper()
	for _, e := range w.Events {
		missing := false
		for _, word := range words {
			missing = missing || !strings.Contains(e, word)
		}
		if !missing {
			return
		}
	}
	w.t.Errorf("no event has %q:\n%s", words, strings.Join(w.Events, "\n"))
}

func (w *sources) expectNoEvent() {
	w.t.Helper()
	if len(w.Events) > 0 {
		w.t.Errorf("unexpected events:\n%s", strings.Join(w.Events, "\n"))
	}
}

// must fails the test if an action of a user or another controller failed.
func (w *sources) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func userMap(keys ...string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: api.InstancesConfigMap, UID: "the-uid"}, Data: map[string]string{}}
	for _, key := range keys {
		cm.Data[key] = "username=Administrator"
	}
	return cm
}
