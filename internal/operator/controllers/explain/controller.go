// Package explain reports why Windows pods do not start, with one event and one annotation each time the cause changes.
package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/observe/advice"
	"github.com/windows-machine-config/wmco/internal/observe/podcause"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

const (
	// recheckInterval is how often a pod is checked without an event of its own: nodes and classes change too.
	recheckInterval = time.Minute
	// registryPollInterval is how often to check whether a registry has answered.
	registryPollInterval = 500 * time.Millisecond
	// viewLifetime is how long the view of nodes and classes is reused when many pods fail at once.
	viewLifetime = 2 * time.Second
	// patchTimeout is the timeout of a patch.
	patchTimeout = 10 * time.Second
)

// Controller reports why pods do not start.
type Controller struct {
	Options
	images *images
	advice advice.Table
	// known is the view of nodes and classes as of time at. Only one worker uses it.
	known podcause.Cluster
	at    time.Time
}

// Options are the controller's dependencies.
type Options struct {
	// Client reads Pending pods only.
	Client client.Client
	// Live finds pods that an earlier operator annotated and that have started since.
	Live   client.Reader
	Events kube.Events
	// Access returns how nodes reach registries.
	Access Access
	// Ranges contain no registries.
	Ranges Ranges
	// Limited reports whether the policies that allow the operator to change only one annotation of pods are in force. Until then, it changes none.
	Limited func(context.Context) (bool, error)
	// Registry receives the metrics.
	Registry prometheus.Registerer
}

// New returns the controller and registers its metric.
func New(o Options) *Controller {
	o.Registry.MustRegister(newCount(o.Client))
	return &Controller{Options: o, images: newImages(newRead(o.Access, o.Ranges)), advice: advice.All()}
}

// request names a pod. Started means that the pod is no longer Pending but still annotated.
type request struct {
	types.NamespacedName
	UID     types.UID
	Started bool
}

// Register adds the controller to the manager.
func (c *Controller) Register(_ context.Context, m manager.Manager) error {
	type queue = workqueue.TypedRateLimitingInterface[request]
	of := func(o client.Object, started bool) request {
		return request{client.ObjectKeyFromObject(o), o.GetUID(), started}
	}
	pods := handler.TypedFuncs[client.Object, request]{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { q.Add(of(e.Object, false)) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { q.Add(of(e.ObjectNew, false)) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { // deleted, or no longer Pending
			if e.Object.GetAnnotations()[api.AnnotationDoesNotStart] != "" {
				q.Add(of(e.Object, true))
			}
		},
	}
	if err := m.Add(manager.RunnableFunc(c.sweep)); err != nil {
		return err
	}
	return builder.TypedControllerManagedBy[request](m).Named("pods-that-do-not-start").Watches(&corev1.Pod{}, pods).Complete(c)
}

// Reconcile explains why a pod does not start.
func (c *Controller) Reconcile(ctx context.Context, r request) (reconcile.Result, error) {
	if limited, err := c.Limited(ctx); err != nil || !limited {
		return reconcile.Result{RequeueAfter: recheckInterval}, err
	}
	if r.Started {
		return reconcile.Result{}, c.annotate(ctx, r, "", "")
	}
	pod := &corev1.Pod{}
	err := c.Client.Get(ctx, r.NamespacedName, pod)
	if apierrors.IsNotFound(err) || err == nil && pod.UID != r.UID {
		return reconcile.Result{}, nil
	}
	if err == nil {
		err = c.refresh(ctx)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	cause := podcause.Of(pod, c.known)
	reported := podcause.Reported(pod).Reason
	if cause.Reason == reported {
		return reconcile.Result{RequeueAfter: recheckInterval}, nil
	}
	if cause.Reason == api.EventCredentialSpecMissing {
		exists, err := c.hasCredentialSpecs()
		if err != nil {
			return reconcile.Result{}, err
		}
		cause = cause.WithKind(exists)
	}
	if cause.Reason == api.EventImageForAnotherBuild {
		current, answer := c.images.get(ctx, cause.Image)
		switch answer {
		case pending:
			return reconcile.Result{RequeueAfter: registryPollInterval}, nil
		case answered:
			cause = cause.For(current)
		}
	}
	if err := c.report(ctx, pod, r, cause); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: recheckInterval}, nil
}

// refresh reads nodes and classes from the cache, unless it has done so within viewLifetime.
func (c *Controller) refresh(ctx context.Context) error {
	if time.Since(c.at) < viewLifetime {
		return nil
	}
	nodes, err := kube.WindowsNodes(ctx, c.Client)
	if err != nil {
		return err
	}
	var classes nodev1.RuntimeClassList
	if err := c.Client.List(ctx, &classes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing RuntimeClasses: %w", err)
	}
	handlers := map[string]string{}
	for _, class := range classes.Items {
		handlers[class.Name] = class.Handler
	}
	c.known, c.at = podcause.Cluster{Nodes: nodes, Handlers: handlers}, time.Now()
	return nil
}

// hasCredentialSpecs reports whether the cluster has the kind of windows-gmsa. If not, the mapper queries the API server for its group each time.
func (c *Controller) hasCredentialSpecs() (bool, error) {
	_, err := c.Client.RESTMapper().RESTMapping(schema.GroupKind{Group: "windows.k8s.io", Kind: "GMSACredentialSpec"})
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking up kind GMSACredentialSpec: %w", err)
	}
	return true, nil
}

// report annotates the pod and then emits the event, so that each cause has one event.
func (c *Controller) report(ctx context.Context, pod *corev1.Pod, r request, cause podcause.Cause) error {
	if cause.Reason == "" {
		return c.annotate(ctx, r, pod.ResourceVersion, "")
	}
	message := cause.Message + ". " + c.advice.For(cause.Reason).Remedy
	if err := c.annotate(ctx, r, pod.ResourceVersion, truncate.Text(cause.Reason+": "+c.Events.Masked(message), truncate.Note)); err != nil {
		return err
	}
	c.Events.Emit(kube.Event{Object: pod, Type: corev1.EventTypeWarning, Reason: cause.Reason, Action: "Start"}, "%s", message)
	return nil
}

// annotate sets the annotation on exactly this pod, or removes it if text is empty. With a version, it fails if the pod has changed since: a cache
// without the new annotation would otherwise cause a second event.
func (c *Controller) annotate(ctx context.Context, r request, version, text string) error {
	ctx, cancel := context.WithTimeout(ctx, patchTimeout)
	defer cancel()
	annotations := map[string]any{api.AnnotationDoesNotStart: text}
	if text == "" {
		annotations[api.AnnotationDoesNotStart] = nil
	}
	metadata := map[string]any{"uid": r.UID, "annotations": annotations}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	pod := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	err = c.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch))
	isOtherPod := r.Started && (apierrors.IsInvalid(err) || apierrors.IsConflict(err)) // the UID of an object is immutable
	if apierrors.IsNotFound(err) || isOtherPod {
		return nil
	}
	if err != nil {
		return fmt.Errorf("annotating pod %s: %w", r.NamespacedName, err)
	}
	return nil
}
