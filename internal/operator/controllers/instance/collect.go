package instance

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/supportbundle"
)

// syncCollectRequest copies the request for a collection from the instance to the Node, so that permission to write WindowsInstances decides who may
// request one. A failure does not stop the other steps.
func (c *Controller) syncCollectRequest(ctx context.Context, p *pass) (outcome, error) {
	v := p.view
	if v.Node == nil {
		return proceed, nil
	}
	requested := v.Instance.Annotations[api.AnnotationCollect]
	if requested != "" {
		if err := supportbundle.CheckID(requested); err != nil {
			c.Events.Emit(kube.Event{Object: v.Instance, Type: corev1.EventTypeWarning, Reason: api.EventCollectRefused, Action: "Collect"},
				"WindowsInstance %q: annotation %s: %v", v.Instance.Name, api.AnnotationCollect, err)
			requested = ""
		}
	}
	current, found := v.Node.Annotations[api.AnnotationCollect]
	if current == requested && found == (requested != "") {
		return proceed, nil
	}
	node := v.Node.DeepCopy()
	if delete(node.Annotations, api.AnnotationCollect); requested != "" {
		node.Annotations = kube.Merge(node.Annotations, map[string]string{api.AnnotationCollect: requested})
	}
	if err := client.IgnoreNotFound(c.Client.Patch(ctx, node, client.MergeFrom(v.Node))); err != nil {
		c.Events.Emit(kube.Event{Object: v.Instance, Related: v.Node, Type: corev1.EventTypeWarning, Reason: api.EventCollectRefused, Action: "Collect"},
			"annotating Node %s: %v", node.Name, err)
		return proceed, nil
	}
	v.Node = node
	return proceed, nil
}
