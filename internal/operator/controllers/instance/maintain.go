package instance

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/fleet"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/settings"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
)

// needsMaintenance reports whether maintenance is in progress, or the plan begins an action other than a join.
func needsMaintenance(i *v1alpha1.WindowsInstance, next rollout.Next) bool {
	return i.Status.Maintenance != nil || next.Begin && next.Action != v1alpha1.ActionJoin
}

// maintain advances the host's maintenance as far as possible, if there is any.
func (c *Controller) maintain(ctx context.Context, p *pass) (outcome, error) {
	next := c.Fleet.Next(p.id)
	if !needsMaintenance(p.Instance, next) {
		return proceed, nil
	}
	seen, err := c.gather(ctx, c.Live, p.id) // the cache may lag behind the operator's own last write
	if seen == nil || err != nil {
		return abandon, err
	}
	p.view, p.status = seen, c.newStatus(seen.Instance)
	m := &maintenance{Controller: c, view: seen, status: p.status, next: next}
	after, err := m.advance(ctx)
	if m.hasLeft {
		return abandon, err
	}
	if apierrors.IsConflict(err) {
		after, err = time.Second, nil // another client changed the Node; its change is read first
	}
	if ctx.Err() != nil {
		return abandon, nil // the operator is stopping
	}
	p.decision = join.Decision{Action: join.Requeue, After: after}
	return finish, err
}

// advance begins what may begin, and runs steps until one has to wait.
func (m *maintenance) advance(ctx context.Context) (after time.Duration, err error) {
	if m.next.Action == v1alpha1.ActionStage && m.current() == nil {
		return m.stage(ctx)
	}
	if begun, err := m.begin(ctx); !begun || err != nil {
		return 0, err
	}
	for m.current() != nil {
		step := m.current().Step
		after, err = m.step(ctx)
		if err != nil || m.hasLeft || m.current() != nil && m.current().Step == step {
			return after, err
		}
		if m.view.Node, m.view.Conflict, err = m.node(ctx, m.Live, m.view.Instance); err != nil { // a step may have taken a while
			return 0, err
		}
	}
	return after, nil
}

// step runs the current step. If the drained Node was replaced, it drains again first.
func (m *maintenance) step(ctx context.Context) (time.Duration, error) {
	switch {
	case m.hasRecovered():
		return 0, m.deferMaintenance(ctx, fmt.Sprintf("started because the node had not been Ready since %s; the node is Ready again, so the action waits until the plan allows it",
			m.current().BrokenSince.UTC().Format(time.RFC3339)))
	case m.isReplaceCanceled():
		return 0, m.deferMaintenance(ctx, "was canceled because spec.replaceWith was removed")
	case m.view.Node == nil && rollout.NeedsNode(m.current().Action):
		return m.awaitNode(ctx)
	case m.isUndrained():
		return m.enter(ctx, v1alpha1.MaintenanceDrain)
	}
	switch step := m.current().Step; step {
	case v1alpha1.MaintenanceDrain:
		return m.drain(ctx)
	case v1alpha1.MaintenanceAct:
		return m.act(ctx)
	case v1alpha1.MaintenanceVerify:
		return m.verify(ctx)
	default:
		return 0, fmt.Errorf("WindowsInstance %s is in maintenance step %q, which this version of the operator does not know", m.view.Instance.Name, step)
	}
}

// begin records the next action, unless one is in progress or it is no longer needed.
func (m *maintenance) begin(ctx context.Context) (begun bool, err error) {
	current := m.current()
	switch {
	case current != nil && (current.Action == v1alpha1.ActionLeave || m.view.Instance.DeletionTimestamp == nil):
		return true, nil
	case current == nil && (m.next.InProgress || m.isHeld() || !m.stillNeeded()):
		m.Fleet.Done(m.id())
		return false, nil
	case !m.next.Begin:
		return current != nil, nil // the host leaves, but has to wait; what is in progress continues
	}
	at := metav1.Now()
	started := &v1alpha1.Maintenance{
		Action: m.next.Action, Disruption: m.next.Disruption, RequestToken: m.next.RequestToken, Message: m.next.Message,
		Step: v1alpha1.MaintenanceAct, StartedAt: at, StepStartedAt: at,
	}
	if m.next.Disruption == v1alpha1.DisruptionDrain || m.next.Disruption == v1alpha1.DisruptionReboot {
		started.Step = v1alpha1.MaintenanceDrain
	}
	if node := rollout.NodeOf(m.view.Node); node != nil {
		started.BootID = node.BootID
		if settings.IsVersion(node.Version) { // reported by the host; the operator would announce it if an upgrade fails
			started.PreviousVersion = node.Version
		}
		if m.next.Broken {
			started.BrokenSince = &metav1.Time{Time: node.NotReadySince}
		}
		if started.Action == v1alpha1.ActionReboot || started.Action == v1alpha1.ActionPatch {
			started.RebootCauses = node.RebootPending
		}
	}
	if started.Action == v1alpha1.ActionUpgrade {
		started.Version = m.view.Version
	}
	if started.Action == v1alpha1.ActionPatch {
		started.Updates = m.next.PatchUpdates()
	}
	m.status.want().Maintenance = started
	m.stopwatch.start(m.id(), *started)
	if err := m.status.write(ctx); err != nil {
		return false, err
	}
	log.FromContext(ctx).Info("Maintenance started", "action", started.Action, "disruption", started.Disruption, "message", started.Message)
	m.Events.Emit(kube.Event{Object: m.view.Instance, Type: corev1.EventTypeNormal, Reason: api.EventMaintenanceStarted, Action: string(started.Action) + at.Format("-20060102150405")},
		"%s begins: %s", started.Action, started.Message)
	return true, nil
}

