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
	// Works is its reason while there is no problem, and Message its message.
	Works, Message string
}

// ReportProblem reports a problem by a condition of the Node and, when it begins, by one event. A problem without a Reason means that there
// is none.
func (w *Writer) ReportProblem(ctx context.Context, node *corev1.Node, c Condition, p Problem) error {
	current := nodestate.Condition(node, c.Type)
	if p.Reason == "" {
		if current == nil {
			return nil
		}
		return w.KeepCondition(ctx, node, corev1.NodeCondition{Type: c.Type, Status: corev1.ConditionFalse, Reason: c.Works, Message: c.Message})
	}
	p.Message = truncate.Text(w.masked(p.Message), truncate.Note)
	if current == nil || current.Status != corev1.ConditionTrue { // before the condition, which marks the event as created
		if err := w.CreateEvents(ctx, node, []Problem{p}); err != nil {
			return err
		}
	}
	return w.KeepCondition(ctx, node, corev1.NodeCondition{Type: c.Type, Status: corev1.ConditionTrue, Reason: p.Reason, Message: p.Message})
}

// KeepCondition sets a condition that has no times yet, unless the Node already has it.
func (w *Writer) KeepCondition(ctx context.Context, node *corev1.Node, next corev1.NodeCondition) error {
	now := metav1.NewTime(time.Now())
	next.LastHeartbeatTime, next.LastTransitionTime = now, now
	next.Message = w.masked(next.Message) // before the comparison with the masked message on the Node
	if current := nodestate.Condition(node, next.Type); current != nil && current.Status == next.Status {
		if current.Reason == next.Reason && current.Message == next.Message {
			return nil
		}
		next.LastTransitionTime = current.LastTransitionTime
	}
	return w.SetCondition(ctx, node, next)
}
