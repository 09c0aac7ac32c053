// Package drain decides, purely, what happens to the pods of a node that goes out of service: which are asked to leave, which stay,
// and what to tell about those that do not go.
//
// Pods leave by eviction, with their own grace, and as their budgets allow. Those of DaemonSets would come back at once, and
// static ones are the kubelet's own: both stay.
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
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// stuckAfter is how much longer than its grace a pod may take to end before it is told of: the kubelet reports with a delay.
const stuckAfter = time.Minute

// Pods are the pods of a node, by what happens to them. What stays is in none of them.
type Pods struct {
	// Evict are those that have not been asked to leave.
	Evict []corev1.Pod
	// Leaving are those that end within their grace, Stuck those that should have.
	Leaving, Stuck []corev1.Pod
}

// Look sorts the pods of a node.
func Look(pods []corev1.Pod, now time.Time) Pods {
	var p Pods
	for _, pod := range pods {
		switch {
		case stays(&pod):
		case pod.DeletionTimestamp == nil:
			p.Evict = append(p.Evict, pod)
		case now.After(pod.DeletionTimestamp.Add(stuckAfter)): // it includes the grace (metav1.ObjectMeta)
			p.Stuck = append(p.Stuck, pod)
		default:
			p.Leaving = append(p.Leaving, pod)
		}
	}
	return p
}

// stays says whether a pod is left where it is. In one that has finished nothing runs any more.
func stays(pod *corev1.Pod) bool {
	_, isMirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	hasFinished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	owner := metav1.GetControllerOf(pod)
	isDaemons := owner != nil && owner.Kind == "DaemonSet" && strings.HasPrefix(owner.APIVersion, "apps/")
	return isMirror || hasFinished || isDaemons
}

// Gone says that no pod is left that has to go.
func (p Pods) Gone() bool { return len(p.Evict)+len(p.Leaving)+len(p.Stuck) == 0 }

// Report says in a reason and a sentence what a drain waits for. Refused says, for pods that could not be evicted, why. As long as
// nothing happens it says the same, so that it is written once.
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
		parts = append(parts, fmt.Sprintf("%s should have ended at %s%s", Name(&pod), clock(&pod), held(&pod)))
	}
	for _, pod := range p.Leaving {
		parts = append(parts, fmt.Sprintf("%s ends by %s", Name(&pod), clock(&pod)))
	}
	if late {
		reason = api.ReasonDrainTimeout
	}
	left := len(p.Evict) + len(p.Leaving) + len(p.Stuck)
	message = fmt.Sprintf("pods that have to leave: %d", left)
	if len(parts) > 0 {
		message += "; " + shorten.List(parts, maxNamed, "; ")
	}
	return reason, message
}

// maxNamed is how many pods are named in a message.
const maxNamed = 10

// clock is when the grace of a pod ends.
func clock(pod *corev1.Pod) string { return pod.DeletionTimestamp.UTC().Format("15:04:05Z") }

// held says what keeps a pod that has ended.
func held(pod *corev1.Pod) string {
	if len(pod.Finalizers) == 0 {
		return ""
	}
	return " and is held by finalizers " + strings.Join(pod.Finalizers, ", ")
}

// Name of a pod, as users write it.
func Name(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
