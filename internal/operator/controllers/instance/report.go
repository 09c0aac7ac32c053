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

// setters returns the functions that set the parts of the status, in this order: later parts depend on earlier ones. Each returns the time after which
// its part changes without an event; 0 for never.
func (c *Controller) setters() []func(context.Context, *pass) (time.Duration, error) {
	return []func(context.Context, *pass) (time.Duration, error){
		c.setAttempt,        // the result of a join, or why there was none
		c.setSettled,        // whether the pods that left a drained node have been replaced
		c.setPlan,           // the next action
		c.clearFailure,      // removes failures that no longer apply
		c.setVersionFailure, // whether the version does not work on this node
		c.setReboot,         // whether and why Windows requires a restart
		c.setPayload,        // the content of the node
		c.setConflict,       // whether another machine has the name
		c.setNode,           // the state of the Node, and the summary in Ready
	}
}

// report writes the result of the pass into the status and returns when to reconcile again.
func (c *Controller) report(ctx context.Context, p *pass) (reconcile.Result, error) {
	if p.attempted && ctx.Err() != nil {
		return reconcile.Result{}, nil // the operator is stopping: nothing was learned about the host
	}
	var after time.Duration
	for _, set := range c.setters() {
		requeueAfter, err := set(ctx, p)
		if err != nil {
			return reconcile.Result{}, err
		}
		after = kube.Soonest(after, requeueAfter)
	}
	return reconcile.Result{RequeueAfter: after}, p.status.write(ctx)
}

func (c *Controller) setAttempt(ctx context.Context, p *pass) (time.Duration, error) {
	after, err := p.decision.After, p.decision.Err
	if p.attempted {
		after = c.countAttempt(ctx, p.Instance, err)
	}
	if err != nil || p.attempted {
		join.Report(p.status.want(), p.Instance.Generation, p.attempted, err)
	}
	p.status.want().ObservedGeneration = p.Instance.Generation
	return after, nil
}

func (c *Controller) setPlan(_ context.Context, p *pass) (time.Duration, error) {
	st := p.status.want()
	st.Plan = c.planOf(p.view)
	if st.Maintenance == nil || st.Maintenance.Step != v1alpha1.MaintenanceDrain {
		meta.RemoveStatusCondition(&st.Conditions, api.ConditionDraining)
	}
	return 0, nil
}

// clearFailure removes the failure of a version or a replacement that is no longer desired, and that of a repair once the node works.
func (c *Controller) clearFailure(_ context.Context, p *pass) (time.Duration, error) {
	st := p.status.want()
	if f := st.Failure; f != nil && f.Action == v1alpha1.ActionReplace && st.Maintenance == nil && isOwn(p.Instance) && p.Instance.Spec.ReplaceWith == "" {
		st.Failure = nil
	}
	if f := st.Failure; f != nil && f.Action == v1alpha1.ActionUpgrade && f.Version != p.Version && st.Maintenance == nil {
		st.Failure = nil
	}
	if _, broken := p.BrokenSince(); broken || p.Node == nil {
		return 0, nil
	}
	if st.Failure != nil && st.Failure.Action == v1alpha1.ActionRepair {
		st.Failure = nil
	}
	if stalled := meta.FindStatusCondition(st.Conditions, api.ConditionStalled); stalled != nil && stalled.Reason == api.ReasonRepairFailed {
		meta.RemoveStatusCondition(&st.Conditions, api.ConditionStalled)
	}
	return 0, nil
}

// setVersionFailure records that the version does not work on the node, according to the fleet.
func (c *Controller) setVersionFailure(_ context.Context, p *pass) (time.Duration, error) {
	st := p.status.want()
	reason := c.Fleet.Unhealthy(p.id)
	if reason == "" || st.Maintenance != nil || st.Failure != nil && st.Failure.Action == v1alpha1.ActionUpgrade {
		return 0, nil
	}
	recordFailure(st, v1alpha1.Failure{Action: v1alpha1.ActionUpgrade, Version: p.Version, Step: v1alpha1.MaintenanceVerify, Message: reason})
	c.Events.Emit(kube.Event{Object: p.Instance, Type: corev1.EventTypeWarning, Reason: api.EventMaintenanceFailed, Action: string(v1alpha1.ActionUpgrade)},
		"version %s does not work on this node, so no other node gets it: %s", p.Version, reason)
	return 0, nil
}

// setNode sets the conditions about the Node, the summary of all conditions, and the steps that the Node completes.
func (c *Controller) setNode(_ context.Context, p *pass) (time.Duration, error) {
	st := p.status.want()
	after := join.Observe(st, p.Instance.Generation, p.Node, p.Version, time.Now())
	if p.HasJoined() {
		st.BootstrapCredentialID = ""
	}
	if p.Node != nil {
		after = kube.Soonest(after, join.ImagesWait(p.Node, p.config.Images, time.Now()))
	}
	for _, moved := range join.TrackNode(st, p.Node, meta.IsStatusConditionTrue(st.Conditions, api.ConditionNodeReady)) {
		p.status.track(moved)
	}
	return after, nil
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

// setPayload sets which content the node has, which it should have, and since when.
func (c *Controller) setPayload(_ context.Context, p *pass) (time.Duration, error) {
	payload := &p.status.want().Payload
	payload.Desired = desired.ShortDigest(p.release.Content.Digest)
	if p.Node != nil && p.Node.Annotations[api.AnnotationVersion] == p.Version && payload.Current != payload.Desired {
		now := metav1.Now()
		payload.Current, payload.Staged, payload.Since = payload.Desired, payload.Desired, &now
	}
	return 0, nil
}

// countAttempt counts an attempt and returns when the next one may follow.
func (c *Controller) countAttempt(ctx context.Context, i *v1alpha1.WindowsInstance, err error) time.Duration {
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
