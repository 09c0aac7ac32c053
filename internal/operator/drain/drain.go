// Package drain decides, without side effects, what happens to the pods of a node that goes out of service: which are evicted, which stay, and what
// to report about those that do not leave.
//
// Pods are evicted, with their own grace period, and as their disruption budgets allow. Pods of DaemonSets would return at once, and static pods
// belong to the kubelet: both stay. So do pods that arrived although the node is cordoned: if they were evicted, others would endlessly take their
// place.
package drain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// stuckAfter is how much longer than its grace period a pod may take to end before it is reported: the kubelet reports with a delay.
const stuckAfter = time.Minute

// bindingDelay is how long after the cordon the scheduler may still bind pods to the node.
const bindingDelay = time.Minute

// Node is the node that is drained.
type Node struct {
	Name string
	// Began is when the drain began, by the operator's clock.
	Began time.Time
	// Youngest is when the youngest pod on the node at that time was created, by the API server's clock; zero until it has been determined.
	Youngest time.Time
}

// Pods are the pods of a node, by what happens to them. Pods that belong to the node are in none of the lists.
type Pods struct {
	// Evict are those that have not been evicted yet.
	Evict []corev1.Pod
	// Leaving are those within their grace period, Stuck those that should have ended (stuckAfter).
	Leaving, Stuck []corev1.Pod
	// Arrived are those that arrived although the node was cordoned, and stay.
	Arrived []corev1.Pod
}

// Classify sorts the pods of a node by what happens to them.
func Classify(pods []corev1.Pod, node Node, now time.Time) Pods {
	var p Pods
	for _, pod := range pods {
		switch {
		case belongs(&pod, node.Name):
		case pod.DeletionTimestamp == nil && hasArrived(&pod, node):
			p.Arrived = append(p.Arrived, pod)
		case pod.DeletionTimestamp == nil:
			p.Evict = append(p.Evict, pod)
		case now.After(pod.DeletionTimestamp.Add(stuckAfter)): // it includes the grace period (metav1.ObjectMeta)
			p.Stuck = append(p.Stuck, pod)
		default:
			p.Leaving = append(p.Leaving, pod)
		}
	}
	return p
}

// Trim returns the part of a pod that Classify and Report read, to be kept during a drain. The size of a whole pod is up to its owner.
func Trim(pod *corev1.Pod, node string) corev1.Pod {
	var kept corev1.Pod
	kept.Namespace, kept.Name, kept.UID, kept.ResourceVersion = pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion
	kept.CreationTimestamp, kept.DeletionTimestamp = pod.CreationTimestamp, pod.DeletionTimestamp
	kept.Finalizers = pod.Finalizers[:min(len(pod.Finalizers), maxNamed)]
	if owner := metav1.GetControllerOf(pod); owner != nil {
		kept.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	if mirrored, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]; ok {
		kept.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: mirrored}
	}
	if toleratesCordon(pod) {
		kept.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	if isPinned(pod, node) {
		kept.Spec.Affinity = pinnedTo(node)
	}
	kept.Spec.NodeName, kept.Status.Phase = pod.Spec.NodeName, pod.Status.Phase
	return kept
}

// Youngest returns when the youngest pod was created; zero if there are none.
func Youngest(pods []corev1.Pod) (at time.Time) {
	for _, pod := range pods {
		if pod.CreationTimestamp.After(at) {
			at = pod.CreationTimestamp.Time
		}
	}
	return at
}

// belongs reports whether a pod belongs to the node and stays. Finished pods stay too, because nothing runs in them.
func belongs(pod *corev1.Pod, node string) bool {
	_, isMirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	hasFinished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	owner := metav1.GetControllerOf(pod)
	isDaemonPod := owner != nil && (owner.Kind == "DaemonSet" && strings.HasPrefix(owner.APIVersion, "apps/") || isPinned(pod, node))
	return isMirror || hasFinished || isDaemonPod
}

