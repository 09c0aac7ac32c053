package instance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

const (
	// patchTimeout is how long the installation of updates with its restarts may take. WICD gives up earlier.
	patchTimeout = 4 * time.Hour
	// undoInterval is how often the progress of the uninstallation is queried.
	undoInterval = time.Minute
	// maxPatchRestarts limits the restarts of one installation: one before it, if an earlier one waits for a restart, and one after it. Undoing it takes
	// one more.
	maxPatchRestarts = 2
	// maxInstalledUpdates limits the updates in the status.
	maxInstalledUpdates = 32
)

// patch orders the installation of updates and follows it: WICD installs, the operator restarts the host when WICD reports that this is necessary.
func (m *maintenance) patch(ctx context.Context) (time.Duration, error) {
	if m.current().Failure != "" {
		return m.undo(ctx)
	}
	current, node := m.current(), rollout.NodeOf(m.view.Node)
	limit, isOrdered := actTimeout, node.Installation.Order == orderOf(current)
	if isOrdered {
		limit = patchTimeout
	}
	if m.elapsed(limit) > limit {
		return m.fail(ctx, fmt.Sprintf("not done after %s: %s", limit, current.Message))
	}
	if remaining := m.retries.Remaining(m.id()); remaining > 0 {
		return remaining, nil
	}
	if !isOrdered {
		return m.orderUpdates(ctx)
	}
	switch i := node.Installation; i.State {
	case windowsupdate.Done:
		return m.enter(ctx, v1alpha1.MaintenanceVerify)
	case windowsupdate.Failed:
		return m.fail(ctx, i.Message)
	case windowsupdate.RestartRequired:
		return m.restartForUpdates(ctx, i.Boot, node.BootID)
	default:
		current.Message = "WICD is installing " + strings.Join(current.Updates, ", ")
		if i.Message != "" {
			current.Message += ": " + i.Message
		}
	}
	return verifyInterval, nil
}

// restartForUpdates restarts the host once in the boot for which WICD requires it. After the restart, the kubelet reports the next boot before WICD
// does: until then, the restart has been made.
func (m *maintenance) restartForUpdates(ctx context.Context, required, boot string) (time.Duration, error) {
	current := m.current()
	current.Message = "the host is restarting for " + strings.Join(current.Updates, ", ")
	if required != boot || current.RestartedBootID == boot {
		return verifyInterval, nil
	}
	if current.Restarts >= maxPatchRestarts {
		return m.fail(ctx, fmt.Sprintf("Windows was restarted %d times and requires another restart", current.Restarts))
	}
	if err := m.visit("restarting the host").Restart(ctx, boot); err != nil {
		return m.retryLater(ctx, err), nil
	}
	m.recordReachable(nil)
	current.RestartedBootID, current.Restarts = boot, current.Restarts+1
	return verifyInterval, nil
}

// failedUpdates returns the updates that a failure counts against: none if the host did not get the order.
func (m *maintenance) failedUpdates() []string {
	current, node := m.current(), rollout.NodeOf(m.view.Node)
	if current.Action != v1alpha1.ActionPatch || node == nil || node.Installation.Order != orderOf(current) {
		return nil
	}
	return current.Updates
}

// mayUndo reports whether the cumulative update of a Patch should be uninstalled because the node has not worked since its restart.
func (m *maintenance) mayUndo() bool {
	current := m.current()
	return current.Action == v1alpha1.ActionPatch && current.Failure == "" && current.Restarts > 0 && !m.hasFailed() &&
		m.view.config.WindowsUpdates.Rollback == v1alpha1.UpdateRollbackUninstall
}

// beginUndo records the failure, so that no other host begins with the update, and records that the update is being uninstalled. If another node does
// not work either, the update may not be the cause, and it stays.
func (m *maintenance) beginUndo(ctx context.Context, why string) (time.Duration, error) {
	other, err := m.otherNotWorking(ctx)
	if err != nil {
		return 0, err
	}
	if other != "" {
		return m.fail(ctx, fmt.Sprintf("%s; the cumulative update is not uninstalled, because it may not be the cause: %s", why, other))
	}
	current := m.current()
	current.Failure = truncate.Text(why, truncate.Reported)
	recordFailure(m.status.want(), v1alpha1.Failure{
		Action: current.Action, Updates: current.Updates, Step: current.Step, Message: current.Failure + "; the cumulative update is being uninstalled",
	})
	log.FromContext(ctx).Info("Uninstalling updates", "updates", current.Updates, "error", why)
	m.Events.Emit(kube.Event{Object: m.view.Instance, Type: corev1.EventTypeWarning, Reason: api.EventUninstallingUpdate, Action: string(current.Action)},
		"the node does not work with %s, so the cumulative update is uninstalled: %s", strings.Join(current.Updates, ", "), why)
	return m.enter(ctx, v1alpha1.MaintenanceAct)
}

