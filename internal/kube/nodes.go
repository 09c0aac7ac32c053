package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/nodestate"
)

// Merge returns the maps laid over each other; the last one wins.
func Merge(all ...map[string]string) map[string]string {
	result := map[string]string{}
	for _, m := range all {
		maps.Copy(result, m)
	}
	return result
}

// WindowsNodes are the Windows nodes, as the cache has them: they must not be changed.
func WindowsNodes(ctx context.Context, reader client.Reader) ([]corev1.Node, error) {
	var list corev1.NodeList
	if err := reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(n corev1.Node) bool { return !nodestate.IsWindows(&n) }), nil
}
