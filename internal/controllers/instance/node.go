package instance

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/kube"
	"github.com/windows-machine-config/wmco/internal/rollout"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// announcement tells a Node which version it is to have, in its annotations, and orders that it goes there.
func (c *Controller) announcement(ctx context.Context, node *corev1.Node, version string) (map[string]string, error) {
	order, err := c.Store.OrderVersion(ctx, node, version)
	if err != nil {
		return nil, fmt.Errorf("ordering version %s of Node %s: %w", version, node.Name, err)
	}
	return map[string]string{api.AnnotationDesiredVersion: version, api.AnnotationVersionOrder: order}, nil
}

// announceVersion tells a Node that is there already which version it is to have, before the join makes the host so: else its daemon
// would go back.
func (a *attempt) announceVersion(ctx context.Context) error {
	was, _, err := a.node(ctx, a.Client, a.view.Instance)
	if err != nil || was == nil {
		return err
	}
	says, err := a.announcement(ctx, was, a.view.Version)
	if err != nil {
		return err
	}
	node := was.DeepCopy()
	node.Annotations = kube.Merge(node.Annotations, says)
	if maps.Equal(node.Annotations, was.Annotations) {
		return nil
	}
	if err := client.IgnoreNotFound(a.Client.Patch(ctx, node, client.MergeFrom(was))); err != nil {
		return fmt.Errorf("annotating Node %s: %w", node.Name, err)
	}
	return nil
}

// emitForeignNode tells of a Node that the operator may not change, or not delete: it says of itself that it is no Windows node, or somebody
// else's admission forbids it. The host goes on as it is.
func (c *Controller) emitForeignNode(v *view, doing string, err error) {
	c.Events.Emit(kube.Event{Object: v.Instance, Related: v.Node, Type: corev1.EventTypeWarning, Reason: api.ReasonNodeNotWindows, Action: doing},
		"%v; Node %s has label %s=%s and status.nodeInfo.operatingSystem %q", err, v.Node.Name, corev1.LabelOSStable, shorten.Text(v.Node.Labels[corev1.LabelOSStable], shorten.Reported),
		shorten.Text(v.Node.Status.NodeInfo.OperatingSystem, shorten.Reported))
}

// cordon keeps new pods away, unless somebody else does already. The mark says that it was us.
func (m *maintenance) cordon(ctx context.Context) error {
	if m.view.Node.Spec.Unschedulable {
		return nil
	}
	return m.patchNode(ctx, "cordoning", func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Annotations = kube.Merge(n.Annotations, map[string]string{api.AnnotationCordoned: string(m.current().Action)})
	})
}

// uncordon takes our mark off, and the cordon if it is ours; and what asked for the restart, if nobody asked again since.
func (m *maintenance) uncordon(ctx context.Context, asked string) error {
	if m.view.Node == nil {
		return nil
	}
	return m.patchNode(ctx, "uncordoning", func(n *corev1.Node) {
		n.Annotations = maps.Clone(n.Annotations)
		if _, ours := n.Annotations[api.AnnotationCordoned]; ours {
			n.Spec.Unschedulable = false
			delete(n.Annotations, api.AnnotationCordoned)
		}
		if asked != "" && rollout.NodeOf(n).RebootAsked == asked {
			delete(n.Annotations, api.AnnotationReboot)
		}
	})
}

// announceVersion tells the node which version it is to have.
func (m *maintenance) announceVersion(ctx context.Context, version string) error {
	if m.view.Node == nil {
		return errors.New("the Node is not there")
	}
	says, err := m.announcement(ctx, m.view.Node, version)
	if err != nil {
		return err
	}
	return m.patchNode(ctx, "annotating", func(n *corev1.Node) { n.Annotations = kube.Merge(n.Annotations, says) })
}

// patchNode changes the Node as it was read from the API server; where somebody else changed it since, it fails and is tried
// again with what they wrote. No difference, no write.
func (m *maintenance) patchNode(ctx context.Context, doing string, change func(*corev1.Node)) error {
	was := m.view.Node
	node := was.DeepCopy()
	change(node)
	if node.Spec.Unschedulable == was.Spec.Unschedulable && maps.Equal(node.Annotations, was.Annotations) {
		return nil
	}
	err := m.Client.Patch(ctx, node, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("%s Node %s: %w", doing, node.Name, err)
	}
	m.view.Node = node
	return nil
}
