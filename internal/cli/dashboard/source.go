package dashboard

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

const (
	// listDeadline limits one list request.
	listDeadline = 30 * time.Second
	// watchFor is how long a watch lasts before it is reopened. The API server checks the user's permissions only when a watch is opened.
	watchFor = 20 * time.Second
	// maxPause is the maximum pause between two attempts to read a kind that cannot be read.
	maxPause = 10 * time.Second
)

// source caches the objects that a page shows. It watches them with the user's permissions.
type source struct {
	namespace string
	kinds     []*kind
	changed   chan struct{} // receives an element when something changed

	mu      sync.Mutex
	version uint64 // counts the changes
}

// kind is a store of the watched objects of one kind.
type kind struct {
	cache.Store
	what  string // as in Unread
	one   client.Object
	many  client.ObjectList
	limit client.ListOptions

	source *source
	client client.WithWatch

	mu     sync.Mutex
	synced bool
	denied error // the user may not read it, or the API server does not have it
	lost   error // the API server does not respond
	since  time.Time
}

// newSource returns a source that watches nothing yet.
func newSource(c client.WithWatch, namespace string) *source {
	s := &source{namespace: namespace, changed: make(chan struct{}, 1)}
	s.add(c, "windowsinstances", &v1alpha1.WindowsInstance{}, &v1alpha1.WindowsInstanceList{}, client.ListOptions{Namespace: namespace})
	s.add(c, "windowsconfigs", &v1alpha1.WindowsConfig{}, &v1alpha1.WindowsConfigList{}, client.ListOptions{})
	s.add(c, "nodes", &corev1.Node{}, &corev1.NodeList{}, client.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{corev1.LabelOSStable: "windows"})})
	s.add(c, "deployments", &appsv1.Deployment{}, &appsv1.DeploymentList{},
		client.ListOptions{Namespace: namespace, FieldSelector: fields.OneTermEqualSelector("metadata.name", fleetstatus.DeploymentName)})
	s.add(c, "events", &corev1.Event{}, &corev1.EventList{}, client.ListOptions{Namespace: namespace})
	s.add(c, "events of nodes", &corev1.Event{}, &corev1.EventList{},
		client.ListOptions{Namespace: metav1.NamespaceDefault, FieldSelector: fields.OneTermEqualSelector("involvedObject.kind", "Node")})
	s.add(c, "pods", &corev1.Pod{}, &corev1.PodList{}, client.ListOptions{FieldSelector: fields.OneTermEqualSelector("status.phase", string(corev1.PodPending))})
	return s
}

// podsOf returns a source with the pods of one node, for the page of its host.
func podsOf(c client.WithWatch, node string) *source {
	s := &source{changed: make(chan struct{}, 1)}
	s.add(c, "pods", &corev1.Pod{}, &corev1.PodList{}, client.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node)})
	return s
}

func (s *source) add(c client.WithWatch, what string, one client.Object, many client.ObjectList, limit client.ListOptions) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc, cache.WithTransformer(slim))
	s.kinds = append(s.kinds, &kind{Store: store, what: what, one: one, many: many, limit: limit, source: s, client: c})
}

func (s *source) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, k := range s.kinds {
		all.Go(func() { k.follow(ctx) })
	}
	all.Wait()
}

