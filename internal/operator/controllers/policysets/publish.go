package policysets

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/networkpolicy"
)

// record is a set as this process has written it last.
type record struct {
	content    [sha256.Size]byte
	uid        types.UID
	generation int64
}

// sets are the metadata of published sets, by namespace of the policies.
type sets map[string]*metav1.PartialObjectMetadata

// existing returns the published sets.
func (c *Controller) existing(ctx context.Context) (sets, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("WindowsPolicySetList"))
	if err := c.objects.List(ctx, list, client.InNamespace(c.Namespace)); err != nil {
		return nil, fmt.Errorf("listing WindowsPolicySets: %w", err)
	}
	existing := sets{}
	for i := range list.Items {
		existing[list.Items[i].Name] = &list.Items[i]
	}
	return existing, nil
}

// isIntact reports whether the published sets are those that this process has written. It is false, too, where the cache is behind.
func (c *Controller) isIntact(existing sets) bool {
	for namespace := range c.published {
		if !c.isUnchanged(namespace, existing) {
			return false
		}
	}
	return len(existing) == len(c.published)
}

func (c *Controller) isUnchanged(namespace string, existing sets) bool {
	known, isKnown := c.published[namespace]
	set := existing[namespace]
	return isKnown && set != nil && set.UID == known.uid && set.Generation <= known.generation
}

// publish writes the sets that differ from the published ones, and deletes those of namespaces without policies. After a start, it writes
// all: the API server ignores a write that changes nothing. It returns how many bytes it wrote.
func (c *Controller) publish(ctx context.Context, compiled []networkpolicy.Compiled, existing sets) (written int, _ error) {
	var errs []error
	wanted := map[string]bool{}
	for _, one := range compiled {
		namespace := one.Set.Namespace
		wanted[namespace] = true
		switch {
		case one.Encoded == nil:
			errs = append(errs, fmt.Errorf("the policies of namespace %.64q cannot be published: its name is invalid", namespace))
		case !c.isUnchanged(namespace, existing) || c.published[namespace].content != sha256.Sum256(one.Encoded):
			errs = append(errs, c.write(ctx, namespace, one.Encoded))
			written += len(one.Encoded)
		}
	}
	for namespace := range c.published {
		if !wanted[namespace] && existing[namespace] == nil {
			delete(c.published, namespace) // others have deleted it
		}
	}
	for namespace, set := range existing {
		if !wanted[namespace] {
			errs = append(errs, c.remove(ctx, set))
		}
	}
	return written, errors.Join(errs...)
}

func (c *Controller) write(ctx context.Context, namespace string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	set := &v1alpha1.WindowsPolicySet{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: namespace}}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"set": string(data)}})
	if err != nil {
		return err
	}
	delete(c.published, namespace) // unknown if the response is lost
	err = c.Client.Patch(ctx, set, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) {
		set = &v1alpha1.WindowsPolicySet{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: namespace, Labels: map[string]string{api.LabelManagedBy: api.ManagedBy}},
			Spec:       v1alpha1.WindowsPolicySetSpec{Set: string(data)},
		}
		err = c.Client.Create(ctx, set)
	}
	if err != nil {
		return fmt.Errorf("writing WindowsPolicySet %s: %w", namespace, err)
	}
	c.published[namespace] = record{sha256.Sum256(data), set.UID, set.Generation}
	return nil
}

func (c *Controller) remove(ctx context.Context, set *metav1.PartialObjectMetadata) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	delete(c.published, set.Name)
	err := c.Client.Delete(ctx, &v1alpha1.WindowsPolicySet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}},
		client.Preconditions{UID: &set.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting WindowsPolicySet %s: %w", set.Name, err)
	}
	return nil
}
