// Package runtimeclass maintains the RuntimeClasses that schedule pods to Windows nodes that can run their images.
package runtimeclass

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

const (
	// useCheckInterval is how often the operator checks whether pods still use a class that must be deleted.
	useCheckInterval = time.Minute
	// useCheckTimeout is the timeout of that check, which reads all pods.
	useCheckTimeout = 30 * time.Second
)

// Controller maintains the classes.
type Controller struct {
	Client client.Client
	// Live reads pods, which are not cached.
	Live   client.Reader
	Events kube.Events
}

// Register adds the controller to the manager.
func (c *Controller) Register(_ context.Context, m manager.Manager) error {
	enqueue := kube.Enqueue("", "all")
	return builder.ControllerManagedBy(m).
		Named("runtime-classes").
		Watches(&nodev1.RuntimeClass{}, enqueue).
		Watches(&v1alpha1.WindowsConfig{}, enqueue, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Node{}, enqueue, builder.WithPredicates(capabilityChanged())).
		Complete(c)
}

// capabilityChanged passes Node events that may add a build of Windows, or Hyper-V on it.
func capabilityChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return nodestate.IsWindows(e.Object.(*corev1.Node)) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			previous, current := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			return previous.Status.NodeInfo.KernelVersion != current.Status.NodeInfo.KernelVersion || previous.Labels[api.LabelHyperV] != current.Labels[api.LabelHyperV]
		},
	}
}

// Reconcile creates, updates and deletes classes to match WindowsConfig.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	config, err := kube.ReadConfig(ctx, c.Client)
	if err != nil {
		return reconcile.Result{}, err
	}
	nodes, err := kube.WindowsNodes(ctx, c.Client)
	if err != nil {
		return reconcile.Result{}, err
	}
	var list nodev1.RuntimeClassList
	if err := c.Client.List(ctx, &list); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing RuntimeClasses: %w", err)
	}
	current := map[string]*nodev1.RuntimeClass{}
	for i := range list.Items {
		current[list.Items[i].Name] = &list.Items[i]
	}
	declared := declare(config)
	var errs []error
	for _, want := range declared {
		class := current[want.class.Name]
		if class != nil && isManaged(class) && class.Handler != want.class.Handler {
			continue // the handler is immutable: the class is deleted when no pod uses it, and created again
		}
		errs = append(errs, c.ensure(ctx, class, want, nodes))
		delete(current, want.class.Name)
	}
	maps.DeleteFunc(current, func(_ string, class *nodev1.RuntimeClass) bool { return !isManaged(class) })
	inUse, err := c.remove(ctx, current)
	errs = append(errs, err)
	if inUse {
		return reconcile.Result{RequeueAfter: useCheckInterval}, errors.Join(errs...)
	}
	return reconcile.Result{}, errors.Join(errs...)
}

func isManaged(class *nodev1.RuntimeClass) bool {
	return class.Labels[api.LabelManagedBy] == api.ManagedBy
}

// ensure creates a class if there is a node for it, or updates an existing one. It does not change a class that another party created.
func (c *Controller) ensure(ctx context.Context, current *nodev1.RuntimeClass, want declared, nodes []corev1.Node) error {
	switch {
	case current == nil && !want.hasNode(nodes):
		return nil
	case current == nil:
		if err := c.Client.Create(ctx, &want.class); err != nil {
			return fmt.Errorf("creating RuntimeClass %s: %w", want.class.Name, err)
		}
		return nil
	case !isManaged(current):
		c.Events.Emit(kube.Event{Object: current, Type: corev1.EventTypeWarning, Reason: api.EventRuntimeClassConflict, Action: "Keep"},
			"The operator did not create this RuntimeClass and does not change it; its scheduling applies to pods that use it. Delete it to have the operator create its own, "+
				"or remove the name from spec.runtimeClasses of WindowsConfig %s", api.WindowsConfigName)
		return nil
	}
	updated := current.DeepCopy()
	updated.Labels = kube.Merge(current.Labels, want.class.Labels)
	for _, label := range []string{api.LabelImages, api.LabelDefaultClass} {
		if want.class.Labels[label] == "" {
			delete(updated.Labels, label)
		}
	}
	updated.Scheduling, updated.Overhead = want.class.Scheduling, want.class.Overhead
	if equality.Semantic.DeepEqual(current, updated) {
		return nil
	}
	if err := c.Client.Update(ctx, updated); err != nil {
		return fmt.Errorf("updating RuntimeClass %s: %w", current.Name, err)
	}
	return nil
}

// remove deletes classes that no pod uses, and reports whether some are still in use: without the class, a kubelet cannot restart a pod, and the API
// server rejects new pods that name it.
func (c *Controller) remove(ctx context.Context, classes map[string]*nodev1.RuntimeClass) (inUse bool, err error) {
	if len(classes) == 0 {
		return false, nil
	}
	used, err := c.usedByPods(ctx)
	if err != nil {
		return true, err
	}
	var errs []error
	for name, class := range classes {
		if used[name] {
			inUse = true
			continue
		}
		err := c.Client.Delete(ctx, class, client.Preconditions{UID: &class.UID, ResourceVersion: &class.ResourceVersion})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("deleting RuntimeClass %s: %w", name, err))
		}
	}
	return inUse, errors.Join(errs...)
}

func (c *Controller) usedByPods(ctx context.Context) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, useCheckTimeout)
	defer cancel()
	used := map[string]bool{}
	note := func(pod *corev1.Pod) bool {
		if pod.Spec.RuntimeClassName != nil {
			used[*pod.Spec.RuntimeClassName] = true
		}
		return true
	}
	return used, kube.EachPod(ctx, c.Live, note)
}
