//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/windows-machine-config/wmco/api"
)

const (
	group = "conformance.windowsmachineconfig.openshift.io"
	// linuxTaint keeps pods of the tests off Linux nodes during a run.
	linuxTaint = group + "/only-windows"
	// taintsBefore is the annotation with the taints of a node before the run.
	taintsBefore = group + "/taints-before"
	controlPlane = "node-role.kubernetes.io/control-plane"
	// nonBlockingTaints are the taints of nodes for which the suite does not wait.
	nonBlockingTaints = controlPlane + "," + linuxTaint
	taintTimeout      = time.Minute
)

// placement returns the taints of a node during a run. Pods of the tests neither tolerate the taint of Windows nodes nor select
// Windows nodes.
func placement(n *corev1.Node) []corev1.Taint {
	if n.Labels[corev1.LabelOSStable] == string(corev1.Windows) {
		return slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool {
			return t.Key == api.TaintKey || t.Key == linuxTaint
		})
	}
	repelsPods := func(t corev1.Taint) bool { return t.Key == controlPlane || t.Key == linuxTaint }
	if slices.ContainsFunc(n.Spec.Taints, repelsPods) {
		return n.Spec.Taints
	}
	return append(slices.Clone(n.Spec.Taints), corev1.Taint{Key: linuxTaint, Effect: corev1.TaintEffectNoSchedule})
}

// placePods changes the taints of all nodes for a run. It stores the original taints in an annotation, so that the next run can
// restore them if a run is killed.
func placePods(ctx context.Context, clients kubernetes.Interface) error {
	return eachNode(ctx, clients, func(n *corev1.Node) ([]byte, error) {
		want := placement(n)
		if _, stored := n.Annotations[taintsBefore]; stored && slices.Equal(want, n.Spec.Taints) {
			return nil, nil
		}
		patch := map[string]any{"spec": map[string]any{"taints": want}}
		if _, stored := n.Annotations[taintsBefore]; !stored {
			original, err := json.Marshal(n.Spec.Taints)
			if err != nil {
				return nil, err
			}
			patch["metadata"] = map[string]any{"annotations": map[string]string{taintsBefore: string(original)}}
		}
		return json.Marshal(patch)
	})
}

// restoreTaints undoes placePods.
func restoreTaints(ctx context.Context, clients kubernetes.Interface) error {
	return eachNode(ctx, clients, func(n *corev1.Node) ([]byte, error) {
		text, stored := n.Annotations[taintsBefore]
		if !stored {
			return nil, nil
		}
		var original []corev1.Taint
		if err := json.Unmarshal([]byte(text), &original); err != nil {
			return nil, fmt.Errorf("reading annotation %s: %w", taintsBefore, err)
		}
		return json.Marshal(map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{taintsBefore: nil}}, "spec": map[string]any{"taints": original},
		})
	})
}

// eachNode patches each node for which patchOf returns a patch.
func eachNode(ctx context.Context, clients kubernetes.Interface, patchOf func(*corev1.Node) ([]byte, error)) error {
	ctx, cancel := context.WithTimeout(ctx, taintTimeout)
	defer cancel()
	nodes, err := clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the nodes: %w", err)
	}
	var failed error
	for i := range nodes.Items {
		n := &nodes.Items[i]
		patch, err := patchOf(n)
		if err == nil && patch != nil {
			_, err = clients.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("changing the taints of node %s: %w", n.Name, err))
		}
	}
	return failed
}