// isHeld reports whether the user has paused the host, or the next action has failed meanwhile. The plan may not reflect either yet.
func (m *maintenance) isHeld() bool {
	hasFailed := rollout.Failed(m.view.Instance.Status.Failure, m.next.Action, m.next.RequestToken, m.view.Version)
	hasFailed = hasFailed || m.next.Action == v1alpha1.ActionPatch && rollout.PatchFailed(m.view.Instance.Status.Failure, m.next.PatchUpdates())
	return hasFailed || m.view.Instance.Spec.Paused || m.view.AllPaused
}

// stillNeeded reports whether the plan still matches the state of the cluster.
func (m *maintenance) stillNeeded() bool {
	if !m.next.Begin {
		return false
	}
	node := rollout.NodeOf(m.view.Node)
	isReleased := m.next.Action == v1alpha1.ActionLeave && m.released()
	if node != nil && node.Ready == m.next.Broken && !isReleased {
		return false // the plan must change if the node works again; a node that just broke may recover
	}
	switch m.next.Action {
	case v1alpha1.ActionLeave:
		return m.view.Instance.DeletionTimestamp != nil
	case v1alpha1.ActionReplace:
		if isOwn(m.view.Instance) {
			return m.view.Instance.Spec.ReplaceWith != ""
		}
		return fleet.ReplaceReason(m.view.Instance, m.view.config.Rollout.Machines) != ""
	case v1alpha1.ActionUpgrade:
		return node != nil && node.Version != m.view.Version
	case v1alpha1.ActionReboot:
		return node != nil && (node.RebootRequested != "" && node.RebootRequested == m.next.RequestToken || m.next.RequestToken == "" && node.RebootPending != "")
	case v1alpha1.ActionPatch:
		return node != nil && node.OffersAll(m.next.PatchUpdates())
	}
	return false
}

// hasRecovered reports whether the action began because its node was broken, the node is Ready again, and its host has not been changed yet.
func (m *maintenance) hasRecovered() bool {
	current, node := m.current(), rollout.NodeOf(m.view.Node)
	return current.BrokenSince != nil && current.Step != v1alpha1.MaintenanceVerify && current.Failure == "" && node != nil && node.Ready
}

// deferMaintenance ends an action that has not changed anything. It frees the place in the budget, and the plan decides when the action begins again.
func (m *maintenance) deferMaintenance(ctx context.Context, reason string) error {
	current := m.current()
	if err := m.uncordon(ctx, ""); err != nil {
		return err
	}
	meta.RemoveStatusCondition(&m.status.want().Conditions, api.ConditionDraining)
	if err := m.end(ctx); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Maintenance deferred", "action", current.Action, "reason", reason)
	m.Events.Emit(kube.Event{Object: m.view.Instance, Type: corev1.EventTypeNormal, Reason: api.EventMaintenanceDeferred, Action: string(current.Action)},
		"%s %s", current.Action, reason)
	return nil
}

// isUndrained reports whether the node must be drained again before it changes: its Node was deleted, and the one that its host registered since is
// cordoned neither by the operator nor by an administrator.
func (m *maintenance) isUndrained() bool {
	current, node := m.current(), rollout.NodeOf(m.view.Node)
	drains := current.Disruption == v1alpha1.DisruptionDrain || current.Disruption == v1alpha1.DisruptionReboot
	if !drains || !rollout.NeedsNode(current.Action) || current.Step == v1alpha1.MaintenanceDrain || node.Unschedulable || node.CordonedFor != "" {
		return false
	}
	if current.Action == v1alpha1.ActionUpgrade {
		return node.Version != current.Version
	}
	return node.BootID == current.BootID
}

// awaitNode waits for a deleted Node. Its host may register it again; otherwise, the host is joined again. This does not count as a failure, least of
// all of a version.
func (m *maintenance) awaitNode(ctx context.Context) (time.Duration, error) {
	meta.RemoveStatusCondition(&m.status.want().Conditions, api.ConditionDraining)
	m.current().Message = "the Node does not exist"
	m.stopwatch.start(m.id(), *m.current()) // time without a Node does not count
	if m.mayRejoin() {
		return m.rejoin(ctx)
	}
	return verifyInterval, nil
}

// act performs the action for which the node was drained, and retries it for a while if it fails.
func (m *maintenance) act(ctx context.Context) (time.Duration, error) {
	switch m.current().Action {
	case v1alpha1.ActionLeave:
		return m.leave(ctx)
	case v1alpha1.ActionPatch:
		return m.patch(ctx)
	}
	late := m.elapsed(actTimeout) > actTimeout
	if remaining := m.retries.Remaining(m.id()); remaining > 0 {
		return remaining, nil
	}
	var err error
	switch m.current().Action {
	case v1alpha1.ActionUpgrade:
		err = m.upgrade(ctx)
	case v1alpha1.ActionReplace:
		if err = m.replace(ctx); err == nil {
			return 0, nil // the instance is being deleted
		}
	case v1alpha1.ActionReboot:
		err = m.visit("restarting the host").Restart(ctx, m.current().BootID)
	}
	switch {
	case err == nil:
		if m.current().Action == v1alpha1.ActionReboot {
			m.recordReachable(nil)
		}
		return m.enter(ctx, v1alpha1.MaintenanceVerify)
	case late && !join.IsWindowsBusy(err):
		return m.fail(ctx, err.Error())
	}
	return m.retryLater(ctx, err), nil
}
