package instance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
)

const (
	// settleInterval is how often setSettled checks whether the pods that left a node have been replaced.
	settleInterval = 5 * time.Second
	// maxSettled limits the namespaces, and maxSettledPods the pods of each namespace, that setSettled checks.
	maxSettled     = 10
	maxSettledPods = 500
)

type owner struct {
	namespace string
	uid       types.UID
}

// settling records, by owner, the pods that left drained nodes: the next node is drained once they have been replaced. It is not persisted; after a
// restart of the operator, only the settle time counts.
type settling struct {
	mu     sync.Mutex
	counts map[types.NamespacedName]map[owner]map[types.UID]bool
}

func newSettling() *settling {
	return &settling{counts: map[types.NamespacedName]map[owner]map[types.UID]bool{}}
}

// recordEvictions records pods that are evicted from the node of an instance.
func (s *settling) recordEvictions(id types.NamespacedName, pods []corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts[id] == nil {
		s.counts[id] = map[owner]map[types.UID]bool{}
	}
	for i := range pods {
		controller := metav1.GetControllerOf(&pods[i])
		if controller == nil {
			continue // no controller replaces it
		}
		key := owner{pods[i].Namespace, controller.UID}
		if s.counts[id][key] == nil {
			s.counts[id][key] = map[types.UID]bool{}
		}
		s.counts[id][key][pods[i].UID] = true
	}
}

// evicted returns how many pods of each owner were evicted; known is false if none were recorded.
func (s *settling) evicted(id types.NamespacedName) (evicted map[owner]int, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts, known := s.counts[id]
	evicted = map[owner]int{}
	for key, pods := range counts {
		evicted[key] = len(pods)
	}
	return evicted, known
}

func (s *settling) forget(id types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.counts, id)
}

// setSettled ends the settle time of a drained node as soon as the evicted pods have been replaced.
func (c *Controller) setSettled(ctx context.Context, p *pass) (time.Duration, error) {
	st := p.status.want()
	if st.Maintenance != nil || st.DrainedAt == nil {
		return 0, nil
	}
	remaining := time.Until(rollout.SettlesUntil(st.DrainedAt, p.config.Rollout.Drain.Settle))
	evicted, known := c.settles.evicted(p.id)
	if remaining > 0 && known && p.config.Rollout.Drain.Settle == "" {
		replaced, err := c.replaced(ctx, evicted)
		if err != nil {
			return 0, err
		}
		if replaced {
			remaining = 0
		}
	}
	if remaining <= 0 {
		st.DrainedAt = nil
		c.settles.forget(p.id)
		return 0, nil
	}
	return min(remaining, settleInterval), nil
}

// replaced reports whether each owner has at least as many Ready pods as were evicted, and no pod that is not Ready. If there are too many pods to
// check, they count as not replaced.
func (c *Controller) replaced(ctx context.Context, evicted map[owner]int) (bool, error) {
	namespaces := map[string]bool{}
	for key := range evicted {
		namespaces[key.namespace] = true
	}
	if len(namespaces) > maxSettled {
		return false, nil
	}
	ready := map[owner]int{}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		all, isSettled := 0, true
		visit := func(pod *corev1.Pod) bool {
			controller := metav1.GetControllerOf(pod)
			if all++; all > maxSettledPods {
				isSettled = false
			}
			if !isSettled || controller == nil || pod.DeletionTimestamp != nil || evicted[owner{namespace, controller.UID}] == 0 {
				return isSettled
			}
			isSettled = isReady(pod)
			ready[owner{namespace, controller.UID}]++
			return isSettled
		}
		if err := kube.EachPod(ctx, c.Live, visit, client.InNamespace(namespace)); err != nil {
			return false, fmt.Errorf("namespace %s: %w", namespace, err)
		}
		if !isSettled {
			return false, nil
		}
	}
	for key, n := range evicted {
		if ready[key] < n {
			return false, nil
		}
	}
	return true, nil
}

func isReady(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
