package instance

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// claimOf returns the claim of an instance's host to a Node.
func (c *Controller) claimOf(i *v1alpha1.WindowsInstance, node *corev1.Node) nodestate.Claim {
	remembered := i.Status.NodeRef != nil && i.Status.NodeRef.UID == node.UID
	if _, isUnproven := c.unprovenNodes.Load(node.UID); isUnproven && !remembered {
		return nodestate.Foreign
	}
	return nodestate.ClaimOf(i, node)
}

// NodeEvents enqueues the instance of a changed Node. A starting Node changes several times within seconds; while many hosts join, its instance waits
// briefly and handles these changes at once. A created Node is judged by its state at creation.
func (c *Controller) NodeEvents() handler.EventHandler {
	request := func(ctx context.Context, node client.Object, q kube.Queue) {
		for _, r := range c.requestsForNode(ctx, node) {
			q.AddAfter(r, batchDelay(c.Slots.Taken()))
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e ctrlevent.CreateEvent, q kube.Queue) {
			if !e.IsInInitialList { // otherwise it is older, and may lack its address for another reason
				c.recordUnproven(ctx, e.Object.(*corev1.Node))
			}
			request(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e ctrlevent.UpdateEvent, q kube.Queue) { request(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e ctrlevent.DeleteEvent, q kube.Queue) {
			c.unprovenNodes.Delete(e.Object.GetUID())
			request(ctx, e.Object, q)
		},
	}
}

// recordUnproven records a new Node that is not proven to belong to the host whose name it has.
func (c *Controller) recordUnproven(ctx context.Context, node *corev1.Node) {
	var list v1alpha1.WindowsInstanceList
	if err := c.Client.List(ctx, &list, client.MatchingFields{HostnameIndex: node.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache is shutting down
	}
	isOwn := false
	for i := range list.Items {
		claim := nodestate.ClaimOf(&list.Items[i], node)
		isOwn = isOwn || claim == nodestate.Own || claim == nodestate.Unproven && node.Labels[api.LabelOSID] == "Windows"
	}
	if len(list.Items) > 0 && !isOwn {
		c.unprovenNodes.Store(node.UID, true)
	}
}

// setConflict sets that another machine has a Node of the host's name, and emits an event that names both.
func (c *Controller) setConflict(_ context.Context, p *pass) (time.Duration, error) {
	st := p.status.want()
	known := st.NodeConflict
	st.NodeConflict = nodestate.ReferenceTo(p.Conflict)
	if p.Conflict == nil || known != nil && known.UID == p.Conflict.UID {
		return 0, nil
	}
	since := ""
	if st.IdentitySince != nil {
		since = " since " + st.IdentitySince.UTC().Format("2006-01-02T15:04:05Z")
	}
	c.Events.Emit(kube.Event{Object: p.Conflict, Related: p.Instance, Type: corev1.EventTypeWarning, Reason: api.ReasonHostnameConflict, Action: "Compare"},
		"the host of WindowsInstance %s (%s) has held an identity of this name%s, which allows it to read data meant for this node and to write its status; "+
			"the operator no longer renews it: rename this machine, or replace the CA of the kubelets' certificates if you do not trust the host",
		p.Instance.Name, p.Instance.Spec.Address, since)
	return 0, nil
}
