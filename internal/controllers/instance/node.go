package instance

import (
	"context"
	"encoding/base64"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/controllers/sshkey"
	"github.com/windows-machine-config/wmco/internal/kube"
	"github.com/windows-machine-config/wmco/internal/remote"
)

// syncNodeMetadata keeps the labels and annotations that are the operator's on the Node, and leaves all others alone.
func (c *Controller) syncNodeMetadata(ctx context.Context, p *pass) (outcome, error) {
	v := p.view
	if v.Node == nil {
		return proceed, nil
	}
	node := v.Node.DeepCopy()
	node.Labels = kube.Merge(node.Labels, v.Instance.Spec.NodeLabels, map[string]string{api.LabelWorker: ""})
	if _, isMachine := v.Instance.Annotations[api.AnnotationMachine]; !isMachine {
		node.Labels[api.LabelBYOH] = "true"
	}
	node.Annotations = kube.Merge(node.Annotations, nodeAnnotations(v))
	if equality.Semantic.DeepEqual(v.Node.ObjectMeta, node.ObjectMeta) {
		return proceed, nil
	}
	err := client.IgnoreNotFound(c.Client.Patch(ctx, node, client.MergeFrom(v.Node)))
	switch {
	case apierrors.IsForbidden(err):
		c.emitForeignNode(v, "Label", err)
	case err != nil:
		return proceed, fmt.Errorf("labelling Node %s: %w", node.Name, err)
	}
	return proceed, nil
}

func nodeAnnotations(v *view) map[string]string {
	annotations := map[string]string{}
	if v.Node.Annotations[api.AnnotationDesiredVersion] == "" {
		annotations[api.AnnotationDesiredVersion] = v.Version // a node of another version goes to it when it is its turn
	}
	if _, proven := v.Node.Annotations[api.AnnotationPubKeyHash]; v.key != nil && (v.keyProven || !proven) {
		annotations[api.AnnotationPubKeyHash] = sshkey.Hash(v.key)
	}
	if key, err := remote.ParseHostKey(v.Instance.Status.HostKey); err == nil {
		annotations[api.AnnotationSSHHostKey] = base64.StdEncoding.EncodeToString(key.Marshal())
		annotations[api.AnnotationSSHHostKeyType] = key.Type()
	}
	return annotations
}

// setDesiredVersion says in a Node which version it is to have.
func setDesiredVersion(n *corev1.Node, version string) {
	n.Annotations = kube.Merge(n.Annotations, map[string]string{api.AnnotationDesiredVersion: version})
}

// announceVersion tells a Node that is there already which version it is to have, before the join makes the host so: else its daemon
// would go back.
func (a *attempt) announceVersion(ctx context.Context) error {
	was, err := a.node(ctx, a.Client, a.view.Instance)
	if err != nil || was == nil || was.Annotations[api.AnnotationDesiredVersion] == a.view.Version {
		return err
	}
	node := was.DeepCopy()
	setDesiredVersion(node, a.view.Version)
	if err := client.IgnoreNotFound(a.Client.Patch(ctx, node, client.MergeFrom(was))); err != nil {
		return fmt.Errorf("annotating Node %s: %w", node.Name, err)
	}
	return nil
}

// emitForeignNode tells of a Node that the operator may not change, or not delete: it says of itself that it is no Windows node, or somebody
// else's admission forbids it. The host goes on as it is.
func (c *Controller) emitForeignNode(v *view, doing string, err error) {
	c.Events.Emit(kube.Event{Object: v.Instance, Related: v.Node, Type: corev1.EventTypeWarning, Reason: api.ReasonNodeNotWindows, Action: doing},
		"%v; Node %s has label %s=%s and status.nodeInfo.operatingSystem %q", err, v.Node.Name, corev1.LabelOSStable, api.Clip(v.Node.Labels[corev1.LabelOSStable]),
		api.Clip(v.Node.Status.NodeInfo.OperatingSystem))
}
