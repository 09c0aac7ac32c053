package kube

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windows-machine-config/wmco/api"
)

// Informer defines what the operator caches of one kind of object. The number and size of the objects are not under the operator's control.
type Informer struct {
	Object client.Object
	// Namespace and Name select the cached objects; "" for all.
	Namespace, Name string
	// Field restricts the selection further.
	Field fields.Selector
	// Keep reduces an object to the fields that are read; nil keeps its identity. It may modify the object. It reports whether the object counts
	// in the share: an object of which almost nothing is kept does not.
	Keep func(client.Object) (kept client.Object, counts bool)
	// Bytes limits the memory of one object. Of a larger one, only the identity is kept.
	Bytes int
	// Share limits all objects together; nil if only administrators create them.
	Share *Share
}

// Informers are the informers of one cache. Of any other kind, the cache keeps only the identity.
type Informers []Informer

// Cache returns the options of the cache.
func (all Informers) Cache() cache.Options {
	o := cache.Options{ByObject: map[client.Object]cache.ByObject{}, DefaultTransform: Identities, NewInformer: all.newInformer}
	for _, i := range all {
		selection := cache.ByObject{Transform: i.Transform, Field: i.Field}
		if i.Namespace != "" {
			selection.Namespaces = map[string]cache.Config{i.Namespace: {}}
		}
		if i.Name != "" {
			selection.Field = fields.OneTermEqualSelector("metadata.name", i.Name)
		}
		o.ByObject[i.Object] = selection
	}
	return o
}

// ShareOf returns the share of a kind; nil if it has none.
func (all Informers) ShareOf(kind client.Object) *Share {
	for _, i := range all {
		if reflect.TypeOf(i.Object) == reflect.TypeOf(kind) {
			return i.Share
		}
	}
	return nil
}

// Identities keeps what an event needs: the identity of the changed object.
func Identities(o any) (any, error) { return Informer{}.Transform(o) }

// Transform reduces an object to what the cache keeps. It is idempotent.
func (i Informer) Transform(o any) (any, error) {
	object, ok := o.(client.Object)
	if !ok {
		return o, nil // a tombstone, for a deletion that the watch missed
	}
	if i.Keep == nil || IsCut(object) {
		return identity(object), nil
	}
	var owner string
	if i.Share != nil {
		owner = i.Share.Owner(object)
	}
	kept, counts := i.Keep(object)
	switch size := Memory(kept); {
	case size > i.Bytes:
		log.Log.Info("Object is too large to cache", "kind", reflect.TypeOf(object).Elem().Name(), "namespace", object.GetNamespace(), "name", object.GetName(), "bytes", size)
		return cut(object, ""), nil
	case i.Share == nil:
	case !counts:
		i.Share.forget(object.GetUID())
	case !i.Share.reserve(object.GetUID(), owner, size):
		return cut(object, owner), nil
	}
	return kept, nil
}

// KeepFunc adapts a Keep function for a type.
func KeepFunc[T client.Object](keep func(T) (client.Object, bool)) func(client.Object) (client.Object, bool) {
	return func(o client.Object) (client.Object, bool) {
		if object, ok := o.(T); ok {
			return keep(object)
		}
		return o, true
	}
}

// Whole keeps everything except managed fields.
func Whole(o client.Object) (client.Object, bool) {
	o.SetManagedFields(nil)
	return o, true
}

func identity(o client.Object) client.Object {
	var kept client.Object
	if _, ok := o.(*unstructured.Unstructured); ok {
		kept = &unstructured.Unstructured{Object: map[string]any{}}
	} else {
		kept = reflect.New(reflect.TypeOf(o).Elem()).Interface().(client.Object)
	}
	kept.GetObjectKind().SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
	kept.SetNamespace(o.GetNamespace())
	kept.SetName(o.GetName())
	kept.SetUID(o.GetUID())
	kept.SetResourceVersion(o.GetResourceVersion())
	kept.SetGeneration(o.GetGeneration())
	kept.SetCreationTimestamp(o.GetCreationTimestamp())
	kept.SetDeletionTimestamp(o.GetDeletionTimestamp())
	if owner, ok := CutOf(o); ok {
		kept.SetAnnotations(map[string]string{cutKey: owner})
	}
	return kept
}

