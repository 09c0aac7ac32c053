package settings

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
)

// TestTrustedCAIsRequestedOnOpenShift: only OpenShift fills ConfigMaps with a label.
func TestTrustedCAIsRequestedOnOpenShift(t *testing.T) {
	infrastructure := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": map[string]any{"name": "cluster"},
		"status": map[string]any{"platformStatus": map[string]any{"type": "None"}},
	}}
	own := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: api.TrustedCAConfigMap, Labels: map[string]string{"mine": "true"}}}
	for name, test := range map[string]struct {
		objects []client.Object
		want    map[string]string // nil for no ConfigMap
	}{
		"OpenShift": {[]client.Object{infrastructure}, map[string]string{api.LabelInjectTrustedCA: "true"}},
		"OpenShift with the administrator's ConfigMap": {[]client.Object{infrastructure, own}, own.Labels},
		"Kubernetes": {nil, nil},
		"Kubernetes with the administrator's ConfigMap": {[]client.Object{own}, own.Labels},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			for _, o := range test.objects {
				objects = append(objects, o.DeepCopyObject().(client.Object))
			}
			c, _ := newTestSettings(t, objects...)
			for range 2 {
				if _, err := c.Reconcile(t.Context(), reconcile.Request{}); err != nil {
					t.Fatal(err)
				}
			}
			var cm corev1.ConfigMap
			err := c.Live.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: api.TrustedCAConfigMap}, &cm)
			if apierrors.IsNotFound(err) != (test.want == nil) || !maps.Equal(cm.Labels, test.want) {
				t.Errorf("labels are %v, error %v, want %v", cm.Labels, err, test.want)
			}
		})
	}
}
