package instance

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// announcement returns the annotations that give a Node its desired version, with the signed order to go there.
func (c *Controller) announcement(ctx context.Context, node *corev1.Node, version string) (map[string]string, error) {
	order, err := c.Store.OrderVersion(ctx, node, version)
	if err != nil {
		return nil, fmt.Errorf("signing the order for version %s on Node %s: %w", version, node.Name, err)
	}
	return map[string]string{api.AnnotationDesiredVersion: version, api.AnnotationVersionOrder: order}, nil
}

// announceVersion sets the desired version of an existing Node before the join brings the host to it; otherwise, WICD would go back to the former
// version.
func (a *attempt) announceVersion(ctx context.Context) error {
	previous, _, err := a.node(ctx, a.Client, a.view.Instance)
	if err != nil || previous == nil {
		return err
	}
	annotations, err := a.announcement(ctx, previous, a.view.Version)
	if err != nil {
		return err
	}
	node := previous.DeepCopy()
	node.Annotations = kube.Merge(node.Annotations, annotations)
	if maps.Equal(node.Annotations, previous.Annotations) {
		return nil
	}
	if err := client.IgnoreNotFound(a.Client.Patch(ctx, node, client.MergeFrom(previous))); err != nil {
		return fmt.Errorf("annotating Node %s: %w", node.Name, err)
	}
	return nil
}

// emitForeignNode records an event for a Node that the operator may not change or delete: it claims not to be a Windows node, or a foreign admission
// policy forbids it. The host stays as it is.
func (c *Controller) emitForeignNode(v *view, doing string, err error) {
	c.Events.Emit(kube.Event{Object: v.Instance, Related: v.Node, Type: corev1.EventTypeWarning, Reason: api.ReasonNodeNotWindows, Action: doing},
		"%v; Node %s has label %s=%s and status.nodeInfo.operatingSystem %q", err, v.Node.Name, corev1.LabelOSStable, truncate.Text(v.Node.Labels[corev1.LabelOSStable], truncate.Reported),
		truncate.Text(v.Node.Status.NodeInfo.OperatingSystem, truncate.Reported))
}

// cordon makes the node unschedulable, unless it already is, and marks the cordon as the operator's.
func (m *maintenance) cordon(ctx context.Context) error {
	if m.view.Node.Spec.Unschedulable {
		return nil
	}
	return m.patchNode(ctx, "cordoning", func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Annotations = kube.Merge(n.Annotations, map[string]string{api.AnnotationCordoned: string(m.current().Action)})
	})
}

// uncordon removes the mark, the cordon if it is the operator's, and the request for the restart, unless another was made since.
func (m *maintenance) uncordon(ctx context.Context, requested string) error {
	if m.view.Node == nil {
		return nil
	}
	return m.patchNode(ctx, "uncordoning", func(n *corev1.Node) {
		n.Annotations = maps.Clone(n.Annotations)
		if _, isOwn := n.Annotations[api.AnnotationCordoned]; isOwn {
			n.Spec.Unschedulable = false
			delete(n.Annotations, api.AnnotationCordoned)
		}
		if requested != "" && rollout.NodeOf(n).RebootRequested == requested {
			delete(n.Annotations, api.AnnotationReboot)
		}
	})
}

func (m *maintenance) announceVersion(ctx context.Context, version string) error {
	if m.view.Node == nil {
		return errors.New("the Node does not exist")
	}
	annotations, err := m.announcement(ctx, m.view.Node, version)
	if err != nil {
		return err
	}
	return m.patchNode(ctx, "annotating", func(n *corev1.Node) { n.Annotations = kube.Merge(n.Annotations, annotations) })
}

// patchNode changes the Node as read from the API server. If the Node has changed since, it fails, and the retry reads it again. It does not write if
// nothing differs.
func (m *maintenance) patchNode(ctx context.Context, doing string, change func(*corev1.Node)) error {
	previous := m.view.Node
	node := previous.DeepCopy()
	change(node)
	if node.Spec.Unschedulable == previous.Spec.Unschedulable && maps.Equal(node.Annotations, previous.Annotations) {
		return nil
	}
	err := m.Client.Patch(ctx, node, client.MergeFromWithOptions(previous, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("%s Node %s: %w", doing, node.Name, err)
	}
	m.view.Node = node
	return nil
}
