//go:build linux

package e2e

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// outageWatch measures how long nodes are out of service, and how long pods take to terminate.
type outageWatch struct {
	mu       sync.Mutex
	since    map[string]time.Time // node -> when it was drained
	cordoned map[string]time.Time
	ended    []string
	longest  time.Duration
	stopping map[types.UID]time.Time // pod -> when its deletion began
	pods     map[types.UID]time.Duration
}

// outageTarget is how long a node should be out of service at most, in addition to its drain.
const outageTarget = 20 * time.Second

// watchOutages measures from now on.
func (p harness) watchOutages() *outageWatch {
	w := &outageWatch{
		since: map[string]time.Time{}, cordoned: map[string]time.Time{}, stopping: map[types.UID]time.Time{}, pods: map[types.UID]time.Duration{},
	}
	p.repeat(50*time.Millisecond, func(ctx context.Context) { // the precision of the measurement
		var instances v1alpha1.WindowsInstanceList
		var nodes corev1.NodeList
		pods, err := p.Pods(ctx, appSlow)
		if err == nil && p.Client.List(ctx, &instances) == nil && p.Client.List(ctx, &nodes) == nil {
			w.observe(time.Now(), instances.Items, nodes.Items)
			w.observePods(time.Now(), pods)
		}
	})
	return w
}

func (w *outageWatch) observe(now time.Time, instances []v1alpha1.WindowsInstance, nodes []corev1.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	isDrained := map[string]bool{}
	for _, i := range instances {
		isDrained[i.Status.Hostname] = i.Status.Maintenance != nil && i.Status.Maintenance.Step != v1alpha1.MaintenanceDrain
	}
	for _, node := range nodes {
		if node.Spec.Unschedulable {
			if _, known := w.cordoned[node.Name]; !known {
				w.cordoned[node.Name] = now
			}
			if _, known := w.since[node.Name]; !known && isDrained[node.Name] {
				w.since[node.Name] = now
			}
			continue
		}
		if since, out := w.since[node.Name]; out && notReady(&node) == "" {
			took := now.Sub(since)
			w.longest = max(w.longest, took)
			w.ended = append(w.ended, fmt.Sprintf("%s: drained in %s, then out of service for %s", node.Name,
				since.Sub(w.cordoned[node.Name]).Round(10*time.Millisecond), took.Round(10*time.Millisecond)))
			delete(w.since, node.Name)
		}
		delete(w.cordoned, node.Name)
	}
}

func (w *outageWatch) observePods(now time.Time, pods []corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := map[types.UID]bool{}
	for _, pod := range pods {
		found[pod.UID] = true
		if _, known := w.stopping[pod.UID]; !known && pod.DeletionTimestamp != nil {
			w.stopping[pod.UID] = now
		}
	}
	for uid, stopping := range w.stopping {
		if _, known := w.pods[uid]; !known && !found[uid] {
			w.pods[uid] = now.Sub(stopping)
		}
	}
}

// terminationTime returns how long a pod existed after its deletion began.
func (w *outageWatch) terminationTime(pod types.UID) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[pod]
}

// logOutages logs the measurements since the last call, and returns the longest outage.
func (p harness) logOutages(w *outageWatch) (longest time.Duration) {
	p.t.Helper()
	p.eventually("all outages are over", func(context.Context) string {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.since) > 0 {
			return fmt.Sprintf("out of service: %v", w.since)
		}
		return ""
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, line := range w.ended {
		p.t.Log(line)
	}
	p.t.Logf("longest outage of a node in addition to its drain: %s (target on an idle machine: %s)", w.longest.Round(10*time.Millisecond), outageTarget)
	longest = w.longest
	w.ended, w.longest = nil, 0
	return longest
}
