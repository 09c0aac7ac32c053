package instance

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
)

// rebootRemembered is the minimum time for which the causes of a restart are remembered: a program that requires a restart after each boot must not
// cause one again and again.
const rebootRemembered = 24 * time.Hour

// setReboot sets why Windows requires a restart, and whether the last one helped.
func (c *Controller) setReboot(_ context.Context, p *pass) (time.Duration, error) {
	st := p.status.want()
	required := meta.FindStatusCondition(st.Conditions, api.ConditionRebootRequired)
	h := rollout.HostOf(p.Instance, p.Node)
	h.LastReboot = st.LastReboot
	if h.Node == nil || h.Node.RebootPending == "" {
		if required != nil && (required.Reason == api.ReasonRebootPending || required.Reason == api.ReasonRebootDidNotHelp) {
			meta.RemoveStatusCondition(&st.Conditions, api.ConditionRebootRequired)
		}
		return forgetReboot(h, st), nil
	}
	reason, message := api.ReasonRebootPending, api.RebootPendingPrefix+h.Node.RebootPending
	if st.LastReboot != nil && h.Node.ReportedBoot == h.Node.BootID && !h.RebootMayHelp() {
		reason = api.ReasonRebootDidNotHelp
		message = fmt.Sprintf("the restart at %s did not help; Windows is not restarted again for the same causes: %s; fix the cause, "+
			"or annotate the WindowsInstance with %s=true to allow another restart", st.LastReboot.At.UTC().Format(time.RFC3339), h.Node.RebootPending, api.AnnotationRetry)
	}
	if reason == api.ReasonRebootDidNotHelp && (required == nil || required.Reason != reason) {
		c.Events.Emit(kube.Event{Object: p.Instance, Related: p.Node, Type: corev1.EventTypeWarning, Reason: api.EventRebootDidNotHelp, Action: "Observe"}, "%s", message)
	}
	meta.SetStatusCondition(&st.Conditions, metav1.Condition{
		Type: api.ConditionRebootRequired, Status: metav1.ConditionTrue, Reason: reason, Message: message, ObservedGeneration: p.Instance.Generation,
	})
	return 0, nil
}

// forgetReboot clears the last restart after rebootRemembered, if Windows requires none. It returns when to check again.
func forgetReboot(h rollout.Host, st *v1alpha1.WindowsInstanceStatus) (again time.Duration) {
	if st.LastReboot == nil || h.Node == nil || h.Node.ReportedBoot != h.Node.BootID {
		return 0
	}
	remaining := rebootRemembered - time.Since(st.LastReboot.At.Time)
	if remaining <= 0 {
		st.LastReboot = nil
	}
	return max(remaining, 0)
}
