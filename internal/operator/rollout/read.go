package rollout

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// PolicyOf returns the policy of a spec. An invalid window never opens.
func PolicyOf(spec v1alpha1.WindowsConfigSpec, version string) Policy {
	r := spec.Rollout
	p := Policy{
		Version: version, Paused: r.Paused, Reboots: r.Reboots == v1alpha1.RebootsAllowed,
		MaxUnavailable: intstr.FromInt32(1),
	}
	if r.MaxUnavailable != nil {
		p.MaxUnavailable = *r.MaxUnavailable
	}
	if r.Canary != nil {
		p.Canary = &Canary{Count: int(cmp.Or(r.Canary.Count, 1)), Soak: Duration(r.Canary.Soak, 10*time.Minute)}
	}
	for i, w := range r.MaintenanceWindows {
		window, err := ParseWindow(w)
		if err != nil {
			p.Faults = append(p.Faults, fmt.Sprintf("spec.rollout.maintenanceWindows[%d].%v", i, err))
		}
		p.Windows = append(p.Windows, window)
	}
	var faults []string
	p.Updates, faults = UpdatesOf(spec.WindowsUpdates)
	p.Faults = append(p.Faults, faults...)
	return p
}

// Duration parses a duration that the API server has validated; the default is otherwise.
func Duration(text string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(text); err == nil && text != "" {
		return d
	}
	return otherwise
}

// defaultSettle is the default for rollout.drain.settle.
const defaultSettle = 2 * time.Minute

// SettlesUntil returns the time until which the host of a drained node keeps its place in the budget; settle is the user's rollout.drain.settle.
func SettlesUntil(drainedAt *metav1.Time, settle string) time.Time {
	if drainedAt == nil {
		return time.Time{}
	}
	return drainedAt.Add(Duration(settle, defaultSettle))
}

// HostOf returns the Host for an instance and its Node, which may be nil. The caller sets Replace, Granted, and the fields that depend on a version's
// content (Staged, Disruption).
func HostOf(i *v1alpha1.WindowsInstance, node *corev1.Node) Host {
	if node != nil && nodestate.ClaimOf(i, node) != nodestate.Own {
		node = nil
	}
	h := Host{
		Name:        i.Name,
		Node:        NodeOf(node),
		Leaving:     i.DeletionTimestamp != nil,
		Released:    i.Annotations[api.AnnotationRelease] == "true",
		Paused:      i.Spec.Paused,
		ReplaceWith: i.Spec.ReplaceWith,
		Source:      i.Labels[api.LabelSource],
		Maintenance: i.Status.Maintenance,
		Failure:     i.Status.Failure,

		LastReboot: i.Status.LastReboot,
		Installed:  i.Status.InstalledUpdates,
	}
	if configured := meta.FindStatusCondition(i.Status.Conditions, api.ConditionConfigured); configured != nil {
		h.Joined, h.AdoptionPending = configured.Status == metav1.ConditionTrue, configured.Reason == api.ReasonAdoptionPending
	}
	// A node that existed before its last join failed changes its version by an upgrade, not by a join.
	h.Joined = h.Joined || !h.AdoptionPending && h.Node != nil && h.Node.Version != ""
	if ready := meta.FindStatusCondition(i.Status.Conditions, api.ConditionNodeReady); node == nil && ready != nil && ready.Reason == api.ReasonNodeMissing {
		h.MissingSince = ready.LastTransitionTime.Time
	}
	if i.Status.Payload.Since != nil {
		h.Since = i.Status.Payload.Since.Time
	}
	return h
}
