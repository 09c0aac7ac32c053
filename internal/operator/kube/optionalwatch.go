package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"
)

// DiscoveryInterval is how often the operator checks again for kinds that were missing or that it could not read: Cluster API may be installed
// or a role added. A check costs a request or two.
const DiscoveryInterval = time.Minute

// OptionalKind is a kind that may be missing in a cluster, or that the operator may not be allowed to read. A regular watch on it would prevent
// the whole operator from starting.
type OptionalKind struct {
	Group, Kind string
	Versions    []string // supported versions, best first
	// Namespace of the objects; "" for all.
	Namespace string
	Labels    labels.Selector
	// Name of the only object of interest; "" for all.
	Name string
	// Keep, Bytes and Share are those of an Informer.
	Keep  func(client.Object) (kept client.Object, counts bool)
	Bytes int
	Share *Share
	// Events handles changes of the objects.
	Events handler.EventHandler
	// ID distinguishes watches in one namespace, for Follow.
	ID string
	// Found is called with the watched kind before the first event; Lost is called when the watch ends.
	Found func(kind schema.GroupVersionKind, in client.Reader)
	Lost  func()
}

// WatchWhenAvailable adds the watch to a controller in the background, as soon as possible. It calls tried after each attempt.
func WatchWhenAvailable(m manager.Manager, ctl controller.Controller, kinds func(context.Context) (OptionalKind, error), tried func()) error {
	return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
		last := ""
		_ = wait.PollUntilContextCancel(ctx, DiscoveryInterval, true, func(context.Context) (done bool, _ error) {
			k, err := kinds(ctx)
			if err == nil {
				err = k.watch(ctx, m, ctl)
			}
			tried()
			if err == nil || ctx.Err() != nil {
				return true, nil
			}
			if reported := err.Error(); reported != last { // once, not every minute
				log.FromContext(ctx).Info("Watching optional kind failed, will be retried", "kind", k.Kind, "group", k.Group, "namespace", k.Namespace, "error", reported)
				last = reported
			}
			return false, nil
		})
		return nil
	}))
}

// Unwanted is the reason why nothing should be watched.
type Unwanted struct{ Reason, Message string }

// Error implements error.
func (u *Unwanted) Error() string { return u.Message }

// Follow maintains a watch on the kind that kinds returns. Another namespace or ID replaces the watch, and *Unwanted ends it. After any other
// error, the watch stays. It calls report with the result of each check.
func Follow(m manager.Manager, ctl controller.Controller, kinds func(context.Context) (OptionalKind, error), report func(context.Context, error)) error {
	return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
		f := follower{watch: func(ctx context.Context, k OptionalKind) error { return k.watch(ctx, m, ctl) }}
		defer f.end()
		wait.UntilWithContext(ctx, func(ctx context.Context) { report(ctx, f.update(ctx, kinds)) }, DiscoveryInterval)
		return nil
	}))
}

type follower struct {
	watch   func(context.Context, OptionalKind) error
	watched OptionalKind
	cancel  context.CancelFunc
}

// update starts, replaces or ends the watch.
func (f *follower) update(ctx context.Context, kinds func(context.Context) (OptionalKind, error)) error {
	k, err := kinds(ctx)
	var unwanted *Unwanted
	if errors.As(err, &unwanted) || err == nil && (k.Namespace != f.watched.Namespace || k.ID != f.watched.ID) {
		f.end()
	}
	if err != nil || f.cancel != nil {
		return err
	}
	until, cancel := context.WithCancel(ctx)
	if err := f.watch(until, k); err != nil {
		cancel()
		return err
	}
	f.watched, f.cancel = k, cancel
	return nil
}

func (f *follower) end() {
	if f.cancel != nil {
		f.watched.Lost()
		f.cancel()
	}
	f.watched, f.cancel = OptionalKind{}, nil
}

// watch starts a watch that lasts until ctx ends, or returns why it cannot.
func (k OptionalKind) watch(ctx context.Context, m manager.Manager, ctl controller.Controller) error {
	var mapping *meta.RESTMapping
	var err error
	for _, version := range k.Versions { // one by one: if requested together, a missing version may hide the others
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
	selection := byObject[object]
	selection.Label = k.Labels
	byObject[object] = selection
	objects, err := cache.New(m.GetConfig(), cache.Options{
		HTTPClient: m.GetHTTPClient(), Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(), ByObject: byObject,
	})
	if err != nil {
		return fmt.Errorf("creating a cache: %w", err)
	}
	if _, err := objects.GetInformer(ctx, object); err != nil { // before the start, which fills it
		return fmt.Errorf("creating a cache: %w", err)
	}
	go func() {
		if err := objects.Start(ctx); err != nil {
			log.FromContext(ctx).Error(err, "Cache of optional kind ended", "kind", k.Kind, "group", k.Group)
		}
	}()
	if !objects.WaitForCacheSync(ctx) {
		return ctx.Err()
	}
	go wait.UntilWithContext(ctx, func(ctx context.Context) { // not by the manager: it would continue after this watch has ended
		informers.FreeShares(ctx, m.GetScheme(), objects, func(string, int) {})
	}, SharesInterval)
	k.Found(mapping.GroupVersionKind, objects)
	if err := ctl.Watch(ctrlsource.Kind[client.Object](objects, object, k.Events)); err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	return nil
}

// Unavailable reports whether an object, its namespace or its kind does not exist, or the operator may not read it.
func Unavailable(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || meta.IsNoMatchError(err)
}
