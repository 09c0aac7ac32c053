package apiclient

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// SetCondition sets a condition of the node and changes nothing else: a strategic merge patch merges conditions by type, so that the kubelet's
// stay. It returns the updated node.
func (a *Client) SetCondition(ctx context.Context, node string, c corev1.NodeCondition) (*corev1.Node, error) {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{c}}})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var current corev1.Node
	err = a.Core.Patch(types.StrategicMergePatchType).Resource("nodes").Name(node).SubResource("status").Body(patch).Do(ctx).Into(&current)
	if err != nil {
		return nil, fmt.Errorf("setting condition %s of node %s: %w", c.Type, node, err)
	}
	return &current, nil
}

// CreateEvent creates an event unless one with that name exists. Events of cluster-scoped objects are in namespace default.
func (a *Client) CreateEvent(ctx context.Context, e *eventsv1.Event) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := a.events.Post().Namespace(e.Namespace).Resource("events").Body(e).Do(ctx).Error()
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating an event of %s %s: %w", e.Regarding.Kind, e.Regarding.Name, err)
	}
	return nil
}
