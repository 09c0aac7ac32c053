package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// Merge merges maps; the last one wins.
func Merge(all ...map[string]string) map[string]string {
	result := map[string]string{}
	for _, m := range all {
		maps.Copy(result, m)
	}
	return result
}

// WindowsNodes returns the Windows nodes from the cache. Callers must not modify them.
func WindowsNodes(ctx context.Context, reader client.Reader) ([]corev1.Node, error) {
	var list corev1.NodeList
	if err := reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(n corev1.Node) bool { return !nodestate.IsWindows(&n) }), nil
}
