package storytest

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/instance"
)

// storyCache serves a story's reads from the objects written: the fake client takes a millisecond per read, and a story makes a million. Writes go to
// the fake client.
type storyCache struct {
	t       *testing.T
	mu      sync.Mutex // held while controllers read and write; a story reads between their passes without it
	scheme  *runtime.Scheme
	objects map[string]map[client.ObjectKey]client.Object // by kind
	// changes counts all writes, settings those of ConfigMaps.
	changes, settings int
}

func newStoryCache(t *testing.T) *storyCache {
	return &storyCache{t: t, scheme: controllertest.Scheme(t), objects: map[string]map[client.ObjectKey]client.Object{}}
}

func (c *storyCache) kind(o runtime.Object) string {
	if partial, ok := o.(*metav1.PartialObjectMetadataList); ok {
		return strings.TrimSuffix(partial.Kind, "List")
	}
	switch o := o.(type) {
	case *unstructured.Unstructured:
		return o.GetKind()
	case *unstructured.UnstructuredList:
		return strings.TrimSuffix(o.GetKind(), "List")
	}
	return strings.TrimSuffix(reflect.TypeOf(o).Elem().Name(), "List")
}

// refresh copies a written object from the client.
func (c *storyCache) refresh(ctx context.Context, from client.Client, o client.Object) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	kind, key := c.kind(o), client.ObjectKeyFromObject(o)
	if kind == "ConfigMap" {
		c.settings++
	}
	got := reflect.New(reflect.TypeOf(o).Elem()).Interface().(client.Object)
	err := from.Get(ctx, key, got)
	switch {
	case apierrors.IsNotFound(err):
		delete(c.objects[kind], key)
		return
	case err != nil:
		c.t.Fatal(err)
	}
	if c.objects[kind] == nil {
		c.objects[kind] = map[client.ObjectKey]client.Object{}
	}
	c.objects[kind][key] = got
}

func (c *storyCache) get(_ context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, found := c.objects[c.kind(into)][key]
	if !found {
		return apierrors.NewNotFound(schema.GroupResource{Resource: c.kind(into)}, key.Name)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(o.DeepCopyObject()).Elem())
	return nil
}

func (c *storyCache) list(_ context.Context, _ client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	c.mu.Lock()
	defer c.mu.Unlock()
	kind := c.kind(into)
	var items []runtime.Object
	for _, o := range c.sorted(kind) {
		if options.Namespace != "" && o.GetNamespace() != options.Namespace ||
			options.LabelSelector != nil && !options.LabelSelector.Matches(labelsOf(o)) ||
			options.FieldSelector != nil && !options.FieldSelector.Matches(fieldsOf(o)) {
			continue
		}
		items = append(items, o.DeepCopyObject())
	}
	partial, ok := into.(*metav1.PartialObjectMetadataList)
	if !ok {
		return meta.SetList(into, items)
	}
	partial.Items = nil
	for _, o := range items {
		partial.Items = append(partial.Items, *meta.AsPartialObjectMetadata(o.(metav1.Object)))
	}
	return nil
}

// sorted returns all objects of a kind by namespace and name. They must not be changed.
func (c *storyCache) sorted(kind string) []client.Object {
	name := func(o client.Object) string { return client.ObjectKeyFromObject(o).String() }
	return slices.SortedFunc(maps.Values(c.objects[kind]), func(a, b client.Object) int { return strings.Compare(name(a), name(b)) })
}

// version returns the resource version of an object without namespace, or "" if there is none.
func (c *storyCache) version(kind, name string) string {
	if o, found := c.objects[kind][client.ObjectKey{Name: name}]; found {
		return o.GetResourceVersion()
	}
	return ""
}

type stringMap map[string]string

func (m stringMap) Has(key string) bool   { _, found := m[key]; return found }
func (m stringMap) Get(key string) string { return m[key] }
func (m stringMap) Lookup(key string) (string, bool) {
	value, found := m[key]
	return value, found
}

func labelsOf(o client.Object) stringMap { return o.GetLabels() }

// fieldsOf returns the fields by which the controllers select.
func fieldsOf(o client.Object) stringMap {
	switch o := o.(type) {
	case *corev1.Pod:
		return stringMap{"spec.nodeName": o.Spec.NodeName}
	case *v1alpha1.WindowsInstance:
		return stringMap{instance.HostnameIndex: o.Status.Hostname, instance.HostKeyIndex: o.Status.HostKey}
	}
	return nil
}

// funcs puts the cache in front of a client. written is called for each write.
func (c *storyCache) funcs(written func()) interceptor.Funcs {
	done := func(ctx context.Context, from client.Client, o client.Object, err error) error {
		c.mu.Lock()
		written()
		c.mu.Unlock()
		c.refresh(ctx, from, o)
		return err
	}
	return interceptor.Funcs{
		Get: c.get, List: c.list,
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return done(ctx, w, o, w.Create(ctx, o, opts...))
		},
		Update: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return done(ctx, w, o, w.Update(ctx, o, opts...))
		},
		Delete: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return done(ctx, w, o, w.Delete(ctx, o, opts...))
		},
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return done(ctx, w, o, w.Patch(ctx, o, p, opts...))
		},
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return done(ctx, w, o, w.SubResource(sub).Patch(ctx, o, p, opts...))
		},
		SubResourceUpdate: func(ctx context.Context, w client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return done(ctx, w, o, w.SubResource(sub).Update(ctx, o, opts...))
		},
		SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
			return fmt.Errorf("not in this story")
		},
	}
}
