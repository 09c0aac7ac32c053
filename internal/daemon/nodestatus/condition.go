package nodestatus

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/nodestate"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// Condition is a condition that is True while there is a problem. A Node has none until the first one.
type Condition struct {
	Type corev1.NodeConditionType
	// Works is its reason while there is no problem, and Message its message.
	Works, Message string
}

// become is what the condition should become with a problem, or with none, whose Reason is empty. is is nil when the node has none.
func (c Condition) become(now time.Time, p Problem, is *corev1.NodeCondition) (next corev1.NodeCondition, change bool) {
	next = corev1.NodeCondition{
		Type: c.Type, Status: corev1.ConditionFalse, Reason: c.Works, Message: c.Message,
		LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
	}
	if p.Reason != "" {
		next.Status, next.Reason, next.Message = corev1.ConditionTrue, p.Reason, shorten.Text(p.Message, shorten.Note)
	}
	if is == nil {
		return next, p.Reason != ""
	}
	if is.Status == next.Status {
		next.LastTransitionTime = is.LastTransitionTime
	}
	return next, is.Status != next.Status || is.Reason != next.Reason || is.Message != next.Message
}

// ReportProblem reports a problem by a condition of the node and once, when it begins, by an event; or that there is none, with a
// problem without a Reason.
func (w *Writer) ReportProblem(ctx context.Context, node *corev1.Node, c Condition, p Problem) error {
	is := nodestate.Condition(node, c.Type)
	next, change := c.become(time.Now(), p, is)
	if !change {
		return nil
	}
	begins := next.Status == corev1.ConditionTrue && (is == nil || is.Status != corev1.ConditionTrue)
	if begins { // before the condition, which would say that it was told
		p.Message = next.Message
		if err := w.CreateEvents(ctx, node, []Problem{p}); err != nil {
			return err
		}
	}
	return w.SetCondition(ctx, node, next)
}

// KeepCondition sets a condition of the node that has no times yet, unless the node has it so.
func (w *Writer) KeepCondition(ctx context.Context, node *corev1.Node, next corev1.NodeCondition) error {
	now := metav1.NewTime(time.Now())
	next.LastHeartbeatTime, next.LastTransitionTime = now, now
	if is := nodestate.Condition(node, next.Type); is != nil && is.Status == next.Status {
		if is.Reason == next.Reason && is.Message == next.Message {
			return nil
		}
		next.LastTransitionTime = is.LastTransitionTime
	}
	return w.SetCondition(ctx, node, next)
}
