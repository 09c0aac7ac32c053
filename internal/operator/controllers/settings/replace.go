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

// restoreTimeout limits the attempt to restore a deleted ConfigMap.
const restoreTimeout = 10 * time.Second

// dryRun dry-runs the creation of a ConfigMap. Before the API server reports that the name exists, it reports everything else that is wrong, such as
// the size, a quota or a webhook (k8s.io/apiserver, pkg/registry/generic/registry, DryRunnableStorage).
func (c *Controller) dryRun(ctx context.Context, want *corev1.ConfigMap) error {
	if err := c.Client.Create(ctx, want.DeepCopy(), client.DryRunAll); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("dry-running the replacement, old one kept: %w", err)
	}
	return nil
}

// replace replaces an immutable ConfigMap with one that has passed dryRun. If the creation fails nevertheless, it restores the old one, if it is the
// operator's.
func (c *Controller) replace(ctx context.Context, previous, want *corev1.ConfigMap, isOurs bool) error {
	if err := c.Client.Delete(ctx, previous, client.Preconditions{UID: &previous.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the old one: %w", err)
	}
	err := c.Client.Create(ctx, want)
	if err == nil || !isOurs || apierrors.IsAlreadyExists(err) {
		return err
	}
	restored := previous.DeepCopy()
	restored.ResourceVersion, restored.UID, restored.ManagedFields = "", "", nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTimeout)
	defer cancel()
	if failed := c.Client.Create(ctx, restored); failed != nil && !apierrors.IsAlreadyExists(failed) {
		return errors.Join(err, fmt.Errorf("restoring the old one: %w", failed))
	}
	return fmt.Errorf("%w; the old one was restored", err)
}