// otherNotWorking returns which other node does not work, and why; empty if all do. Nodes in maintenance, failed ones and paused ones do not count.
func (m *maintenance) otherNotWorking(ctx context.Context) (string, error) {
	var instances v1alpha1.WindowsInstanceList
	if err := m.Client.List(ctx, &instances, client.InNamespace(m.view.Instance.Namespace)); err != nil {
		return "", fmt.Errorf("listing WindowsInstances: %w", err)
	}
	for _, i := range instances.Items {
		if i.Name == m.view.Instance.Name || i.Spec.Paused || i.Status.NodeRef == nil || i.Status.Maintenance != nil || i.Status.Failure != nil {
			continue
		}
		var node corev1.Node
		if err := m.Client.Get(ctx, client.ObjectKey{Name: i.Status.NodeRef.Name}, &node); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return "", fmt.Errorf("reading node %s: %w", i.Status.NodeRef.Name, err)
		}
		if why := rollout.NodeOf(&node).NotWorking(m.view.config.Rollout.ReadinessGates); why != "" {
			return fmt.Sprintf("node %s does not work either (%s)", node.Name, why), nil
		}
	}
	return "", nil
}

// endUndo records how the uninstallation ended.
func (m *maintenance) endUndo(outcome string) {
	current := m.current()
	message := truncate.Text(current.Failure+"; "+outcome, truncate.Reported)
	current.Failure = ""
	if m.hasFailed() { // unless a user has removed the failure to retry
		m.status.want().Failure.Message = message
	}
	m.Events.Emit(kube.Event{Object: m.view.Instance, Type: corev1.EventTypeWarning, Reason: api.EventMaintenanceFailed, Action: string(current.Action)},
		"%s failed: %s", current.Action, message)
}

// undo has WICD uninstall the cumulative update, and restarts the host for that. It asks WICD directly for the progress, because the host may be unable to
// report it.
func (m *maintenance) undo(ctx context.Context) (time.Duration, error) {
	current := m.current()
	failed := func(why string) (time.Duration, error) {
		m.endUndo("uninstalling the update failed: " + why)
		current.BootID = "" // any boot will do: the node only has to work
		return m.enter(ctx, v1alpha1.MaintenanceVerify)
	}
	if m.elapsed(patchTimeout) > patchTimeout {
		return failed(fmt.Sprintf("not done after %s: %s", patchTimeout, current.Message))
	}
	if remaining := m.retries.Remaining(m.id()); remaining > 0 {
		return remaining, nil
	}
	request := wicdapi.InstallUpdatesRequest{Order: undoOrderOf(current), Undoes: orderOf(current)}
	i, err := m.visit("uninstalling updates").InstallUpdates(ctx, request)
	if refused := wicdapi.Failed(err); refused != nil && refused.Code == wicdapi.CodeRequestInvalid {
		return failed(refused.Message)
	}
	if err != nil {
		return m.retryLater(ctx, err), nil
	}
	m.recordReachable(nil)
	switch i.State {
	case windowsupdate.Done:
		current.BootID = "" // any boot will do
		return m.enter(ctx, v1alpha1.MaintenanceVerify)
	case windowsupdate.Failed:
		return failed(i.Message)
	case windowsupdate.RestartRequired:
		if current.RestartedBootID != i.Boot {
			if current.Restarts > maxPatchRestarts {
				return failed(fmt.Sprintf("Windows was restarted %d times and requires another restart", current.Restarts))
			}
			if err := m.visit("restarting the host").Restart(ctx, i.Boot); err != nil {
				return m.retryLater(ctx, err), nil
			}
			current.RestartedBootID, current.Restarts = i.Boot, current.Restarts+1
		}
		current.Message = "the host is restarting without " + strings.Join(current.Updates, ", ")
	default:
		current.Message = strings.TrimSuffix("WICD is uninstalling the cumulative update: "+i.Message, ": ")
	}
	return undoInterval, nil
}

// orderOf returns the name of the order of a Patch.
func orderOf(m *v1alpha1.Maintenance) string { return m.StartedAt.UTC().Format(time.RFC3339) }

// undoOrderOf returns the name of the order that undoes it.
func undoOrderOf(m *v1alpha1.Maintenance) string { return orderOf(m) + "-undo" }

// orderUpdates has WICD install the updates. The Node shows the state of the order soon after.
func (m *maintenance) orderUpdates(ctx context.Context) (time.Duration, error) {
	if m.view.config.WindowsUpdates.Policy != v1alpha1.UpdatesInstall {
		return 0, m.deferMaintenance(ctx, "ends: spec.windowsUpdates.policy of WindowsConfig is no longer Install")
	}
	request := wicdapi.InstallUpdatesRequest{Order: orderOf(m.current()), KBs: m.current().Updates}
	if _, err := m.visit("installing updates").InstallUpdates(ctx, request); err != nil {
		return m.retryLater(ctx, err), nil
	}
	m.recordReachable(nil)
	m.current().Message = "WICD has not reported the state of the installation yet"
	return verifyInterval, nil
}

// recordInstalled records, after a successful installation, which updates were installed.
func recordInstalled(st *v1alpha1.WindowsInstanceStatus, updates []string) {
	var all []v1alpha1.InstalledUpdate
	for _, kb := range updates {
		all = append(all, v1alpha1.InstalledUpdate{Article: kb, At: metav1.Now()})
	}
	for _, u := range st.InstalledUpdates {
		if !slices.Contains(updates, u.Article) && len(all) < maxInstalledUpdates {
			all = append(all, u)
		}
	}
	st.InstalledUpdates = all
}
