package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// Notify sends an event without a particular object to a channel of size 1, for a controller to reconcile. It never blocks: an event that is
// still pending covers both changes.
func Notify(changed chan<- ctrlevent.GenericEvent) {
	select {
	case changed <- ctrlevent.GenericEvent{Object: &v1alpha1.WindowsConfig{}}:
	default:
	}
}

// RunEvery calls a function when the manager starts, and again a pause after each call, until the manager stops.
func RunEvery(m manager.Manager, pause time.Duration, call func(context.Context)) error {
	return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
		wait.UntilWithContext(ctx, call, pause)
		return nil
	}))
}
