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
	"github.com/windows-machine-config/wmco/internal/nodestate"
)

// PolicyOf is what the user allows. A window that makes no sense never opens.
func PolicyOf(r v1alpha1.RolloutSpec, version string) Policy {
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
	return p
}

// Duration reads a duration that the API server has checked.
func Duration(text string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(text); err == nil && text != "" {
		return d
	}
	return otherwise
}

// defaultSettle is how long a drained node holds its place at most where the user does not say.
const defaultSettle = 2 * time.Minute

// SettlesUntil is until when the host of a node holds its place that was drained at some time; settle is the user's rollout.drain.settle.
func SettlesUntil(drainedAt *metav1.Time, settle string) time.Time {
	if drainedAt == nil {
		return time.Time{}
	}
	return drainedAt.Add(Duration(settle, defaultSettle))
}

// HostOf is what a plan must know of an instance and its Node, which may be nil. What the content of versions tells
// (Staged, Disruption), and Replace and Granted, are left to the caller.
func HostOf(i *v1alpha1.WindowsInstance, node *corev1.Node) Host {
	if node != nil && nodestate.ClaimOf(i, node) != nodestate.Own {
		node = nil
	}
	h := Host{
		Name:     i.Name,
		Node:     NodeOf(node),
		Leaving:  i.DeletionTimestamp != nil,
		Released: i.Annotations[api.AnnotationRelease] == "true",
		Paused:   i.Spec.Paused,
		UnderWay: i.Status.Maintenance,
		Failure:  i.Status.Failure,

		LastReboot: i.Status.LastReboot,
	}
	if configured := meta.FindStatusCondition(i.Status.Conditions, api.ConditionConfigured); configured != nil {
		h.Joined, h.AdoptionPending = configured.Status == metav1.ConditionTrue, configured.Reason == api.ReasonAdoptionPending
	}
	// A node that was there before its last join failed goes to another version in its turn, not by a join.
	h.Joined = h.Joined || !h.AdoptionPending && h.Node != nil && h.Node.Version != ""
	if ready := meta.FindStatusCondition(i.Status.Conditions, api.ConditionNodeReady); node == nil && ready != nil && ready.Reason == api.ReasonNodeMissing {
		h.MissingSince = ready.LastTransitionTime.Time
	}
	if i.Status.Payload.Since != nil {
		h.Since = i.Status.Payload.Since.Time
	}
	return h
}
