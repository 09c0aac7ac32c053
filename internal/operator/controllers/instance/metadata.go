package instance

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/settings"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/sshkey"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// syncNodeMetadata sets the operator's labels, annotations and taint value on the Node and leaves all others alone.
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
	labelImages(node)
	labelCapability(node, api.ConditionGMSACapable, api.LabelGMSA)
	labelCapability(node, api.ConditionHyperVCapable, api.LabelHyperV)
	node.Annotations = kube.Merge(node.Annotations, nodeAnnotations(v))
	patch := client.MergeFrom(v.Node)
	taints, tainted := desired.Taints(node.Spec.Taints, v.config.Taint)
	if join.ImagesWait(node, v.config.Images, time.Now()) == 0 {
		kept := slices.DeleteFunc(slices.Clone(taints), nodestate.IsForImages)
		taints, tainted = kept, tainted || len(kept) < len(taints)
	}
	if tainted {
		node.Spec.Taints = taints
		// The patch contains the whole list: concurrent changes of it must not be lost.
		patch = client.MergeFromWithOptions(v.Node, client.MergeFromWithOptimisticLock{})
	}
	if !tainted && equality.Semantic.DeepEqual(v.Node.ObjectMeta, node.ObjectMeta) {
		return proceed, nil
	}
	err := client.IgnoreNotFound(c.Client.Patch(ctx, node, patch))
	switch {
	case apierrors.IsForbidden(err):
		c.emitForeignNode(v, "Label", err)
	case err != nil:
		return proceed, fmt.Errorf("labeling Node %s: %w", node.Name, err)
	}
	return proceed, nil
}

// labelImages labels a Node with the images that it can run. They depend on its Windows build, which changes with an in-place upgrade.
func labelImages(node *corev1.Node) {
	build := nodestate.WindowsBuild(node)
	if build == 0 {
		return // the kubelet has not reported it yet
	}
	for _, r := range windowsbuild.Releases() {
		if windowsbuild.Runs(build, r.Build) {
			node.Labels[api.LabelRunsPrefix+r.Class] = "true"
		} else {
			delete(node.Labels, api.LabelRunsPrefix+r.Class)
		}
	}
}

// labelCapability mirrors a condition that WICD reports in a label of the Node, by which pods that need the capability can select it.
func labelCapability(node *corev1.Node, condition corev1.NodeConditionType, label string) {
	switch c := nodestate.Condition(node, condition); {
	case c == nil:
	case c.Status == corev1.ConditionTrue:
		node.Labels[label] = "true"
	default:
		delete(node.Labels, label)
	}
}

func nodeAnnotations(v *view) map[string]string {
	annotations := map[string]string{}
	// A Node without a desired version keeps its current one until the plan upgrades it.
	if own := v.Node.Annotations[api.AnnotationVersion]; v.Node.Annotations[api.AnnotationDesiredVersion] == "" && settings.IsVersion(own) {
		annotations[api.AnnotationDesiredVersion] = own
	}
	if v.keyProven {
		annotations[api.AnnotationPubKeyHash] = sshkey.Hash(v.key)
	}
	if key, err := remote.ParseHostKey(v.Instance.Status.HostKey); err == nil {
		annotations[api.AnnotationSSHHostKey] = base64.StdEncoding.EncodeToString(key.Marshal())
		annotations[api.AnnotationSSHHostKeyType] = key.Type()
	}
	return annotations
}