func (s *source) notify() {
	s.mu.Lock()
	s.version++
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// ready reports whether each kind has been read or cannot be read.
func (s *source) ready() bool {
	for _, k := range s.kinds {
		k.mu.Lock()
		known := k.synced || k.denied != nil || k.lost != nil
		k.mu.Unlock()
		if !known {
			return false
		}
	}
	return true
}

func (s *source) input() fleetstatus.Input {
	in := fleetstatus.Input{Now: time.Now(), Namespace: s.namespace}
	for _, k := range s.kinds {
		k.mu.Lock()
		for _, key := range slices.Sorted(slices.Values(k.ListKeys())) { // equal hosts keep their order on the page
			item, _, _ := k.GetByKey(key)
			switch o := item.(type) {
			case *v1alpha1.WindowsInstance:
				in.Instances = append(in.Instances, *o)
			case *v1alpha1.WindowsConfig:
				in.Config = o
			case *corev1.Node:
				in.Nodes = append(in.Nodes, *o)
			case *appsv1.Deployment:
				in.Operator = o
			case *corev1.Event:
				in.Events = append(in.Events, *o)
			case *corev1.Pod:
				in.Pods = append(in.Pods, *o)
			}
		}
		if k.denied != nil {
			in.Unread = append(in.Unread, fleetstatus.Unread{What: k.what, Why: explain(k.denied)})
		}
		k.mu.Unlock()
	}
	slices.SortFunc(in.Unread, func(a, b fleetstatus.Unread) int { return cmp.Compare(a.What, b.What) })
	return in
}

// lost returns since when the API server does not respond, and why; zero if it does.
func (s *source) lost() (since time.Time, reason string) {
	for _, k := range s.kinds {
		k.mu.Lock()
		if k.lost != nil && (since.IsZero() || k.since.Before(since)) {
			since, reason = k.since, explain(k.lost)
		}
		k.mu.Unlock()
	}
	return since, reason
}

func (k *kind) follow(ctx context.Context) {
	quiet := logr.Discard()
	lists := &cache.ListWatch{ListWithContextFunc: k.list, WatchFuncWithContext: k.watch}
	pause := time.Second
	for ctx.Err() == nil {
		began := time.Now()
		r := cache.NewReflectorWithOptions(lists, k.one, k, cache.ReflectorOptions{Name: k.what, Logger: &quiet})
		k.note(ctx, r.ListAndWatchWithContext(logr.NewContext(ctx, quiet)))
		if time.Since(began) > watchFor {
			pause = time.Second
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
}

func (k *kind) options(o *metav1.ListOptions) *client.ListOptions {
	limit := k.limit
	limit.Raw = o
	return &limit
}

// list implements the list function of cache.ListWatch.
func (k *kind) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, listDeadline)
	defer cancel()
	list := k.many.DeepCopyObject().(client.ObjectList)
	err := k.client.List(ctx, list, k.options(&o))
	k.note(ctx, err)
	return list, err
}

// watch implements the watch function of cache.ListWatch.
func (k *kind) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.TimeoutSeconds = new(int64(watchFor.Seconds()))
	w, err := k.client.Watch(ctx, k.many, k.options(&o))
	k.note(ctx, err)
	return w, err
}

// note records the result of a request. Objects that the user may no longer read are removed; if the API server does not respond, the objects
// stay.
func (k *kind) note(ctx context.Context, err error) {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return
	}
	k.mu.Lock()
	previous, wasLost := k.denied, k.lost
	switch {
	case err == nil:
		k.denied, k.lost = nil, nil
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		k.denied, k.lost, k.synced = err, nil, false
		_ = k.Store.Replace(nil, "") // fails only for invalid objects
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		// The reflector lists again, or with other options.
	default:
		if k.lost == nil {
			k.since = time.Now()
		}
		k.lost = err
	}
	changed := !same(previous, k.denied) || (wasLost == nil) != (k.lost == nil)
	k.mu.Unlock()
	if changed {
		k.source.notify()
	}
}

func same(a, b error) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Error() == b.Error()
}

// Add implements cache.ReflectorStore.
func (k *kind) Add(o any) error {
	defer k.source.notify()
	return k.Store.Add(o)
}

// Update implements cache.ReflectorStore.
func (k *kind) Update(o any) error {
	defer k.source.notify()
	return k.Store.Update(o)
}

// Delete implements cache.ReflectorStore.
func (k *kind) Delete(o any) error {
	defer k.source.notify()
	return k.Store.Delete(o)
}

// Replace implements cache.ReflectorStore.
func (k *kind) Replace(all []any, version string) error {
	defer k.source.notify()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.synced, k.denied, k.lost = true, nil, nil
	return k.Store.Replace(all, version)
}

func slim(o any) (any, error) {
	o.(client.Object).SetManagedFields(nil)
	if node, ok := o.(*corev1.Node); ok {
		node.Status.Images = nil
	}
	return o, nil
}

// explain returns in one line why a read failed.
func explain(err error) string {
	return strings.TrimPrefix(session.Explain(err, "reading").Error(), "reading: ")
}
