package instance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

const (
	// patchTimeout is how long the installation of updates with its restarts may take. WICD gives up earlier.
	patchTimeout = 4 * time.Hour
	// maxPatchRestarts limits the restarts of one installation: one before it, if an earlier one waits for a restart, and one after it.
	maxPatchRestarts = 2
	// maxInstalledUpdates limits the updates in the status.
	maxInstalledUpdates = 32
)

// patch orders the installation of updates and follows it: WICD installs, the operator restarts the host when WICD reports that this is necessary.
func (m *maintenance) patch(ctx context.Context) (time.Duration, error) {
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
	return verifyEvery, nil
}

// restartForUpdates restarts the host once in the boot for which WICD requires it. After the restart, the kubelet reports the next boot before WICD
// does: until then, the restart has been made.
func (m *maintenance) restartForUpdates(ctx context.Context, required, boot string) (time.Duration, error) {
	current := m.current()
	current.Message = "the host is restarting for " + strings.Join(current.Updates, ", ")
	if required != boot || current.RestartedBootID == boot {
		return verifyEvery, nil
	}
	if current.Restarts >= maxPatchRestarts {
		return m.fail(ctx, fmt.Sprintf("Windows was restarted %d times and requires another restart", current.Restarts))
	}
	if err := m.visit("restarting the host").Restart(ctx, boot); err != nil {
		return m.retryLater(ctx, err), nil
	}
	m.recordReachable(nil)
	current.RestartedBootID, current.Restarts = boot, current.Restarts+1
	return verifyEvery, nil
}

// failedUpdates returns the updates against which a failure speaks: none if the host did not get the order.
func (m *maintenance) failedUpdates() []string {
	current, node := m.current(), rollout.NodeOf(m.view.Node)
	if current.Action != v1alpha1.ActionPatch || node == nil || node.Installation.Order != orderOf(current) {
		return nil
	}
	return current.Updates
}

// orderOf returns the name of the order of a Patch.
func orderOf(m *v1alpha1.Maintenance) string { return m.StartedAt.UTC().Format(time.RFC3339) }

// orderUpdates has WICD install the updates. The Node shows the state of the order soon after.
func (m *maintenance) orderUpdates(ctx context.Context) (time.Duration, error) {
	if m.view.config.WindowsUpdates.Policy != v1alpha1.UpdatesInstall {
		return 0, m.deferMaintenance(ctx, "ends: spec.windowsUpdates.policy of WindowsConfig is no longer Install")
	}
	if err := m.visit("installing updates").InstallUpdates(ctx, orderOf(m.current()), m.current().Updates); err != nil {
		return m.retryLater(ctx, err), nil
	}
	m.recordReachable(nil)
	m.current().Message = "WICD has not reported the state of the installation yet"
	return verifyEvery, nil
}

// recordInstalled records, after a successful installation, which updates it was.
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