// cutKey marks, in the cache only, an object that was too large or had no room, so that only its identity is kept. The API server rejects
// annotations with this key, so no client can set it.
const cutKey = "/cut"

func cut(o client.Object, owner string) client.Object {
	kept := identity(o)
	kept.SetAnnotations(map[string]string{cutKey: owner})
	return kept
}

// IsCut reports whether the cache has only the identity of an object.
func IsCut(o client.Object) bool {
	_, ok := CutOf(o)
	return ok
}

// CutOf returns the owner whose share had no room for an object; "" if the object alone is too large.
func CutOf(o client.Object) (owner string, ok bool) {
	annotations := o.GetAnnotations()
	owner, ok = annotations[cutKey]
	return owner, ok && len(annotations) == 1
}

// Limits of cached metadata, in bytes of all labels and of all annotations.
const (
	maxLabels      = 16 << 10
	maxAnnotations = 32 << 10
)

// ShortenMetadata removes unused metadata. If there is too much, it removes labels and annotations of other programs first.
func ShortenMetadata(o client.Object) {
	o.SetManagedFields(nil)
	o.SetFinalizers(firstOf(o.GetFinalizers()))
	o.SetOwnerReferences(firstOf(o.GetOwnerReferences()))
	o.SetLabels(within(o.GetLabels(), maxLabels))
	o.SetAnnotations(within(o.GetAnnotations(), maxAnnotations))
}

// firstOf keeps the first 16 items, which is enough for any use.
func firstOf[T any](list []T) []T { return append([]T(nil), list[:min(len(list), 16)]...) }

// within returns the map, or the entries that fit into a limit, the operator's first.
func within(all map[string]string, limit int) map[string]string {
	size := 0
	for key, value := range all {
		size += len(key) + len(value) + mapEntry
	}
	if size <= limit {
		return all
	}
	kept := map[string]string{}
	size = 0
	keys := slices.Sorted(maps.Keys(all))
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	for _, key := range keys {
		need := len(key) + len(all[key]) + mapEntry
		if size+need <= limit {
			kept[key] = all[key]
			size += need
		}
	}
	return kept
}

// rank orders keys: the operator's first, then those of Kubernetes and its networks.
func rank(key string) int {
	prefix, _, _ := strings.Cut(key, "/")
	switch {
	case prefix == api.GroupName:
		return 0
	case strings.HasSuffix(prefix, "kubernetes.io"), strings.HasSuffix(prefix, "k8s.io"), strings.HasSuffix(prefix, "ovn.org"):
		return 1
	}
	return 2
}

// SharesInterval is how often the shares of a cache are updated.
const SharesInterval = time.Minute

// FreeShares frees the memory of deleted objects. It calls cut with the number of objects of a kind that have found no room since the last call.
func (all Informers) FreeShares(ctx context.Context, scheme *runtime.Scheme, from client.Reader, cut func(kind string, objects int)) {
	for _, i := range all {
		if i.Share == nil {
			continue
		}
		kind, n, err := i.freeDeleted(ctx, from, scheme)
		switch {
		case err != nil:
			log.FromContext(ctx).Info("Listing cached objects failed", "kind", kind, "error", err.Error())
		case n > 0:
			log.FromContext(ctx).Info("Objects not cached, because their owner's share of memory is used up", "kind", kind, "objects", n)
			cut(kind, n)
		}
	}
}

// freeDeleted removes deleted objects from the share.
func (i Informer) freeDeleted(ctx context.Context, from client.Reader, scheme *runtime.Scheme) (name string, cut int, err error) {
	kind, err := apiutil.GVKForObject(i.Object, scheme)
	if err != nil {
		return "", 0, err
	}
	name = kind.Kind
	kind.Kind += "List"
	var list client.ObjectList
	if _, ok := i.Object.(*unstructured.Unstructured); ok {
		generic := &unstructured.UnstructuredList{}
		generic.SetGroupVersionKind(kind)
		list = generic
	} else {
		empty, err := scheme.New(kind)
		if err != nil {
			return name, 0, err
		}
		list = empty.(client.ObjectList)
	}
	if err := from.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return name, 0, err
	}
	exist := map[types.UID]bool{}
	err = meta.EachListItem(list, func(o runtime.Object) error {
		exist[o.(client.Object).GetUID()] = true
		return nil
	})
	return name, i.Share.keepOnly(exist), err
}
