package nodestatus

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Condition is a condition that is True while there is a problem. A Node has no such condition until the first problem.
type Condition struct {
	Type corev1.NodeConditionType
	// OKReason and OKMessage are its reason and message while there is no problem.
	OKReason, OKMessage string
}

// ReportProblem reports a problem as a condition of the Node and, when it begins, as one event. A Problem without a Reason means that there is no
// problem.
func (w *Writer) ReportProblem(ctx context.Context, node *corev1.Node, c Condition, p Problem) error {
	current := nodestate.Condition(node, c.Type)
	if p.Reason == "" {
		if current == nil {
			return nil
		}
		return w.SetCondition(ctx, node, corev1.NodeCondition{Type: c.Type, Status: corev1.ConditionFalse, Reason: c.OKReason, Message: c.OKMessage})
	}
	p.Message = truncate.Text(w.masked(p.Message), truncate.Note)
	var begins []Problem
	if current == nil || current.Status != corev1.ConditionTrue {
		begins = append(begins, p)
	}
	return w.SetCondition(ctx, node, corev1.NodeCondition{Type: c.Type, Status: corev1.ConditionTrue, Reason: p.Reason, Message: p.Message}, begins...)
}

// SetCondition sets a condition of the Node with its times, unless the Node already has it. It first creates an event for each problem, because the
// condition marks them as reported.
func (w *Writer) SetCondition(ctx context.Context, node *corev1.Node, next corev1.NodeCondition, problems ...Problem) error {
	now := metav1.NewTime(time.Now())
	next.LastHeartbeatTime, next.LastTransitionTime = now, now
	next.Message = w.masked(next.Message) // before the comparison with the masked message on the Node
	if current := nodestate.Condition(node, next.Type); current != nil && current.Status == next.Status {
		if current.Reason == next.Reason && current.Message == next.Message {
			return nil
		}
		next.LastTransitionTime = current.LastTransitionTime
	}
	if err := w.CreateEvents(ctx, node, problems); err != nil {
		return err
	}
	current, err := w.client.SetCondition(ctx, node.Name, next)
	if err != nil {
		return err
	}
	w.memory.node = current
	w.RecordChange("condition %s is %s, %s", next.Type, next.Status, next.Reason)
	return nil
}
