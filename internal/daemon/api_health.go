package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
)

// setCondition sets a condition of the node, and touches nothing else of it: a strategic merge patch tells conditions by
// their type, so that the kubelet's are not its matter. It returns the node as it then is.
func (a *apiClient) setCondition(ctx context.Context, node string, c corev1.NodeCondition) (*corev1.Node, error) {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{c}}})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var is corev1.Node
	err = a.core.Patch(types.StrategicMergePatchType).Resource("nodes").Name(node).SubResource("status").Body(patch).Do(ctx).Into(&is)
	if err != nil {
		return nil, fmt.Errorf("setting condition %s of node %s: %w", c.Type, node, err)
	}
	return &is, nil
}

// createEvent tells of a trouble on the node. Telling it twice is telling it once: its name is that of its time. Events of
// what has no namespace are in namespace default.
func (a *apiClient) createEvent(ctx context.Context, node *corev1.Node, t trouble) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := a.events.Post().Namespace(metav1.NamespaceDefault).Resource("events").Body(&eventsv1.Event{
		TypeMeta:            metav1.TypeMeta{APIVersion: eventsv1.SchemeGroupVersion.String(), Kind: "Event"},
		ObjectMeta:          metav1.ObjectMeta{Name: eventName(node.Name, t), Namespace: metav1.NamespaceDefault},
		EventTime:           metav1.NewMicroTime(t.since),
		ReportingController: api.WICDService, ReportingInstance: node.Name,
		Action: "KeepServices", Reason: t.reason, Type: corev1.EventTypeWarning, Note: t.message,
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
	}).Do(ctx).Error()
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating an event of node %s: %w", node.Name, err)
	}
	return nil
}

// eventName is the name of an event, in which Kubernetes allows fewer characters than Windows in the name of a service.
func eventName(node string, t trouble) string {
	service := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(t.service))
	return fmt.Sprintf("%s.service-%s.%x", node, strings.Trim(service, "-"), t.since.UnixNano())
}
