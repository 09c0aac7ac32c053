package settings

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// nodesReported enqueues the settings when nodes have reported, or have got provider IDs, once for all within reportsWithin: a thousand nodes that
// follow a change must not cost a thousand reconciles.
type nodesReported struct{ handler.Funcs }

const reportsWithin = 5 * time.Second

// Update implements handler.EventHandler.
func (nodesReported) Update(_ context.Context, _ ctrlevent.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	q.AddAfter(theSettings(), reportsWithin)
}

// Delete implements handler.EventHandler.
func (nodesReported) Delete(_ context.Context, _ ctrlevent.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	q.AddAfter(theSettings(), reportsWithin)
}

// Create implements handler.EventHandler.
func (nodesReported) Create(_ context.Context, e ctrlevent.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if e.Object.(*corev1.Node).Spec.ProviderID != "" {
		q.AddAfter(theSettings(), reportsWithin)
	}
}

// providerIDChanged passes the first nodes that a cloud initializes: they show that there is one.
func providerIDChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e ctrlevent.UpdateEvent) bool {
		return e.ObjectOld.(*corev1.Node).Spec.ProviderID != e.ObjectNew.(*corev1.Node).Spec.ProviderID
	}}
}
