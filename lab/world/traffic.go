//go:build linux

package world

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Traffic asks the pods of an app one after the other, as clients of a Service would: those that are Ready and not being
// deleted. It counts what became of that.
type Traffic struct {
	world *World
	app   string
	stop  context.CancelFunc
	ended chan struct{}

	mu       sync.Mutex
	answered int
	failures []string
}

// StartTraffic begins to ask, with a pause after each answer. It ends with the context, or with Stop.
func (w *World) StartTraffic(ctx context.Context, app string, pause time.Duration) *Traffic {
	ctx, stop := context.WithCancel(ctx)
	t := &Traffic{world: w, app: app, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(t.ended)
		for n := 0; ctx.Err() == nil; n++ {
			t.ask(ctx, n)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	}()
	return t
}

// stale is how old what a client knows of pods may be. A pod goes on for two seconds once it is asked to stop: on a machine that stands
// still for longer in between, a client would ask one that ended in order.
const stale = time.Second

func (t *Traffic) ask(ctx context.Context, n int) {
	began := time.Now()
	pods, err := t.world.Pods(ctx, t.app)
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

// Counts returns how many requests were answered so far, and of each other what went wrong.
func (t *Traffic) Counts() (answered int, failures []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answered, slices.Clone(t.failures)
}

// Stop ends it and returns the counts.
func (t *Traffic) Stop() (answered int, failures []string) {
	t.stop()
	<-t.ended
	return t.Counts()
}
