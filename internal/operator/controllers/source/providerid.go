package source

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// compareNodes records an event if the Node of a Machine's host has another provider ID than the Machine: controllers of Machines, load balancers and
// volumes match the two by this ID. It does nothing else, because the kubelet may have written the Node's ID.
func (s *machineSource) compareNodes(ctx context.Context, v machineView) {
	for _, i := range v.own {
		var node corev1.Node
		if i.Status.NodeRef == nil || s.Client.Get(ctx, types.NamespacedName{Name: i.Status.NodeRef.Name}, &node) != nil || v.machine.IsNode(node.Spec.ProviderID) {
			continue
		}
		if uid := i.Status.NodeRef.UID; uid != "" && uid != node.UID {
			continue // the instance's next reconcile decides to which host it belongs
		}
		s.Events.Emit(kube.Event{Object: v.object, Related: i, Type: corev1.EventTypeWarning, Reason: api.EventProviderIDDiffers, Action: "Compare"},
			"Node %s of its host has spec.providerID %q, but the Machine has %q, so the cluster cannot match them; "+
				"check whether the Machine's address belongs to another machine, or the Node is left over from one, and delete the wrong object",
			node.Name, truncate.Text(node.Spec.ProviderID, truncate.Quoted), truncate.Text(v.machine.ProviderID, truncate.Quoted))
	}
}

// requestsForNode returns requests for the Machines of the instances whose host is the node.
func (s *machineSource) requestsForNode(ctx context.Context, node client.Object) (all []reconcile.Request) {
	instances, err := allInstances(ctx, s.Client, s.Namespace)
	if err != nil {
		return nil // the cache is shutting down; no API server is involved
	}
	for _, i := range sorted(instances) {
		if i.Status.NodeRef != nil && i.Status.NodeRef.Name == node.GetName() {
			all = append(all, s.requestsForInstance(ctx, i)...)
		}
	}
	return all
}

// providerIDSet passes Nodes whose provider ID changed, as when a cloud initializes them.
func providerIDSet() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, // each Machine is reconciled when the operator starts
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.(*corev1.Node).Spec.ProviderID != e.ObjectNew.(*corev1.Node).Spec.ProviderID
		},
	}
}
