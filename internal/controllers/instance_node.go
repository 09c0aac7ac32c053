package controllers

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/remote"
)

// adorn keeps the labels and annotations that are the operator's on the Node, and leaves all others alone.
func (c *instances) adorn(ctx context.Context, v *view) error {
	if v.Node == nil {
		return nil
	}
	node := v.Node.DeepCopy()
	node.Labels = merged(node.Labels, v.Instance.Spec.NodeLabels, map[string]string{api.LabelWorker: ""})
	if _, isMachine := v.Instance.Annotations[api.AnnotationMachine]; !isMachine {
		node.Labels[api.LabelBYOH] = "true"
	}
	node.Annotations = merged(node.Annotations, nodeAnnotations(v))
	if equality.Semantic.DeepEqual(v.Node.ObjectMeta, node.ObjectMeta) {
		return nil
	}
	err := client.IgnoreNotFound(c.client.Patch(ctx, node, client.MergeFrom(v.Node)))
	switch {
	case apierrors.IsForbidden(err):
		c.tellForeign(v, "Label", err)
	case err != nil:
		return fmt.Errorf("labelling Node %s: %w", node.Name, err)
	}
	return nil
}

func nodeAnnotations(v *view) map[string]string {
	annotations := map[string]string{}
	if v.Node.Annotations[api.AnnotationDesiredVersion] == "" {
		annotations[api.AnnotationDesiredVersion] = v.Version // a node of another version goes to it when it is its turn
	}
	if _, proven := v.Node.Annotations[api.AnnotationPubKeyHash]; v.key != nil && (v.keyProven || !proven) {
		annotations[api.AnnotationPubKeyHash] = publicKeyHash(v.key)
	}
	if key, err := remote.ParseHostKey(v.Instance.Status.HostKey); err == nil {
		annotations[api.AnnotationSSHHostKey] = base64.StdEncoding.EncodeToString(key.Marshal())
		annotations[api.AnnotationSSHHostKeyType] = key.Type()
	}
	return annotations
}

// wish tells a Node that is there already which version it shall have, before the join makes the host so: else its daemon
// would go back.
func (a *attempt) wish(ctx context.Context) error {
	was, err := a.node(ctx, a.client, a.view.Instance)
	if err != nil || was == nil || was.Annotations[api.AnnotationDesiredVersion] == a.view.Version {
		return err
	}
	node := was.DeepCopy()
	node.Annotations = merged(node.Annotations, map[string]string{api.AnnotationDesiredVersion: a.view.Version})
	if err := client.IgnoreNotFound(a.client.Patch(ctx, node, client.MergeFrom(was))); err != nil {
		return fmt.Errorf("annotating Node %s: %w", node.Name, err)
	}
	return nil
}

func publicKeyHash(key ssh.Signer) string {
	sum := sha256.Sum256([]byte(authorizedLine(key)))
	return hex.EncodeToString(sum[:])
}

// merged returns the maps laid over each other; the last one wins.
func merged(all ...map[string]string) map[string]string {
	result := map[string]string{}
	for _, m := range all {
		maps.Copy(result, m)
	}
	return result
}

// isWindows says whether a Node is a Windows node, as deploy/admission.yaml sees it: by its label, which its kubelet may change, or by what the
// kubelet says of its system.
func isWindows(node *corev1.Node) bool {
	return node.Labels[corev1.LabelOSStable] == "windows" || node.Status.NodeInfo.OperatingSystem == "windows"
}

// windowsNodes are the Windows nodes, as the cache has them: they must not be changed.
func (c common) windowsNodes(ctx context.Context) ([]corev1.Node, error) {
	var list corev1.NodeList
	if err := c.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(n corev1.Node) bool { return !isWindows(&n) }), nil
}

// tellForeign tells of a Node that the operator may not change, or not delete: it says of itself that it is no Windows node, or somebody
// else's admission forbids it. The host goes on as it is.
func (c common) tellForeign(v *view, doing string, err error) {
	c.tell(event{about: v.Instance, related: v.Node, kind: corev1.EventTypeWarning, reason: api.ReasonNodeNotWindows, action: doing},
		"%v; Node %s has label %s=%s and status.nodeInfo.operatingSystem %q", err, v.Node.Name, corev1.LabelOSStable, api.Clip(v.Node.Labels[corev1.LabelOSStable]),
		api.Clip(v.Node.Status.NodeInfo.OperatingSystem))
}
