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
	actWithin    = 15 * time.Minute
	verifyWithin = 15 * time.Minute
	leaveWithin  = time.Hour
	verifyEvery  = 30 * time.Second
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

func (m *maintenance) to(ctx context.Context, step v1alpha1.MaintenanceStep) (time.Duration, error) {
	now := m.current()
	now.Step, now.StepStartedAt, now.Message = step, metav1.Now(), ""
	if step == v1alpha1.MaintenanceDrain {
		now.YoungestPod = nil // another Node has other pods
	}
	m.retries.Reset(m.id())
	m.stopwatch.start(m.id(), *now)
	return 0, m.status.write(ctx)
}

// ran returns how long the current step has taken; within is its time limit.
func (m *maintenance) ran(within time.Duration) time.Duration {
	return m.stopwatch.ran(m.id(), *m.current(), within)
}

// again records a failed attempt and returns when to retry.
func (m *maintenance) again(ctx context.Context, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	m.current().Message = err.Error()
	m.reached(err)
	log.FromContext(ctx).Info("Maintenance step failed, will be retried", "action", m.current().Action, "error", err.Error())
	if after, waits := join.Retry(err); waits {
		return after
	}
	return m.retries.Fail(m.id(), time.Now())
}

// reached records the result of a visit in condition Reachable.
func (m *maintenance) reached(err error) {
	var u *join.Unreachable
	if err == nil || errors.As(err, &u) {
		join.Reached(m.status.want(), m.view.Instance.Generation, err)
	}
}

// fail records the failure and rolls back: a node that was being upgraded returns to its former version.
func (m *maintenance) fail(ctx context.Context, reason string) (time.Duration, error) {
	now, st := m.current(), m.status.want()
	noteFailure(st, v1alpha1.Failure{Action: now.Action, Version: now.Version, Step: now.Step, Message: reason})
	log.FromContext(ctx).Info("Maintenance failed", "action", now.Action, "step", now.Step, "error", reason)
	m.Events.Emit(kube.Event{Object: m.view.Instance, Type: corev1.EventTypeWarning, Reason: api.EventMaintenanceFailed, Action: string(now.Action)},
		"%s failed: %s", now.Action, reason)
	if now.Action == v1alpha1.ActionUpgrade && now.PreviousVersion != "" && m.view.Node != nil {
		now.Version = now.PreviousVersion
		if err := m.status.write(ctx); err != nil {
			return 0, err
		}
		if err := m.announceVersion(ctx, now.PreviousVersion); err != nil {
			return 0, err
		}
	} else {
		now.BootID = "" // any boot will do: the node only has to work
	}
	return m.to(ctx, v1alpha1.MaintenanceVerify)
}

// finish returns the node to service, if the operator took it out, and ends the maintenance.
func (m *maintenance) finish(ctx context.Context) error {
	now, st := m.current(), m.status.want()
	failed := m.hasFailed()
	if err := m.uncordon(ctx, now.RequestToken); err != nil {
		return err
	}
	if !failed && st.Failure != nil && st.Failure.Action == now.Action {
		st.Failure = nil
	}
	if !failed && now.RebootCauses != "" {
		st.LastReboot = &v1alpha1.LastReboot{At: metav1.Now(), Causes: now.RebootCauses}
	}
	if err := m.end(ctx); err != nil {
		return err
	}
	took := time.Since(now.StartedAt.Time).Round(time.Second)
	m.metrics.action(now.Action, failed, took)
	log.FromContext(ctx).Info("Maintenance ended", "action", now.Action, "failed", failed, "took", took)
	if !failed {
		m.Events.Emit(kube.Event{Object: m.view.Instance, Type: corev1.EventTypeNormal, Reason: api.EventMaintenanceDone, Action: string(now.Action) + now.StartedAt.Format("-20060102150405")},
			"%s is done after %s", now.Action, took)
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