// isPinned reports whether a controller created the pod for this very node, whatever its taints: daemon controllers other than DaemonSets do so.
func isPinned(pod *corev1.Pod, node string) bool {
	affinity := pod.Spec.Affinity
	if !toleratesCordon(pod) || affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	isForNode := func(r corev1.NodeSelectorRequirement) bool {
		return r.Key == metav1.ObjectNameField && r.Operator == corev1.NodeSelectorOpIn && slices.Equal(r.Values, []string{node})
	}
	for _, term := range terms { // terms are ORed
		if !slices.ContainsFunc(term.MatchFields, isForNode) {
			return false
		}
	}
	return len(terms) > 0
}

// pinnedTo returns an affinity for which isPinned is true.
func pinnedTo(node string) *corev1.Affinity {
	isNode := corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{isNode}}},
	}}}
}

// hasArrived reports whether a controller's pod arrived although the node was cordoned: it tolerates that, or it sets its node itself, without a scheduler.
// Pods that were bound at the last moment are evicted like the others.
func hasArrived(pod *corev1.Pod, node Node) bool {
	if metav1.GetControllerOf(pod) == nil || node.Youngest.IsZero() || !pod.CreationTimestamp.After(node.Youngest) {
		return false
	}
	return toleratesCordon(pod) || pod.CreationTimestamp.After(node.Began.Add(bindingDelay))
}

// toleratesCordon reports whether the scheduler binds a pod to a cordoned node.
func toleratesCordon(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		exists := t.Operator == corev1.TolerationOpExists
		isKey := t.Key == corev1.TaintNodeUnschedulable && (exists || t.Value == "") || t.Key == "" && exists
		return isKey && (t.Effect == "" || t.Effect == corev1.TaintEffectNoSchedule)
	})
}

// TakeStuck removes and returns the pods that should have ended long ago. Only an action that ends all pods after the drain may call it.
func (p *Pods) TakeStuck() (stuck []corev1.Pod) {
	stuck, p.Stuck = p.Stuck, nil
	return stuck
}

// Names returns the names of pods, as many as a message has room for.
func Names(pods []corev1.Pod) string {
	var names []string
	for i := range pods {
		names = append(names, Name(&pods[i]))
	}
	slices.Sort(names)
	return truncate.List(names, maxNamed, ", ")
}

// Drained reports whether all pods that must leave have left.
func (p Pods) Drained() bool { return len(p.Evict)+len(p.Leaving)+len(p.Stuck) == 0 }

// Report returns a reason and a sentence for what a drain waits for. refused maps the pods that could not be evicted to the causes. While nothing
// changes, the result stays the same, so that it is written once.
func Report(p Pods, refused map[string]string, late bool) (reason, message string) {
	var parts []string
	reason = api.ReasonDraining
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		reason = api.ReasonDrainBlocked
		parts = append(parts, fmt.Sprintf("%s cannot be evicted: %s", name, refused[name]))
	}
	for _, pod := range p.Stuck {
		if reason == api.ReasonDraining {
			reason = api.ReasonPodStuck
		}
		parts = append(parts, fmt.Sprintf("%s should have terminated at %s%s", Name(&pod), deletionTime(&pod), finalizers(&pod)))
	}
	for _, pod := range p.Leaving {
		parts = append(parts, fmt.Sprintf("%s terminates by %s", Name(&pod), deletionTime(&pod)))
	}
	if late {
		reason = api.ReasonDrainTimeout
	}
	if len(p.Arrived) > 0 {
		parts = append(parts, "not evicted, because they arrived after the node was cordoned: "+Names(p.Arrived))
	}
	remaining := len(p.Evict) + len(p.Leaving) + len(p.Stuck)
	message = fmt.Sprintf("pods left to drain: %d", remaining)
	if len(parts) > 0 {
		message += "; " + truncate.List(parts, maxNamed, "; ")
	}
	return reason, message
}

const maxNamed = 10

func deletionTime(pod *corev1.Pod) string { return pod.DeletionTimestamp.UTC().Format("15:04:05Z") }

func finalizers(pod *corev1.Pod) string {
	if len(pod.Finalizers) == 0 {
		return ""
	}
	return " and is held by finalizers " + strings.Join(pod.Finalizers, ", ")
}

// Name returns the name of a pod, as users write it.
func Name(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
