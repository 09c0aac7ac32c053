// Package userdata maintains Secret windows-user-data, with which new Machines are started on OpenShift.
package userdata

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/source"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/sshkey"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/userdata"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// checkInterval is how often the Secrets are checked without an event: new namespaces cause no event.
const checkInterval = 5 * time.Minute

// The keys of Secret windows-user-data.
const (
	userDataKey = "userData" // for the Machine API
	valueKey    = "value"    // for Cluster API
)

// Controller maintains Secret windows-user-data, with which new Machines are started on OpenShift. Existing Machines are not affected.
type Controller struct {
	Options
	// namespaceReadable triggers a reconcile when a namespace becomes readable.
	namespaceReadable chan ctrlevent.GenericEvent
}

// Options are the controller's dependencies.
type Options struct {
	Client    client.Client
	Live      client.Reader
	Events    kube.Events
	Namespace string
}

// New returns the controller.
func New(o Options) *Controller {
	return &Controller{Options: o, namespaceReadable: make(chan ctrlevent.GenericEvent, 1)}
}

// Register adds the controller to the manager.
func (c *Controller) Register(_ context.Context, m manager.Manager) error {
	enqueue := kube.Enqueue("", api.UserDataSecret)
	ctl, err := builder.ControllerManagedBy(m).
		Named("user-data").
		Watches(&corev1.Secret{}, enqueue, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			return o.GetNamespace() == c.Namespace && o.GetName() == api.PrivateKeySecret
		}))).
		Watches(&v1alpha1.WindowsConfig{}, enqueue, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(ctrlsource.Channel(c.namespaceReadable, enqueue)).
		Build(c)
	if err != nil {
		return err
	}
	for _, namespace := range []string{source.MachineAPINamespace, source.ClusterAPINamespace} {
		secret := kube.OptionalKind{
			Kind: "Secret", Versions: []string{"v1"}, Namespace: namespace, Name: api.UserDataSecret,
			Events: enqueue, Found: func(schema.GroupVersionKind, client.Reader) { kube.Notify(c.namespaceReadable) },
		}
		if err := kube.WatchWhenAvailable(m, ctl, func(context.Context) (kube.OptionalKind, error) { return secret, nil }, func() {}); err != nil {
			return err
		}
	}
	return nil
}

// Reconcile writes the Secrets. Without a key, or on a cluster that does not report its platform, existing ones stay.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	platform, err := cluster.ReadPlatform(ctx, c.Live)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !platform.OpenShift {
		return reconcile.Result{RequeueAfter: kube.DiscoveryInterval}, nil // on other platforms, the administrator chooses how Machines start
	}
	keys, err := sshkey.AuthorizedLines(ctx, c.Client, c.Namespace)
	if err != nil || len(keys) == 0 {
		return reconcile.Result{}, err
	}
	config, err := kube.ReadConfig(ctx, c.Client)
	if err != nil {
		return reconcile.Result{}, err
	}
	allowFrom, err := desired.AllowFrom(config.Network)
	if err != nil {
		return reconcile.Result{}, nil // reported in WindowsConfig; the existing Secrets stay
	}
	text, err := userdata.Render(platform.Type, keys, allowFrom)
	if err != nil {
		return reconcile.Result{}, err
	}
	errs := []error{
		c.ensure(ctx, source.MachineAPINamespace, map[string][]byte{userDataKey: []byte(text)}),
		c.ensure(ctx, source.ClusterAPINamespace, map[string][]byte{userDataKey: []byte(text), valueKey: []byte(text)}),
	}
	return reconcile.Result{RequeueAfter: checkInterval}, errors.Join(errs...)
}

// ensure creates or updates the Secret of one namespace. It does nothing if the namespace does not exist or the operator has no Role there.
func (c *Controller) ensure(ctx context.Context, namespace string, data map[string][]byte) error {
	name := types.NamespacedName{Namespace: namespace, Name: api.UserDataSecret}
	secret := &corev1.Secret{}
	err := c.Live.Get(ctx, name, secret)
	switch {
	case apierrors.IsNotFound(err):
		return c.makeSecret(ctx, name, data)
	case kube.Unavailable(err):
		log.FromContext(ctx).V(1).Info("No permission to read Secret; install deploy/openshift where it is needed", "secret", name)
		return nil
	case err != nil:
		return fmt.Errorf("reading Secret %s: %w", name, err)
	case maps.EqualFunc(secret.Data, data, func(a, b []byte) bool { return string(a) == string(b) }):
		return nil
	case secret.DeletionTimestamp != nil:
		return nil // its deletion triggers another event
	}
	if secret.Immutable != nil && *secret.Immutable {
		if err := c.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting immutable Secret %s: %w", name, err)
		}
		return c.makeSecret(ctx, name, data)
	}
	secret.Data = data
	if err := c.Client.Update(ctx, secret); client.IgnoreNotFound(err) != nil {
		if apierrors.IsConflict(err) {
			return nil // the other writer's change triggers another event
		}
		return fmt.Errorf("writing Secret %s: %w", name, err)
	}
	c.Events.Emit(kube.Event{Object: secret, Type: corev1.EventTypeNormal, Reason: api.EventSettingsRestored, Action: "Write"},
		"updated the user data of new Machines; existing Machines are not changed")
	return nil
}

func (c *Controller) makeSecret(ctx context.Context, name types.NamespacedName, data map[string][]byte) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, Data: data}
	err := c.Client.Create(ctx, secret)
	if kube.Unavailable(err) || apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // no namespace, no Role, or created by another writer, which triggers an event
	}
	if err != nil {
		return fmt.Errorf("creating Secret %s: %w", name, err)
	}
	return nil
}
