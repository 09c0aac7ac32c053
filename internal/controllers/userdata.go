package controllers

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
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cluster"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/remote"
	"github.com/windows-machine-config/wmco/internal/userdata"
)

// userDataEvery is how often the Secrets are looked at without an event: namespaces come without one.
const userDataEvery = 5 * time.Minute

// The keys of Secret windows-user-data.
const (
	userDataKey = "userData" // that the Machine API reads
	valueKey    = "value"    // that Cluster API reads
)

// userData keeps Secret windows-user-data, from which new Machines are started, as it must be on OpenShift. It looks at no Machine:
// those that are there go on with what they were started with.
type userData struct {
	common
	// again asks for another look, when a namespace can be read that could not be before.
	again chan ctrlevent.GenericEvent
}

func newUserData(c common) *userData {
	return &userData{common: c, again: make(chan ctrlevent.GenericEvent, 1)}
}

// Register adds the controller to the manager.
func (c *userData) Register(_ context.Context, m manager.Manager) error {
	one := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: api.UserDataSecret}}}
	})
	ctl, err := builder.ControllerManagedBy(m).
		Named("user-data").
		Watches(&corev1.Secret{}, one, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			return o.GetNamespace() == c.Namespace && o.GetName() == api.PrivateKeySecret
		}))).
		Watches(&v1alpha1.WindowsConfig{}, one, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(c.again, one)).
		Build(c)
	if err != nil {
		return err
	}
	for _, namespace := range []string{machineAPINamespace, clusterAPINamespace} {
		secret := lateKind{
			kind: "Secret", versions: []string{"v1"}, namespace: namespace, name: api.UserDataSecret,
			events: one, found: c.lookAgain,
		}
		if err := awaitKind(m, ctl, func(context.Context) (lateKind, error) { return secret, nil }, func() {}); err != nil {
			return err
		}
	}
	return nil
}

func (c *userData) lookAgain(schema.GroupVersionKind, client.Reader) {
	select {
	case c.again <- ctrlevent.GenericEvent{Object: &corev1.Secret{}}:
	default: // one is on its way
	}
}

// Reconcile writes the Secrets. Without a key, or on a cluster that says nothing of its platform, what is there stays.
func (c *userData) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	platform, err := cluster.ReadPlatform(ctx, c.live)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !platform.OpenShift {
		return reconcile.Result{RequeueAfter: laterEvery}, nil // elsewhere Machines are started by whatever the administrator chose
	}
	keys, err := c.publicKeys(ctx)
	if err != nil || len(keys) == 0 {
		return reconcile.Result{}, err
	}
	config, err := c.config(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	allowFrom, err := desired.AllowFrom(config.Network)
	if err != nil {
		return reconcile.Result{}, nil // WindowsConfig tells; what is there stays
	}
	text, err := userdata.Render(platform.Type, keys, allowFrom)
	if err != nil {
		return reconcile.Result{}, err
	}
	errs := []error{
		c.keep(ctx, machineAPINamespace, map[string][]byte{userDataKey: []byte(text)}),
		c.keep(ctx, clusterAPINamespace, map[string][]byte{userDataKey: []byte(text), valueKey: []byte(text)}),
	}
	return reconcile.Result{RequeueAfter: userDataEvery}, errors.Join(errs...)
}

// publicKeys are those that new hosts are to let in, as lines of authorized_keys; none while the Secret with the private key has a fault,
// which the instances tell of.
func (c common) publicKeys(ctx context.Context) ([]string, error) {
	name := types.NamespacedName{Namespace: c.Namespace, Name: api.PrivateKeySecret}
	var secret corev1.Secret
	if err := c.client.Get(ctx, name, &secret); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	key, err := remote.ParsePrivateKey(secret.Data[api.PrivateKeyKey])
	if err != nil {
		return nil, nil
	}
	return []string{authorizedLine(key)}, nil
}

// keep makes the Secret of one namespace what it must be. Where the namespace is not there, or the role for it was not installed, there is
// none.
func (c *userData) keep(ctx context.Context, namespace string, data map[string][]byte) error {
	name := types.NamespacedName{Namespace: namespace, Name: api.UserDataSecret}
	secret := &corev1.Secret{}
	err := c.live.Get(ctx, name, secret)
	switch {
	case apierrors.IsNotFound(err):
		return c.makeSecret(ctx, name, data)
	case absent(err):
		log.FromContext(ctx).V(1).Info("Secret is not the operator's to see: install deploy/openshift where it is needed", "secret", name)
		return nil
	case err != nil:
		return fmt.Errorf("reading Secret %s: %w", name, err)
	case maps.EqualFunc(secret.Data, data, func(a, b []byte) bool { return string(a) == string(b) }):
		return nil
	case secret.DeletionTimestamp != nil:
		return nil // its deletion comes back as an event
	}
	if secret.Immutable != nil && *secret.Immutable {
		if err := c.client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing Secret %s, which is immutable: %w", name, err)
		}
		return c.makeSecret(ctx, name, data)
	}
	secret.Data = data
	if err := c.client.Update(ctx, secret); client.IgnoreNotFound(err) != nil {
		if apierrors.IsConflict(err) {
			return nil // the change of somebody else comes back as an event
		}
		return fmt.Errorf("writing Secret %s: %w", name, err)
	}
	c.tell(event{about: secret, kind: corev1.EventTypeNormal, reason: api.EventSettingsRestored, action: "Write"},
		"the user data of new Machines was brought up to date; Machines that are there are not touched")
	return nil
}

func (c *userData) makeSecret(ctx context.Context, name types.NamespacedName, data map[string][]byte) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, Data: data}
	err := c.client.Create(ctx, secret)
	if absent(err) || apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // no namespace, no role, or somebody was faster, which comes back as an event
	}
	if err != nil {
		return fmt.Errorf("making Secret %s: %w", name, err)
	}
	return nil
}
