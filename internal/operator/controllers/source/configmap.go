// Package source creates WindowsInstances from the entries of ConfigMap windows-instances and from Machines of both Machine APIs.
//
// Ownership decides which source gets a host that several announce. Resolver and ReservedAddresses interpret addresses, also for the packages that
// connect to hosts.
package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// recheckInterval is how often unusable entries are checked again: their names may resolve to other addresses.
const recheckInterval = time.Minute

// configMaps creates a WindowsInstance for each entry of ConfigMap windows-instances and deletes those whose entry is gone. It changes only instances
// that it created.
type configMaps struct {
	Options
	known *knownHosts // as last read; nil before
}

// Options are the dependencies of the sources.
type Options struct {
	Client     client.Client
	Live       client.Reader
	Connection cluster.Connection
	Events     kube.Events
	Namespace  string
	Hosts      *Ownership
	Reserved   *ReservedAddresses
}

// NewConfigMap returns the controller of the entries of ConfigMap windows-instances.
func NewConfigMap(o Options) *configMaps { return &configMaps{Options: o} }

// Register adds the controller to the manager.
func (c *configMaps) Register(_ context.Context, m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("windows-instances").
		For(&corev1.ConfigMap{}, builder.WithPredicates(predicate.NewPredicateFuncs(c.isOurs))).
		Watches(&v1alpha1.WindowsInstance{}, handler.EnqueueRequestsFromMapFunc(c.ofInstance),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(ctrlsource.Channel(c.Hosts.Answered, c.soon())).
		Complete(c)
}

func (c *configMaps) isOurs(o client.Object) bool {
	return o.GetName() == api.InstancesConfigMap || o.GetName() == api.KnownHostsConfigMap
}

// ofInstance enqueues the ConfigMap when an instance changes: it may have been made from an entry.
func (c *configMaps) ofInstance(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: c.name()}}
}

// answersWithin is how long DNS answers are collected before the ConfigMap is reconciled.
const answersWithin = 500 * time.Millisecond

// soon enqueues the ConfigMap when DNS has answered for names.
func (c *configMaps) soon() handler.EventHandler {
	return handler.Funcs{GenericFunc: func(_ context.Context, _ ctrlevent.GenericEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		q.AddAfter(reconcile.Request{NamespacedName: c.name()}, answersWithin)
	}}
}

func (c *configMaps) name() types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: api.InstancesConfigMap}
}

// Reconcile brings the instances in line with the ConfigMap. A missing ConfigMap counts as empty.
func (c *configMaps) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	if !c.Hosts.ready(time.Now()) {
		return reconcile.Result{RequeueAfter: readyInterval}, nil
	}
	cm := &corev1.ConfigMap{}
	err := c.Client.Get(ctx, c.name(), cm)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading ConfigMap %s: %w", c.name(), err)
	}
	have, err := allInstances(ctx, c.Client, c.Namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	entries, faults := parseEntries(cm.Data, cm.BinaryData)
	known, err := c.knownHosts(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	entries, unproven := known.vouchFor(entries)
	faults = append(faults, unproven...)
	found := c.locate(ctx, entries, have, known)
	faults = append(faults, found.faults...)
	c.recordFaults(cm, faults)
	c.recordOnNodes(ctx, found.nodes)
	errs := []error{c.apply(ctx, cm, found.good, have), c.prune(ctx, cm, have)}
	result := reconcile.Result{}
	switch {
	case found.early:
		result.RequeueAfter = readyInterval
	case len(faults) > 0 || found.asked > 0:
		result.RequeueAfter = recheckInterval
	}
	return result, errors.Join(errs...)
}

// maxFaultEvents is how many entries get their own events: a list full of errors must not keep the API server busy.
const maxFaultEvents = 20

// recordFaults records events for faulty entries: one for each of the first, and one for all others.
func (c *configMaps) recordFaults(cm *corev1.ConfigMap, faults []fault) {
	reported := min(len(faults), maxFaultEvents)
	for _, f := range faults[:reported] {
		c.Events.Emit(c.about(cm, f.key, f.kind), "entry %q: %s", f.key, f.message)
	}
	if rest := faults[reported:]; len(rest) > 0 {
		c.Events.Emit(kube.Event{Object: cm, Type: corev1.EventTypeWarning, Reason: api.EventInstanceInvalid, Action: "Summary"},
			"%d more entries are invalid, the first is %q: %s", len(rest), rest[0].key, rest[0].message)
	}
}

// about returns the event for a fault of one entry.
func (c *configMaps) about(cm *corev1.ConfigMap, key, fault string) kube.Event {
	instance := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: entry{key: key}.instanceName()}}
	return kube.Event{Object: cm, Related: instance, Type: corev1.EventTypeWarning, Reason: api.EventInstanceInvalid, Action: fault}
}

