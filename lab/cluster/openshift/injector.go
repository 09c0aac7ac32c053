//go:build linux

package openshift

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// The label by which a ConfigMap requests the certificates of the network operator, and the key that it fills (its pkg/util/validation and
// pkg/controller/configmap_ca_injector).
const (
	injectLabel = "config.openshift.io/inject-trusted-cabundle"
	injectKey   = "ca-bundle.crt"
)

// InjectCAs keeps the CA certificates of the cluster in all ConfigMaps that request them, as the network operator does, until the context ends. It is
// a stand-in: the network operator itself merges those of its image with those of the Proxy object. failed is called with errors of the API server.
func InjectCAs(ctx context.Context, clients kubernetes.Interface, bundle string, failed func(error)) {
	maps := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = injectLabel + "=true"
	})).Core().V1().ConfigMaps().Informer()
	fill := func(o any) {
		asks, ok := o.(*corev1.ConfigMap)
		if !ok || asks.Data[injectKey] == bundle {
			return
		}
		asks = asks.DeepCopy()
		if asks.Data == nil {
			asks.Data = map[string]string{}
		}
		asks.Data[injectKey] = bundle
		_, err := clients.CoreV1().ConfigMaps(asks.Namespace).Update(ctx, asks, metav1.UpdateOptions{})
		// A newer version of the object is another event.
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			failed(err)
		}
	}
	_, err := maps.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: fill, UpdateFunc: func(_, o any) { fill(o) }})
	if err != nil {
		failed(err)
		return
	}
	maps.RunWithContext(ctx)
}
