package instance

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
)

// Time limits of steps, and the interval of checks without an event.
const (
	actTimeout     = 15 * time.Minute
	verifyTimeout  = 15 * time.Minute
	leaveTimeout   = time.Hour
	verifyInterval = 30 * time.Second
)

// maintenance is one action on a host that has joined: drain the node if pods must leave, act, verify, and return the node to service. Its state is
// in the status, so that a restarted operator resumes it.
type maintenance struct {
	*Controller
	view   *view
	status *statusWriter
	next   rollout.Next
	// hasLeft means that the host has left and its instance is gone.
	hasLeft bool
}

// current returns the maintenance in progress; nil if there is none.
func (m *maintenance) current() *v1alpha1.Maintenance { return m.status.want().Maintenance }

// enter begins a step.
func (m *maintenance) enter(ctx context.Context, step v1alpha1.MaintenanceStep) (time.Duration, error) {
	current := m.current()
	current.Step, current.StepStartedAt, current.Message = step, metav1.Now(), ""
	if step == v1alpha1.MaintenanceDrain {
		current.YoungestPod = nil // another Node has other pods
	}
	m.retries.Reset(m.id())
	m.stopwatch.start(m.id(), *current)
	return 0, m.status.write(ctx)
}

// elapsed returns how long the current step has taken; timeout is its time limit.
func (m *maintenance) elapsed(timeout time.Duration) time.Duration {
	return m.stopwatch.elapsed(m.id(), *m.current(), timeout)
}

// retryLater records a failed attempt and returns when to retry.
func (m *maintenance) retryLater(ctx context.Context, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	m.current().Message = err.Error()
	m.recordReachable(err)
	log.FromContext(ctx).Info("Maintenance step failed, will be retried", "action", m.current().Action, "error", err.Error())
	if after, waits := join.Retry(err); waits {
		return after
	}
	return m.retries.Fail(m.id(), time.Now())
}

// recordReachable records the result of a visit in condition Reachable.
func (m *maintenance) recordReachable(err error) {
	var u *join.Unreachable
	if err == nil || errors.As(err, &u) {
		join.Reached(m.status.want(), m.view.Instance.Generation, err)
	}
}

// fail records the failure and rolls back: a node that was being upgraded returns to its former version.
func (m *maintenance) fail(ctx context.Context, reason string) (time.Duration, error) {
	current, st := m.current(), m.status.want()
	recordFailure(st, v1alpha1.Failure{Action: current.Action, Version: current.Version, Updates: m.failedUpdates(), Step: current.Step, Message: reason})
	log.FromContext(ctx).Info("Maintenance failed", "action", current.Action, "step", current.Step, "error", reason)
	m.Events.Emit(kube.Event{Object: m.view.Instance, Type: corev1.EventTypeWarning, Reason: api.EventMaintenanceFailed, Action: string(current.Action)},
		"%s failed: %s", current.Action, reason)
	if current.Action == v1alpha1.ActionUpgrade && current.PreviousVersion != "" && m.view.Node != nil {
		current.Version = current.PreviousVersion
		if err := m.status.write(ctx); err != nil {
			return 0, err
		}
		if err := m.announceVersion(ctx, current.PreviousVersion); err != nil {
			return 0, err
		}
	} else {
		current.BootID = "" // any boot will do: the node only has to work
	}
	return m.enter(ctx, v1alpha1.MaintenanceVerify)
}

// finish returns the node to service, if the operator took it out, and ends the maintenance.
func (m *maintenance) finish(ctx context.Context) error {
	current, st := m.current(), m.status.want()
	failed := m.hasFailed()
	if err := m.uncordon(ctx, current.RequestToken); err != nil {
		return err
	}
	if !failed && st.Failure != nil && st.Failure.Action == current.Action && (current.Action != v1alpha1.ActionPatch || rollout.PatchFailed(st.Failure, current.Updates)) {
		st.Failure = nil
	}
	if !failed && current.Action == v1alpha1.ActionPatch {
		recordInstalled(st, current.Updates)
	}
	if node := rollout.NodeOf(m.view.Node); !failed && current.RebootCauses != "" && node != nil && node.BootID != current.BootID {
		st.LastReboot = &v1alpha1.LastReboot{At: metav1.Now(), Causes: current.RebootCauses}
	}
	if err := m.end(ctx); err != nil {
		return err
	}
	took := time.Since(current.StartedAt.Time).Round(time.Second)
	m.metrics.action(current.Action, failed, took)
	log.FromContext(ctx).Info("Maintenance ended", "action", current.Action, "failed", failed, "took", took)
	if !failed {
		m.Events.Emit(kube.Event{Object: m.view.Instance, Type: corev1.EventTypeNormal, Reason: api.EventMaintenanceDone, Action: string(current.Action) + current.StartedAt.Format("-20060102150405")},
			"%s is done after %s", current.Action, took)
	}
	return nil
}

// end records that no maintenance is in progress and frees the place in the budget.
func (m *maintenance) end(ctx context.Context) error {
	m.status.want().Maintenance = nil
	if err := m.status.write(ctx); err != nil {
		return err
	}
	m.stopwatch.forget(m.id())
	m.Fleet.Done(m.id())
	return nil
}

func (m *maintenance) id() types.NamespacedName { return client.ObjectKeyFromObject(m.view.Instance) }

// hasFailed reports whether the action has already failed and the node is only expected to work as before.
func (m *maintenance) hasFailed() bool {
	f := m.status.want().Failure
	return f != nil && f.Action == m.current().Action && !f.At.Before(&m.current().StartedAt)
}
