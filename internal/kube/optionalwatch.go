package kube

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"
)

// DiscoveryInterval is how often what a cluster did not have, or the operator could not read, is looked for again: a cluster gets Cluster API, an
// administrator adds a role. It costs a request or two.
const DiscoveryInterval = time.Minute

// OptionalKind is a kind that a cluster need not have, and that the operator may not be allowed to read. A watch on such a kind from the start
// would keep the whole operator from starting.
type OptionalKind struct {
	Group, Kind string
	Versions    []string // that are understood, the best first
	// Namespace with the objects; "" for all of them.
	Namespace string
	Labels    labels.Selector
	// Name of the only object of interest; "" for all.
	Name string
	// Keep, Bytes and Share are those of an Informer.
	Keep  func(client.Object) (kept client.Object, counts bool)
	Bytes int
	Share *Share
	// Events handles what happens to the objects.
	Events handler.EventHandler
	// Found is told what is watched, before the first event.
	Found func(kind schema.GroupVersionKind, in client.Reader)
}

// WatchWhenAvailable adds the watch to a controller as soon as that is possible, in the background. tried is told of each attempt.
func WatchWhenAvailable(m manager.Manager, ctl controller.Controller, kinds func(context.Context) (OptionalKind, error), tried func()) error {
	return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for last := ""; ; {
			k, err := kinds(ctx)
			if err == nil {
				err = k.watch(ctx, m, ctl)
			}
			tried()
			if err == nil || ctx.Err() != nil {
				return nil
			}
			if said := err.Error(); said != last { // once, not every minute
				log.FromContext(ctx).Info("Watching optional kind failed, will be retried", "kind", k.Kind, "group", k.Group, "namespace", k.Namespace, "error", said)
				last = said
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(DiscoveryInterval):
			}
		}
	}))
}

// watch begins to watch, or says why that cannot be.
func (k OptionalKind) watch(ctx context.Context, m manager.Manager, ctl controller.Controller) error {
	var mapping *meta.RESTMapping
	var err error
	for _, version := range k.Versions { // one by one: with several, one that is missing may hide the others
		if mapping, err = m.GetRESTMapper().RESTMapping(schema.GroupKind{Group: k.Group, Kind: k.Kind}, version); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("finding kind %s of group %q: %w", k.Kind, k.Group, err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(mapping.GroupVersionKind)
	options := &client.ListOptions{Namespace: k.Namespace, LabelSelector: k.Labels, Limit: 1}
	if k.Name != "" {
		options.FieldSelector = fields.OneTermEqualSelector("metadata.name", k.Name)
	}
	if err := m.GetAPIReader().List(ctx, list, options); err != nil {
		return fmt.Errorf("listing: %w", err)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(mapping.GroupVersionKind)
	informers := Informers{{Object: object, Namespace: k.Namespace, Name: k.Name, Keep: k.Keep, Bytes: k.Bytes, Share: k.Share}}
	byObject := informers.Cache().ByObject
	only := byObject[object]
	only.Label = k.Labels
	byObject[object] = only
	objects, err := cache.New(m.GetConfig(), cache.Options{
		HTTPClient: m.GetHTTPClient(), Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(), ByObject: byObject,
	})
	if err != nil {
		return fmt.Errorf("making a cache: %w", err)
	}
	if _, err := objects.GetInformer(ctx, object); err != nil { // before the start, so that the start fills it
		return fmt.Errorf("making a cache: %w", err)
	}
	if err := m.Add(objects); err != nil {
		return fmt.Errorf("starting a cache: %w", err)
	}
	if !objects.WaitForCacheSync(ctx) {
		return ctx.Err()
	}
	if err := informers.Watch(m, objects, func(string, int) {}); err != nil {
		return fmt.Errorf("watching the memory of a cache: %w", err)
	}
	k.Found(mapping.GroupVersionKind, objects)
	if err := ctl.Watch(ctrlsource.Kind[client.Object](objects, object, k.Events)); err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	return nil
}

// Unavailable says whether an object cannot be had because it, its namespace or its kind is not there, or because the operator may not see it.
func Unavailable(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || meta.IsNoMatchError(err)
}
