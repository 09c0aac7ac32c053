// Package source creates WindowsInstances from the entries of ConfigMap windows-instances and from Machines of both Machine APIs.
//
// Ownership decides which source gets a host that several announce. Resolver and ReservedAddresses interpret addresses, also for the packages that
// connect to hosts.
package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
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
		Watches(&v1alpha1.WindowsInstance{}, kube.Enqueue(c.Namespace, api.InstancesConfigMap), // the instance may have been made from an entry
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(ctrlsource.Channel(c.Hosts.Answered, c.enqueueSoon())).
		Complete(c)
}

func (c *configMaps) isOurs(o client.Object) bool {
	return o.GetName() == api.InstancesConfigMap || o.GetName() == api.KnownHostsConfigMap
}

// answerDelay is how long DNS answers are collected before the ConfigMap is reconciled.
const answerDelay = 500 * time.Millisecond

// enqueueSoon enqueues the ConfigMap when DNS has answered for names.
func (c *configMaps) enqueueSoon() handler.EventHandler {
	return handler.Funcs{GenericFunc: func(_ context.Context, _ ctrlevent.GenericEvent, q kube.Queue) {
		q.AddAfter(reconcile.Request{NamespacedName: c.name()}, answerDelay)
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
	state, err := c.gather(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	plan := planEntries(state)
	c.recordFaults(state.configMap, plan.faults)
	c.recordOnNodes(ctx, plan.nodes)
	return reconcile.Result{RequeueAfter: plan.recheck}, c.apply(ctx, state, plan)
}

// gather reads the state of the cluster. It does not wait for DNS: names are resolved in the background.
func (c *configMaps) gather(ctx context.Context) (entryState, error) {
	s := entryState{configMap: &corev1.ConfigMap{}}
	err := c.Client.Get(ctx, c.name(), s.configMap)
	if client.IgnoreNotFound(err) != nil {
		return s, fmt.Errorf("reading ConfigMap %s: %w", c.name(), err)
	}
	if s.instances, err = allInstances(ctx, c.Client, c.Namespace); err != nil {
		return s, err
	}
	if s.hostKeys, err = c.knownHosts(ctx); err != nil {
		return s, err
	}
	parsed, faults := parseEntries(s.configMap.Data, s.configMap.BinaryData)
	entries, unproven := s.hostKeys.setHostKeys(parsed)
	s.entries, s.faults = entries, append(faults, unproven...)
	names := addressesOf(s.instances)
	for _, e := range s.entries {
		names = append(names, e.address())
	}
	s.resolved = c.Hosts.resolve(ctx, names)
	if s.reserved, err = c.Reserved.With(ctx, ""); err != nil { // the instance reports it, too, before the operator connects
		log.FromContext(ctx).Info("Reading reserved addresses failed; entries are checked against those known", "error", err.Error())
	}
	s.announced = c.Hosts.higherPriority(ctx, api.SourceConfigMap)
	s.now = time.Now()
	return s, nil
}

// apply carries out a plan. A failure does not stop the rest.
func (c *configMaps) apply(ctx context.Context, s entryState, plan entryPlan) error {
	var errs []error
	for _, i := range plan.update {
		if err := c.Client.Patch(ctx, i, client.MergeFrom(s.instances[i.Name])); err != nil {
			errs = append(errs, fmt.Errorf("updating WindowsInstance %s: %w", i.Name, err))
		}
	}
	for _, e := range plan.create {
		errs = append(errs, c.create(ctx, s.configMap, e))
	}
	for _, i := range plan.remove {
		errs = append(errs, c.remove(ctx, s.configMap, i))
	}
	return errors.Join(errs...)
}

// create creates the instance of an entry, unless another source has just got the host.
func (c *configMaps) create(ctx context.Context, cm *corev1.ConfigMap, e located) error {
	instance := &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace,
			Name:      e.instanceName(),
			Labels:    map[string]string{api.LabelSource: api.SourceConfigMap},
		},
		Spec: v1alpha1.WindowsInstanceSpec{Address: e.address(), Username: e.username, HostKey: e.hostKey},
	}
	holder, err := c.Hosts.create(ctx, c.Client, instance, e.ip)
	if err != nil {
		return err
	}
	if holder != "" {
		c.Events.Emit(c.faultEvent(cm, e.key, addressTaken), "entry %q: address %s already belongs to %s; remove one of the two", e.key, e.ip, holder)
		return nil
	}
	c.Events.Emit(kube.Event{Object: cm, Related: instance, Type: corev1.EventTypeNormal, Reason: api.EventInstanceSetup, Action: "Create"},
		"created WindowsInstance %[2]s from entry %[1]q", e.key, instance.Name)
	return nil
}

func (c *configMaps) remove(ctx context.Context, cm *corev1.ConfigMap, i *v1alpha1.WindowsInstance) error {
	c.Hosts.release(client.ObjectKeyFromObject(i))
	err := c.Client.Delete(ctx, i.DeepCopy())
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting WindowsInstance %s: %w", i.Name, err)
	}
	if cm.UID != "" {
		c.Events.Emit(kube.Event{Object: cm, Related: i, Type: corev1.EventTypeNormal, Reason: api.EventInstanceTeardown, Action: "Delete"},
			"deleted WindowsInstance %s, because its entry was removed", i.Name)
	}
	return nil
}

