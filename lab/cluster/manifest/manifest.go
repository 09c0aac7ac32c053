// Package manifest applies kustomize folders like "kubectl apply -k", so that the lab and the tests use the same files as users.
package manifest

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// fieldManager owns the fields that Apply sets.
const fieldManager = "wmco-lab"

// callTimeout limits one request to the API server, establishTimeout the time until all new kinds are served.
const (
	callTimeout      = 30 * time.Second
	establishTimeout = time.Minute
)

// Render returns the objects of a kustomize folder in their order.
func Render(dir string) ([]*unstructured.Unstructured, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("building kustomize folder %s: %w", dir, err)
	}
	var objects []*unstructured.Unstructured
	for _, r := range built.Resources() {
		o := &unstructured.Unstructured{}
		raw, err := r.MarshalJSON()
		if err == nil {
			err = o.UnmarshalJSON(raw) // decodes integers as int64, which the clients require
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s of kustomize folder %s: %w", r.CurId(), dir, err)
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// Apply applies the objects of a kustomize folder by server-side apply, and returns when the kinds that they define are served.
// It is idempotent.
func Apply(ctx context.Context, config *rest.Config, dir string) error {
	objects, err := Render(dir)
	if err != nil {
		return err
	}
	return ApplyObjects(ctx, config, objects)
}

// ApplyObjects applies objects in the given order by server-side apply, including their status, and returns when the kinds that they
// define are served. It is idempotent.
func ApplyObjects(ctx context.Context, config *rest.Config, objects []*unstructured.Unstructured) error {
	a, err := newApplier(config)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := a.apply(ctx, o); err != nil {
			return fmt.Errorf("applying %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	for _, o := range objects {
		if o.GetKind() != crdKind {
			continue
		}
		if err := a.waitEstablished(ctx, o.GetName()); err != nil {
			return fmt.Errorf("waiting for CustomResourceDefinition %s to be served: %w", o.GetName(), err)
		}
	}
	return nil
}

const crdKind = "CustomResourceDefinition"

type applier struct {
	client dynamic.Interface
	mapper meta.RESTMapper
}

func newApplier(config *rest.Config) (*applier, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return &applier{client, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds))}, nil
}

func (a *applier) apply(ctx context.Context, o *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	kind := o.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = a.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		resource = a.client.Resource(mapping.Resource).Namespace(o.GetNamespace())
	}
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	if _, err = resource.Apply(ctx, o.GetName(), o, options); err != nil || o.Object["status"] == nil || o.GetKind() == crdKind {
		return err
	}
	_, err = resource.Apply(ctx, o.GetName(), o, options, "status")
	if apierrors.IsNotFound(err) { // without a status subresource, the first call has written the status
		return nil
	}
	return err
}

func (a *applier) waitEstablished(ctx context.Context, name string) error {
	definitions := a.client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, establishTimeout, true, func(ctx context.Context) (bool, error) {
		crd, err := definitions.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && isEstablished(crd), err
	})
}

func isEstablished(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["type"] == "Established" && condition["status"] == "True" {
			return true
		}
	}
	return false
}
