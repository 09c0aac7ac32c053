package instance

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
)

// verify waits until the node works and returns it to service.
func (m *maintenance) verify(ctx context.Context) (time.Duration, error) {
	current, late := m.current(), m.elapsed(verifyTimeout) > verifyTimeout
	if current.Action == v1alpha1.ActionUpgrade { // again, because the Node may have been replaced since
		if err := m.announceVersion(ctx, current.Version); err != nil && m.view.Node.Annotations[api.AnnotationDesiredVersion] != current.Version {
			return 0, err
		}
	}
	kubelet := ""
	if current.Version == m.view.Version {
		kubelet = m.view.release.Kubelet
	}
	waitsFor, failed := rollout.Verify(*current, rollout.NodeOf(m.view.Node), m.view.config.Rollout.ReadinessGates, kubelet)
	switch {
	case failed != "":
		return m.fail(ctx, failed)
	case waitsFor == "" && current.Failure != "":
		m.endUndo("the cumulative update was uninstalled, and the node works again")
		return 0, m.finish(ctx)
	case waitsFor == "":
		return 0, m.finish(ctx)
	case late && m.mayUndo():
		return m.beginUndo(ctx, fmt.Sprintf("not done after %s: %s", verifyTimeout, waitsFor))
	case late && current.Failure != "":
		m.endUndo("the cumulative update was uninstalled, and the node still does not work: " + waitsFor)
	case late && !m.hasFailed():
		return m.fail(ctx, fmt.Sprintf("not done after %s: %s", verifyTimeout, waitsFor))
	}
	current.Message = waitsFor
	if m.mayRejoin() {
		return m.rejoin(ctx)
	}
	return verifyInterval, nil
}

// mayRejoin reports whether the node has been missing or broken for so long that its host is joined again: a limited number of times, and not while it
// rolls back from a failed version.
func (m *maintenance) mayRejoin() bool {
	current, node := m.current(), rollout.NodeOf(m.view.Node)
	waited, limit := m.elapsed(verifyTimeout), join.RepairAfter
	switch {
	case node == nil:
		waited, limit = time.Since(m.missingSince()), join.NodeMissingTimeout
	case !node.Ready:
		waited = min(waited, time.Since(node.NotReadySince))
	}
	if current.RejoinedAt != nil {
		waited = min(waited, time.Since(current.RejoinedAt.Time))
	}
	// A join installs the operator's version. A host of another version gets it only in an upgrade to it.
	otherVersion := m.view.Former || node != nil && join.HasOtherVersion(m.view.Node, m.view.Version)
	upgrades := current.Action == v1alpha1.ActionUpgrade
	changesVersion := upgrades && current.Version != m.view.Version || !upgrades && otherVersion
	return waited > limit && (node == nil || !node.Ready) && current.Rejoins < join.MaxRepairs && !changesVersion
}

// missingSince returns the time since which the Node has been known to be missing.
func (m *maintenance) missingSince() time.Time {
	c := meta.FindStatusCondition(m.status.want().Conditions, api.ConditionNodeReady)
	if c == nil || c.Reason != api.ReasonNodeMissing {
		return time.Now()
	}
	return c.LastTransitionTime.Time
}

// rejoin joins a host whose node did not return. During maintenance, no other step joins hosts.
func (m *maintenance) rejoin(ctx context.Context) (time.Duration, error) {
	if remaining := m.retries.Remaining(m.id()); remaining > 0 {
		return remaining, nil
	}
	if err := m.repeatJoin(ctx); err != nil {
		return m.retryLater(ctx, err), nil
	}
	at := metav1.Now()
	m.current().RejoinedAt, m.current().Rejoins = &at, m.current().Rejoins+1
	return verifyInterval, nil
}
