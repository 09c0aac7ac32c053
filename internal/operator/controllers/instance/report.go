package instance

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// report writes the result of the pass into the status and returns when to reconcile again.
func (c *Controller) report(ctx context.Context, p *pass) (reconcile.Result, error) {
	v, s, d, attempted := p.view, p.status, p.decision, p.attempted
	i, st := v.Instance, s.desired()
	if attempted && ctx.Err() != nil {
		return reconcile.Result{}, nil // the operator is stopping: nothing was learned about the host
	}
	after := d.After
	if attempted {
		after = c.outcome(ctx, i, d.Err)
	}
	if d.Err != nil || attempted {
		join.Report(st, i.Generation, attempted, d.Err)
	}
	st.ObservedGeneration = i.Generation
	settles, err := c.settle(ctx, v, st)
	if err != nil {
		return reconcile.Result{}, err
	}
	c.reportPlan(v, st)
	after = kube.Sooner(after, settles, c.reportReboot(v, st))
	c.reportPayload(v, st)
	c.noteConflict(v, st)
	after = kube.Sooner(after, join.Observe(st, i.Generation, v.Node, v.Version, time.Now()))
	ready := meta.IsStatusConditionTrue(st.Conditions, api.ConditionNodeReady)
	for _, p := range join.TrackNode(st, v.Node, ready) {
		s.track(p)
	}
	return reconcile.Result{RequeueAfter: after}, s.write(ctx)
}

// reportPlan writes the planned action, clears what no longer applies, and records a failed version.
func (c *Controller) reportPlan(v *view, st *v1alpha1.WindowsInstanceStatus) {
	st.Plan = c.planOf(v)
	if f := st.Failure; f != nil && f.Action == v1alpha1.ActionUpgrade && f.Version != v.Version && st.Maintenance == nil {
		st.Failure = nil // that version is no longer desired
	}
	if _, broken := v.BrokenSince(); !broken && v.Node != nil {
		if st.Failure != nil && st.Failure.Action == v1alpha1.ActionRepair {
			st.Failure = nil
		}
		if stalled := meta.FindStatusCondition(st.Conditions, api.ConditionStalled); stalled != nil && stalled.Reason == api.ReasonRepairFailed {
			meta.RemoveStatusCondition(&st.Conditions, api.ConditionStalled)
		}
	}
	if st.Maintenance == nil || st.Maintenance.Step != v1alpha1.MaintenanceDrain {
		meta.RemoveStatusCondition(&st.Conditions, api.ConditionDraining)
	}
	if reason := c.Fleet.Sick(client.ObjectKeyFromObject(v.Instance)); reason != "" && st.Maintenance == nil && (st.Failure == nil || st.Failure.Action != v1alpha1.ActionUpgrade) {
		noteFailure(st, v1alpha1.Failure{Action: v1alpha1.ActionUpgrade, Version: v.Version, Step: v1alpha1.MaintenanceVerify, Message: reason})
		c.Events.Emit(kube.Event{Object: v.Instance, Type: corev1.EventTypeWarning, Reason: api.EventMaintenanceFailed, Action: string(v1alpha1.ActionUpgrade)},
			"version %s does not work on this node, so no other node gets it: %s", v.Version, reason)
	}
}

// planOf returns the fleet's plan for a host, or what it will be in a moment: the plan does not yet include a host that has just been announced or
// joined.
func (c *Controller) planOf(v *view) *v1alpha1.Plan {
	next := c.Fleet.Next(client.ObjectKeyFromObject(v.Instance)).Plan
	joined := rollout.HostOf(v.Instance, v.Node).Joined
	switch {
	case next.Action == "" && !joined && v.Instance.DeletionTimestamp == nil:
		next = rollout.JoinPlan()
	case next.Action == "", next.Action == v1alpha1.ActionJoin && joined:
		return nil
	}
	return &next
}

// reportPayload writes which content the node has, which it should have, and since when.
func (c *Controller) reportPayload(v *view, st *v1alpha1.WindowsInstanceStatus) {
	st.Payload.Desired = desired.ShortDigest(v.release.Content.Digest)
	if v.Node == nil || v.Node.Annotations[api.AnnotationVersion] != v.Version || st.Payload.Current == st.Payload.Desired {
		return
	}
	now := metav1.Now()
	st.Payload.Current, st.Payload.Staged, st.Payload.Since = st.Payload.Desired, st.Payload.Desired, &now
}

// outcome counts an attempt and returns when the next one may follow.
func (c *Controller) outcome(ctx context.Context, i *v1alpha1.WindowsInstance, err error) time.Duration {
	id := client.ObjectKeyFromObject(i)
	if err == nil {
		c.retries.Reset(id)
		c.metrics.joins.WithLabelValues("configured", api.ReasonConfigured).Inc()
		return join.RegisterTimeout
	}
	if after, waits := join.Retry(err); waits {
		if r := (*join.Rebooting)(nil); errors.As(err, &r) && !r.Awaited { // a host that restarts in each join gets a token each time
			after = max(after, c.retries.Fail(id, time.Now()))
		}
		c.metrics.joins.WithLabelValues("waiting", join.Reason(err)).Inc()
		return after
	}
	after := c.retries.Fail(id, time.Now())
	c.metrics.joins.WithLabelValues("failed", join.Reason(err)).Inc()
	log.FromContext(ctx).Info("Join failed, will be retried", "reason", join.Reason(err), "retryAfter", after.String(), "error", errors.Unwrap(err))
	return after
}
