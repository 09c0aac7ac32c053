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

// The label with which a ConfigMap requests CA certificates from the network operator, and the key under which the network
// operator writes them (see its pkg/util/validation and pkg/controller/configmap_ca_injector).
const (
	injectLabel = "config.openshift.io/inject-trusted-cabundle"
	injectKey   = "ca-bundle.crt"
)

// InjectCAs writes a bundle of CA certificates to all ConfigMaps that request them, until the context ends. It is a stand-in
// for the network operator, which merges the certificates of its image with those of the Proxy object. failed is called with
// errors of the API server.
func InjectCAs(ctx context.Context, clients kubernetes.Interface, bundle string, failed func(error)) {
	maps := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = injectLabel + "=true"
	})).Core().V1().ConfigMaps().Informer()
	fill := func(o any) {
		cm, ok := o.(*corev1.ConfigMap)
		if !ok || cm.Data[injectKey] == bundle {
			return
		}
		cm = cm.DeepCopy()
		if cm.Data == nil {
			cm.Data = map[string]string{}
		}
		cm.Data[injectKey] = bundle
		_, err := clients.CoreV1().ConfigMaps(cm.Namespace).Update(ctx, cm, metav1.UpdateOptions{})
		// After a conflict, the informer calls fill again with the newer version.
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
