package storytest

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

const (
	stuckFinalizer = "story/stuck"
	podGrace       = 10 * time.Second
	podReadyAfter  = 20 * time.Second
	// taintEvicts is the time after which the cluster deletes the pods of a node that is not Ready.
	taintEvicts = 5 * time.Minute
)

// chaosApp is a Deployment with a PodDisruptionBudget that allows one missing pod.
type chaosApp struct {
	name     string
	replicas int
	// tolerates means that its pods tolerate all taints, and are therefore scheduled on cordoned nodes too.
	tolerates bool
	blocked   bool // the budget allows no eviction
}

func (w *chaosWorld) newApps() {
	for n := range 1 + w.rand.IntN(3) {
		w.apps = append(w.apps, &chaosApp{name: fmt.Sprintf("app%d", n+1), replicas: 2 + w.rand.IntN(len(w.hosts))})
	}
	if w.chance(0.25) {
		w.apps = append(w.apps, &chaosApp{name: "tolerant", replicas: 1, tolerates: true})
	}
}

func (w *chaosWorld) app(name string) *chaosApp {
	return w.apps[slices.IndexFunc(w.apps, func(a *chaosApp) bool { return a.name == name })]
}

// eachPod visits all pods, which must not be changed.
func (w *chaosWorld) eachPod(visit func(*corev1.Pod)) {
	for _, o := range w.cache.sorted("Pod") {
		visit(o.(*corev1.Pod))
	}
}

func isStuck(pod *corev1.Pod) bool { return slices.Contains(pod.Finalizers, stuckFinalizer) }

// advancePods ends pods, deletes those of nodes that have been NotReady for long, and creates the ones that Deployments lack.
func (w *chaosWorld) advancePods() {
	count, load := map[string]int{}, map[string]int{}
	w.eachPod(func(pod *corev1.Pod) {
		h := w.host(pod.Spec.NodeName)
		removed := h.nodeSeen() == nil
		switch ending := pod.DeletionTimestamp != nil; {
		case removed, ending && h.connected() && !isStuck(pod) && time.Since(pod.DeletionTimestamp.Time) >= podGrace:
			w.removePod(pod)
		case ending:
		case !h.notReadySince.IsZero() && time.Since(h.notReadySince) >= taintEvicts && !w.app(pod.Labels["app"]).tolerates:
			w.must(w.client.Delete(w.ctx, pod.DeepCopy()))
		default:
			count[pod.Labels["app"]]++
			load[pod.Spec.NodeName]++
		}
	})
	for _, a := range w.apps {
		for count[a.name] < a.replicas {
			h := w.freeHost(a, load)
			if h == nil {
				break
			}
			w.createPod(a, h)
			count[a.name]++
			load[h.name]++
		}
	}
}

// freeHost picks the node for a pod as the scheduler does: the one with the fewest pods that accepts it.
func (w *chaosWorld) freeHost(a *chaosApp, load map[string]int) (least *chaosHost) {
	for _, h := range w.hosts {
		node := h.nodeSeen()
		if node == nil || !nodestate.IsReady(node) || node.Spec.Unschedulable && !a.tolerates {
			continue
		}
		if least == nil || load[h.name] < load[least.name] {
			least = h
		}
	}
	return least
}

func (w *chaosWorld) createPod(a *chaosApp, h *chaosHost) {
	w.pods++
	name := fmt.Sprintf("%s-%d", a.name, w.pods)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": a.name}, Finalizers: []string{"story/grace"}, CreationTimestamp: metav1.Now(),
	}, Spec: corev1.PodSpec{NodeName: h.name}}
	if a.tolerates {
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	yes := true
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: a.name, Controller: &yes}}
	w.must(w.client.Create(w.ctx, pod))
}

// removePod removes a pod that has ended or whose Node is gone.
func (w *chaosWorld) removePod(seen *corev1.Pod) {
	pod := seen.DeepCopy()
	if pod.DeletionTimestamp == nil {
		w.must(w.client.Delete(w.ctx, pod.DeepCopy()))
		w.must(w.client.Get(w.ctx, keyOf(seen), pod))
	}
	pod.Finalizers = nil
	w.must(w.client.Update(w.ctx, pod))
}

// evict acts as the API server does on an eviction.
func (w *chaosWorld) evict(pod *corev1.Pod, e *policyv1.Eviction) error {
	o, found := w.cache.objects["Pod"][keyOf(pod)]
	if !found {
		return apierrors.NewNotFound(corev1.Resource("pods"), pod.Name)
	}
	now := o.(*corev1.Pod)
	if u := e.DeleteOptions.Preconditions.UID; u != nil && *u != now.UID {
		return apierrors.NewConflict(corev1.Resource("pods"), pod.Name, fmt.Errorf("another UID"))
	}
	if now.DeletionTimestamp != nil {
		return nil
	}
	if a := w.app(now.Labels["app"]); !w.mayBeMissing(a) {
		err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget " + a.name + " needs more healthy pods"}}
		return err
	}
	w.evicted(now, "evicted")
	return w.client.Delete(w.ctx, now.DeepCopy())
}

// mayBeMissing reports whether the app's budget allows one more missing pod.
func (w *chaosWorld) mayBeMissing(a *chaosApp) bool {
	working := 0
	w.eachPod(func(pod *corev1.Pod) {
		if pod.Labels["app"] == a.name && pod.DeletionTimestamp == nil && time.Since(pod.CreationTimestamp.Time) >= podReadyAfter && w.host(pod.Spec.NodeName).notReadySince.IsZero() {
			working++
		}
	})
	return !a.blocked && working >= a.replicas
}

// evicted checks that a pod is evicted by a drain, and that its replacement is not evicted in the same drain.
func (w *chaosWorld) evicted(pod *corev1.Pod, how string) {
	h := w.host(pod.Spec.NodeName)
	m := h.maintenance()
	w.evictions++
	w.record("pod %s is %s from %s", pod.Name, how, h.name)
	if m == nil || m.Step != v1alpha1.MaintenanceDrain {
		w.breach(ruleCause, "pod %s is %s from %s, where no drain is under way: %+v", pod.Name, how, h.name, m)
		return
	}
	hold := h.effect("evict")
	app := pod.Labels["app"]
	if hold.evicted == nil {
		hold.evicted = map[string]int{}
	}
	hold.evicted[app]++
	if w.app(app).tolerates && hold.evicted[app] > 1 {
		w.breach(ruleCause, "pod %s is %s from %s: the %dth of its Deployment in the same drain", pod.Name, how, h.name, hold.evicted[app])
	}
}

// mustLeave counts the pods on a node that are not terminating.
func (h *chaosHost) mustLeave() (n int) {
	h.w.eachPod(func(pod *corev1.Pod) {
		if pod.Spec.NodeName == h.name && pod.DeletionTimestamp == nil {
			n++
		}
	})
	return n
}
