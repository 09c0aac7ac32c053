//go:build linux

package testenv

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Traffic sends requests to the pods of an app in turn, as clients of a Service would, and counts answers and failures. It uses pods
// that are Ready and not being deleted.
type Traffic struct {
	env   *Env
	app   string
	stop  context.CancelFunc
	ended chan struct{}

	mu       sync.Mutex
	answered int
	failures []string
}

// StartTraffic starts to send requests, with a pause after each answer, until the context ends or Stop is called.
func (env *Env) StartTraffic(ctx context.Context, app string, pause time.Duration) *Traffic {
	ctx, stop := context.WithCancel(ctx)
	t := &Traffic{env: env, app: app, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(t.ended)
		n := -1
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			n++
			t.request(ctx, n)
		}, pause)
	}()
	return t
}

// stale is the maximum age of a list of pods. A pod serves for two more seconds after its stop signal, so on a stalling
// machine, an older list could send a request to a pod that has terminated properly.
const stale = time.Second

func (t *Traffic) request(ctx context.Context, n int) {
	began := time.Now()
	pods, err := t.env.Pods(ctx, t.app)
	if time.Since(began) > stale {
		return
	}
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil || !isReady(&p) })
	about := "no pod of " + t.app + " is Ready"
	if err == nil && len(pods) > 0 {
		pod := pods[n%len(pods)]
		about = "pod " + pod.Name
		_, err = Call(ctx, pod.Status.PodIP, "/")
	}
	if ctx.Err() != nil {
		return // stopped meanwhile
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil && len(pods) > 0 {
		t.answered++
		return
	}
	t.failures = append(t.failures, fmt.Sprintf("%s %s: %v", time.Now().Format(time.TimeOnly), about, err))
}

// Counts returns the number of answered requests so far, and the errors of the others.
func (t *Traffic) Counts() (answered int, failures []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answered, slices.Clone(t.failures)
}

// Stop stops the traffic and returns the counts.
func (t *Traffic) Stop() (answered int, failures []string) {
	t.stop()
	<-t.ended
	return t.Counts()
}
