package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/drain"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
)

// drainInterval is how often the pods of a node are checked while it is drained.
const drainInterval = 2 * time.Second

// drain cordons the node and evicts its pods until none that must leave remains.
func (m *maintenance) drain(ctx context.Context) (time.Duration, error) {
	node := rollout.NodeOf(m.view.Node)
	if node == nil || m.current().Action == v1alpha1.ActionLeave && node.Silent && node.Broken(time.Now()) {
		return m.drained(ctx) // no kubelet would end the pods; they go with the Node. If the action needs a Node, step has ensured it
	}
	unplaceable, err := m.unplaceablePods(ctx)
	if err != nil {
		return 0, err
	}
	if unplaceable != "" {
		return m.fail(ctx, unplaceable)
	}
	err = m.cordon(ctx)
	if apierrors.IsForbidden(err) && m.current().Action == v1alpha1.ActionLeave {
		m.emitForeignNode(m.view, "Drain", err)
		return m.drained(ctx)
	}
	if err != nil {
		return 0, err
	}
	var list []corev1.Pod
	add := func(pod *corev1.Pod) bool {
		list = append(list, drain.Trim(pod, node.Name))
		return true
	}
	if err := kube.EachPod(ctx, m.Live, add, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.nodeName", node.Name)}); err != nil {
		return 0, fmt.Errorf("node %s: %w", node.Name, err)
	}
	if err := m.recordYoungest(ctx, list); err != nil {
		return 0, err
	}
	pods := drain.Classify(list, drainOf(node.Name, m.current()), time.Now())
	settings := m.view.config.Rollout.Drain
	timeout := rollout.Duration(settings.Timeout, time.Hour)
	late := m.elapsed(timeout) > timeout
	forced := late && settings.OnTimeout == v1alpha1.DrainForce
	var left []corev1.Pod
	if forced && endsPods(m.current().Action) {
		left = pods.TakeStuck()
	}
	if pods.Drained() {
		m.recordRemaining(corev1.EventTypeWarning, "should have terminated long ago", left)
		m.recordRemaining(corev1.EventTypeNormal, "arrived after it was cordoned", pods.Arrived)
		return m.drained(ctx)
	}
	if st := m.status.want(); st.DrainedAt == nil {
		st.DrainedAt = &metav1.Time{Time: time.Now()}
	}
	m.settles.recordEvictions(m.id(), pods.Evict)
	refused, err := m.evict(ctx, pods.Evict, forced)
	reason, message := drain.Report(pods, refused, late)
	if late && settings.OnTimeout == v1alpha1.DrainAbort && m.current().Action != v1alpha1.ActionLeave {
		return m.fail(ctx, "pods remain after rollout.drain.timeout: "+message)
	}
	meta.SetStatusCondition(&m.status.want().Conditions, metav1.Condition{
		Type: api.ConditionDraining, Status: metav1.ConditionTrue, Reason: reason, Message: message, ObservedGeneration: m.view.Instance.Generation,
	})
	return drainInterval, err
}

// drainOf returns what a drain needs to know about its node.
func drainOf(name string, m *v1alpha1.Maintenance) drain.Node {
	node := drain.Node{Name: name, Began: m.StepStartedAt.Time}
	if m.YoungestPod != nil {
		node.Youngest = m.YoungestPod.Time
	}
	return node
}

// recordYoungest records, once the node is cordoned, when its youngest pod was created, so that a restarted operator does not mistake later pods for
// earlier ones.
func (m *maintenance) recordYoungest(ctx context.Context, pods []corev1.Pod) error {
	youngest := drain.Youngest(pods)
	if m.current().YoungestPod != nil || youngest.IsZero() {
		return nil
	}
	m.current().YoungestPod = &metav1.Time{Time: youngest}
	return m.status.write(ctx)
}

// endsPods reports whether an action ends all pods of its node, including those that nothing else can end.
func endsPods(a v1alpha1.PlanAction) bool {
	return a == v1alpha1.ActionReboot || a == v1alpha1.ActionPatch || a == v1alpha1.ActionLeave || a == v1alpha1.ActionReplace
}

// recordRemaining records an event for pods that remain on the node although it counts as drained.
func (m *maintenance) recordRemaining(kind, reason string, pods []corev1.Pod) {
	if len(pods) > 0 {
		m.Events.Emit(kube.Event{Object: m.view.Instance, Type: kind, Reason: api.EventPodsRemain, Action: string(m.current().Action)},
			"the node is drained, except for pods that %s: %s", reason, drain.Names(pods))
	}
}

func (m *maintenance) drained(ctx context.Context) (time.Duration, error) {
	meta.RemoveStatusCondition(&m.status.want().Conditions, api.ConditionDraining)
	if st := m.status.want(); st.DrainedAt != nil { // pods had to leave
		st.DrainedAt = &metav1.Time{Time: time.Now()}
	}
	return m.enter(ctx, v1alpha1.MaintenanceAct)
}

// evict evicts pods, each with its own grace period unless the user overrides it. It returns why evictions were refused, by pod. If forced, pods are
// deleted regardless of their disruption budgets.
func (m *maintenance) evict(ctx context.Context, pods []corev1.Pod, forced bool) (refused map[string]string, err error) {
	var errs []error
	refused = map[string]string{}
	for i := range pods {
		err := m.evictOne(ctx, &pods[i], forced)
		switch {
		case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err): // gone, or replaced by another pod of that name
		case isRefusal(err):
			refused[drain.Name(&pods[i])] = refusal(err)
		default:
			errs = append(errs, fmt.Errorf("evicting pod %s: %w", drain.Name(&pods[i]), err))
		}
	}
	return refused, errors.Join(errs...)
}

func (m *maintenance) evictOne(ctx context.Context, pod *corev1.Pod, forced bool) error {
	options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	if grace := m.view.config.Rollout.Drain.GracePeriodOverride; grace != nil {
		seconds := int64(*grace)
		options.GracePeriodSeconds = &seconds
	}
	if forced {
		return m.Client.Delete(ctx, pod, &client.DeleteOptions{Preconditions: options.Preconditions, GracePeriodSeconds: options.GracePeriodSeconds})
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, DeleteOptions: options}
	return m.Client.SubResource("eviction").Create(ctx, pod, eviction)
}

// isRefusal reports whether the API server refused the eviction: a budget does not allow it (429), a webhook forbids it, or two budgets match the
// pod, which is an internal error (500). An unavailable API server has not refused.
func isRefusal(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && !apierrors.IsServiceUnavailable(err) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err)
}

// refusal returns the API server's reason for refusing an eviction, with the budget that its details name.
func refusal(err error) string {
	message := err.Error()
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			message = cause.Message
		}
	}
	return message
}
