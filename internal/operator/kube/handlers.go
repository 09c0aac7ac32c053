package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queue receives the requests of a controller.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// OnChange returns a handler that treats creations, updates and deletions alike.
func OnChange(request func(context.Context, client.Object, Queue)) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e ctrlevent.CreateEvent, q Queue) { request(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e ctrlevent.UpdateEvent, q Queue) { request(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e ctrlevent.DeleteEvent, q Queue) { request(ctx, e.Object, q) },
	}
}

// Enqueue returns a handler that requests the same reconcile for every event.
func Enqueue(namespace, name string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
	})
}
