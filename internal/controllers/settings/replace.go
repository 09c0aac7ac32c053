package settings

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// putBackWithin bounds how long a ConfigMap that is deleted is put back.
const putBackWithin = 10 * time.Second

// try asks the API server whether it would take a ConfigMap if there were none of its name. It says all that it has against it, for its size,
// a quota or a webhook, before it says that there is one (k8s.io/apiserver, pkg/registry/generic/registry, DryRunnableStorage).
func (c *Controller) try(ctx context.Context, want *corev1.ConfigMap) error {
	if err := c.Client.Create(ctx, want.DeepCopy(), client.DryRunAll); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("trying it, with the old one kept: %w", err)
	}
	return nil
}

// replace puts a ConfigMap that was tried into the place of one that nobody can change. Where that fails all the same, the old one is put back,
// if it is the operator's.
func (c *Controller) replace(ctx context.Context, was, want *corev1.ConfigMap, isOurs bool) error {
	if err := c.Client.Delete(ctx, was, client.Preconditions{UID: &was.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the old one: %w", err)
	}
	err := c.Client.Create(ctx, want)
	if err == nil || !isOurs || apierrors.IsAlreadyExists(err) {
		return err
	}
	back := was.DeepCopy()
	back.ResourceVersion, back.UID, back.ManagedFields = "", "", nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putBackWithin)
	defer cancel()
	if failed := c.Client.Create(ctx, back); failed != nil && !apierrors.IsAlreadyExists(failed) {
		return errors.Join(err, fmt.Errorf("putting the old one back: %w", failed))
	}
	return fmt.Errorf("%w; the old one is back", err)
}