// maxFaultEvents is how many entries get their own events: a list full of errors must not keep the API server busy.
const maxFaultEvents = 20

// recordFaults records events for faulty entries: one for each of the first, and one for all others.
func (c *configMaps) recordFaults(cm *corev1.ConfigMap, faults []fault) {
	reported := min(len(faults), maxFaultEvents)
	for _, f := range faults[:reported] {
		c.Events.Emit(c.faultEvent(cm, f.key, f.kind), "entry %q: %s", f.key, f.message)
	}
	if rest := faults[reported:]; len(rest) > 0 {
		c.Events.Emit(kube.Event{Object: cm, Type: corev1.EventTypeWarning, Reason: api.EventInstanceInvalid, Action: "Summary"},
			"%d more entries are invalid; the first is %q: %s", len(rest), rest[0].key, rest[0].message)
	}
}

// faultEvent returns the event for a faulty entry.
func (c *configMaps) faultEvent(cm *corev1.ConfigMap, key, fault string) kube.Event {
	instance := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: entry{key: key}.instanceName()}}
	return kube.Event{Object: cm, Related: instance, Type: corev1.EventTypeWarning, Reason: api.EventInstanceInvalid, Action: fault}
}

func isOfConfigMap(i *v1alpha1.WindowsInstance) bool {
	return i.Labels[api.LabelSource] == api.SourceConfigMap
}

// recordOnNodes records events on Nodes whose addresses prevent hosts of entries from joining.
func (c *configMaps) recordOnNodes(ctx context.Context, nodes map[string]located) {
	for _, name := range slices.Sorted(maps.Keys(nodes))[:min(len(nodes), maxFaultEvents)] {
		c.recordOnNode(ctx, name, nodes[name].ip, fmt.Sprintf("entry %q of ConfigMap %s", nodes[name].key, api.InstancesConfigMap))
	}
}

// recordOnNode records an event on a Node that has the address of a host, which therefore cannot join; announces names what announces the host.
func (o Options) recordOnNode(ctx context.Context, name string, ip netip.Addr, announces string) {
	var node corev1.Node
	if err := o.Client.Get(ctx, types.NamespacedName{Name: name}, &node); err != nil {
		return // the Node is gone, and its claim with it
	}
	o.Events.Emit(kube.Event{Object: &node, Type: corev1.EventTypeWarning, Reason: api.EventAddressDisputed, Action: "Compare"},
		"status.addresses contains %s, which %s declares as a Windows host; check the kubelet's --node-ip on this Node, and which machine has the address", ip, announces)
}