func isOfConfigMap(i *v1alpha1.WindowsInstance) bool {
	return i.Labels[api.LabelSource] == api.SourceConfigMap
}

// apply creates or updates the instance of each entry. A failure does not stop the others.
func (c *configMaps) apply(ctx context.Context, cm *corev1.ConfigMap, entries []located, have map[string]*v1alpha1.WindowsInstance) error {
	var errs []error
	for _, e := range entries {
		errs = append(errs, c.applyOne(ctx, cm, e, have[e.instanceName()]))
		delete(have, e.instanceName())
	}
	return errors.Join(errs...)
}

func (c *configMaps) applyOne(ctx context.Context, cm *corev1.ConfigMap, e located, have *v1alpha1.WindowsInstance) error {
	switch {
	case have == nil:
		instance := &v1alpha1.WindowsInstance{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: c.Namespace,
				Name:      e.instanceName(),
				Labels:    map[string]string{api.LabelSource: api.SourceConfigMap},
			},
			Spec: v1alpha1.WindowsInstanceSpec{Address: e.address(), Username: e.username, HostKey: e.hostKey},
		}
		if holder, err := c.Hosts.create(ctx, c.Client, instance, e.ip); err != nil {
			return err
		} else if holder != "" {
			c.Events.Emit(c.about(cm, e.key, addressTaken), "entry %q: address %s already belongs to %s; remove one of the two", e.key, e.ip, holder)
			return nil
		}
		c.Events.Emit(kube.Event{Object: cm, Related: instance, Type: corev1.EventTypeNormal, Reason: api.EventInstanceSetup, Action: "Create"},
			"created WindowsInstance %[2]s from entry %[1]q", e.key, instance.Name)
	case have.DeletionTimestamp != nil: // recreated when the host has left
	case !isOfConfigMap(have):
		c.Events.Emit(c.about(cm, e.key, nameTaken),
			"entry %q: WindowsInstance %s already exists and was not created from this ConfigMap; remove one of the two", e.key, have.Name)
	case have.Spec.Username != e.username || !isHostKey(have.Spec.HostKey, e.hostKey):
		changed := have.DeepCopy()
		changed.Spec.Username = e.username
		if e.hostKey != "" { // otherwise, a user's key stays
			changed.Spec.HostKey = e.hostKey
		}
		if err := c.Client.Patch(ctx, changed, client.MergeFrom(have)); err != nil {
			return fmt.Errorf("updating WindowsInstance %s: %w", have.Name, err)
		}
	}
	return nil
}

// prune deletes instances whose entries are gone. An entry that has become faulty is not gone: its key still exists.
func (c *configMaps) prune(ctx context.Context, cm *corev1.ConfigMap, rest map[string]*v1alpha1.WindowsInstance) error {
	stillThere := map[string]bool{}
	for key := range cm.Data {
		stillThere[entry{key: key}.instanceName()] = true
	}
	for key := range cm.BinaryData {
		stillThere[entry{key: key}.instanceName()] = true
	}
	var errs []error
	for _, i := range rest {
		if stillThere[entry{key: i.Spec.Address}.instanceName()] || !isOfConfigMap(i) || i.DeletionTimestamp != nil {
			continue
		}
		c.Hosts.release(client.ObjectKeyFromObject(i))
		if err := c.Client.Delete(ctx, i.DeepCopy()); err != nil {
			if !apierrors.IsNotFound(err) {
				errs = append(errs, fmt.Errorf("deleting WindowsInstance %s: %w", i.Name, err))
			}
			continue
		}
		if cm.UID != "" {
			c.Events.Emit(kube.Event{Object: cm, Related: i, Type: corev1.EventTypeNormal, Reason: api.EventInstanceTeardown, Action: "Delete"},
				"deleted WindowsInstance %s, because its entry was removed", i.Name)
		}
	}
	return errors.Join(errs...)
}
