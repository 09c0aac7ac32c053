package settings

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
)

// requestTrustedCA creates ConfigMap trusted-ca, which OpenShift fills. It does not change an existing one: without the label, its certificates are the
// administrator's.
func (c *Controller) requestTrustedCA(ctx context.Context) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: c.Namespace, Name: api.TrustedCAConfigMap, Labels: map[string]string{api.LabelInjectTrustedCA: "true"},
	}}
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(cm), &corev1.ConfigMap{})
	if apierrors.IsNotFound(err) {
		err = c.Client.Create(ctx, cm)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating ConfigMap %s: %w", cm.Name, err)
	}
	return nil
}
