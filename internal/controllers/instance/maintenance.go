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
	"github.com/windows-machine-config/wmco/internal/join"
	"github.com/windows-machine-config/wmco/internal/kube"
	"github.com/windows-machine-config/wmco/internal/rollout"
)

// How long steps may take, and how often they are looked at without an event.
const (
	actWithin    = 15 * time.Minute
	verifyWithin = 15 * time.Minute
	leaveWithin  = time.Hour
	verifyEvery  = 30 * time.Second
)

// maintenance is one action on a host that has joined: drained where pods have to leave, acted on, verified, brought back into
// service. Where it is stands in the status, so that an operator that starts anew goes on from there.
type maintenance struct {
	*Controller
	view   *view
	status *status
	next   rollout.Next
	// hasLeft says that the host has left, and its instance with it.
	hasLeft bool
}

// current is what is under way; nil when nothing is.
func (m *maintenance) current() *v1alpha1.Maintenance { return m.status.desired().Maintenance }

// to goes to another step and writes it down.
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

// ran is how long the step has taken, which may take so long.
func (m *maintenance) ran(within time.Duration) time.Duration {
	return m.stopwatch.ran(m.id(), *m.current(), within)
}

// again says when to try again what failed.
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

// reached keeps in condition Reachable how a visit ended.
func (m *maintenance) reached(err error) {
	var u *join.Unreachable
	if err == nil || errors.As(err, &u) {
		join.Reached(m.status.desired(), m.view.Instance.Generation, err)
	}
}

// fail writes down why, and goes back: a node that was to have another version gets its former one again.
func (m *maintenance) fail(ctx context.Context, why string) (time.Duration, error) {
	now, st := m.current(), m.status.desired()
	noteFailure(st, v1alpha1.Failure{Action: now.Action, Version: now.Version, Step: now.Step, Message: why})
	log.FromContext(ctx).Info("Maintenance failed", "action", now.Action, "step", now.Step, "error", why)
	m.Events.Emit(kube.Event{Object: m.view.Instance, Type: corev1.EventTypeWarning, Reason: api.EventMaintenanceFailed, Action: string(now.Action)},
		"%s failed: %s", now.Action, why)
	if now.Action == v1alpha1.ActionUpgrade && now.PreviousVersion != "" && m.view.Node != nil {
		now.Version = now.PreviousVersion
		if err := m.status.write(ctx); err != nil {
			return 0, err
		}
		if err := m.announceVersion(ctx, now.PreviousVersion); err != nil {
			return 0, err
		}
	} else {
		now.BootID = "" // whichever start it is: the node only has to work
	}
	return m.to(ctx, v1alpha1.MaintenanceVerify)
}

// finish brings the node back into service, if we took it out, and writes down that nothing is under way.
func (m *maintenance) finish(ctx context.Context) error {
	now, st := m.current(), m.status.desired()
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

// end writes down that nothing is under way, and gives the place back.
func (m *maintenance) end(ctx context.Context) error {
	m.status.desired().Maintenance = nil
	if err := m.status.write(ctx); err != nil {
		return err
	}
	m.stopwatch.forget(m.id())
	m.Fleet.Done(m.id())
	return nil
}

func (m *maintenance) id() types.NamespacedName { return client.ObjectKeyFromObject(m.view.Instance) }

// hasFailed says that the action failed already, and that the node is waited for to be as before.
func (m *maintenance) hasFailed() bool {
	f := m.status.desired().Failure
	return f != nil && f.Action == m.current().Action && !f.At.Before(&m.current().StartedAt)
}
