package settings

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

const reportDelay = 5 * time.Second

// enqueueSoon enqueues the settings once for all nodes that have reported within reportDelay: a thousand nodes that follow a change must not cost a
// thousand reconciles.
func enqueueSoon() handler.EventHandler {
	return kube.OnChange(func(_ context.Context, _ client.Object, q kube.Queue) { q.AddAfter(settingsRequest(), reportDelay) })
}

// nodeReported passes nodes that have reported, and nodes that a cloud has initialized, which shows that the cluster has a cloud provider.
func nodeReported() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e ctrlevent.CreateEvent) bool { return e.Object.(*corev1.Node).Spec.ProviderID != "" },
		UpdateFunc: func(e ctrlevent.UpdateEvent) bool {
			previous, current := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			return !maps.Equal(previous.Annotations, current.Annotations) || previous.Spec.ProviderID != current.Spec.ProviderID
		},
	}
}
