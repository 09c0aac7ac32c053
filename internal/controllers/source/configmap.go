// Package source makes WindowsInstances: of the entries of ConfigMap windows-instances, and of Machines of both Machine APIs.
//
// Ownership says whose a host is when several sources ask for it. Resolver and ReservedAddresses say what an address means,
// for those who connect to hosts as well.
package source

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/kube"
)

// lookAgain is how often entries that could not be used are looked at again: what their names resolve to may change.
const lookAgain = time.Minute

// configMaps makes a WindowsInstance of each entry of ConfigMap windows-instances, and removes those whose entry
// is gone. It touches only instances that it made.
type configMaps struct{ Options }

// Options are what the sources of instances need.
type Options struct {
	Client    client.Client
	Live      client.Reader
	Events    kube.Events
	Namespace string
	Hosts     *Ownership
	Reserved  *ReservedAddresses
}

// NewConfigMap makes the controller of the entries of ConfigMap windows-instances.
func NewConfigMap(o Options) *configMaps { return &configMaps{o} }

// Register adds the controller to the manager.
func (c *configMaps) Register(_ context.Context, m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("windows-instances").
		For(&corev1.ConfigMap{}, builder.WithPredicates(predicate.NewPredicateFuncs(c.isOurs))).
		Watches(&v1alpha1.WindowsInstance{}, handler.EnqueueRequestsFromMapFunc(c.ofInstance),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(c)
}

func (c *configMaps) isOurs(o client.Object) bool {
	return o.GetName() == api.InstancesConfigMap || o.GetName() == api.KnownHostsConfigMap
}

// ofInstance brings the ConfigMap back when an instance made from it was changed or deleted by somebody.
func (c *configMaps) ofInstance(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: c.name()}}
}

func (c *configMaps) name() types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: api.InstancesConfigMap}
}

// Reconcile makes the instances what the ConfigMap says. A ConfigMap that is gone is an empty one.
func (c *configMaps) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	if !c.Hosts.ready(time.Now()) {
		return reconcile.Result{RequeueAfter: readyAgain}, nil
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
	found, more := c.resolve(ctx, entries, have)
	faults = append(faults, more...)
	c.tellFaults(cm, faults)
	errs := []error{c.apply(ctx, cm, found, have), c.prune(ctx, cm, have)}
	result := reconcile.Result{}
	if len(faults) > 0 {
		result.RequeueAfter = lookAgain
	}
	return result, errors.Join(errs...)
}

// toldFaults is how many entries have events of their own: a list that is wrong from top to bottom must not keep the API server busy.
const toldFaults = 20

// tellFaults makes events of what is wrong with entries: of the first ones each, of all others one.
func (c *configMaps) tellFaults(cm *corev1.ConfigMap, faults []fault) {
	told := min(len(faults), toldFaults)
	for _, f := range faults[:told] {
		c.Events.Emit(c.about(cm, f.key, f.kind), "entry %q: %s", f.key, f.message)
	}
	if rest := faults[told:]; len(rest) > 0 {
		c.Events.Emit(kube.Event{Object: cm, Type: corev1.EventTypeWarning, Reason: api.EventInstanceInvalid, Action: "Summary"},
			"%d more entries are wrong, the first of them %q: %s", len(rest), rest[0].key, rest[0].message)
	}
}

// about is the event of a fault of one entry.
func (c *configMaps) about(cm *corev1.ConfigMap, key, fault string) kube.Event {
	instance := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: entry{key: key}.instanceName()}}
	return kube.Event{Object: cm, Related: instance, Type: corev1.EventTypeWarning, Reason: api.EventInstanceInvalid, Action: fault}
}

// located is an entry and the address it means; none for an instance whose name does not resolve just now.
type located struct {
	entry
	ip netip.Addr
}

// resolve leaves out entries whose name does not resolve, and those whose host is another's (see Ownership). Those that are instances
// already come first.
func (c *configMaps) resolve(ctx context.Context, entries []entry, have map[string]*v1alpha1.WindowsInstance) (good []located, faults []fault) {
	keys := addressesOf(have)
	for _, e := range entries {
		keys = append(keys, e.address())
	}
	known := c.Hosts.resolve(ctx, keys)
	others, err := c.Reserved.With(ctx, "")
	if err != nil { // the instance says so, too, before it is connected to
		log.FromContext(ctx).Info("Reading reserved addresses failed; entries are checked against those known", "error", err.Error())
	}
	owner := owners(known, have, isOfConfigMap)
	for _, existing := range []bool{true, false} {
		if !existing {
			for ip, a := range c.Hosts.higherPriority(ctx, api.SourceConfigMap) {
				if owner[ip] == "" {
					owner[ip] = a.Who
				}
			}
		}
		for _, e := range entries {
			if (have[e.instanceName()] != nil) != existing {
				continue
			}
			ip, err := known[e.address()].ip(), known[e.address()].err
			bad := refused(others, known[e.address()].ips...)
			switch {
			case err != nil && existing:
				good = append(good, located{entry: e}) // it resolved once: a hiccup of DNS must not take a node away
			case err != nil:
				faults = append(faults, fault{e.key, addressUnresolvable, err.Error()})
			case bad != nil && !existing: // what exists says so itself
				faults = append(faults, fault{e.key, addressInvalid, bad.Error()})
			case owner[ip] != "":
				faults = append(faults, fault{e.key, addressTaken, fmt.Sprintf("its address %s is that of %s already; remove one of the two", ip, owner[ip])})
			default:
				owner[ip] = fmt.Sprintf("entry %q", e.key)
				if i := have[e.instanceName()]; i != nil {
					if reported, err := netip.ParseAddr(i.Status.NodeIP); err == nil && owner[reported] == "" {
						owner[reported] = owner[ip]
					}
				}
				good = append(good, located{e, ip})
			}
		}
	}
	return good, faults
}

func isOfConfigMap(i *v1alpha1.WindowsInstance) bool {
	return i.Labels[api.LabelSource] == api.SourceConfigMap
}

// apply makes an instance of each entry. One that cannot be made does not keep the others back.
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
			c.Events.Emit(c.about(cm, e.key, addressTaken), "entry %q: its address %s is that of %s already; remove one of the two", e.key, e.ip, holder)
			return nil
		}
		c.Events.Emit(kube.Event{Object: cm, Related: instance, Type: corev1.EventTypeNormal, Reason: api.EventInstanceSetup, Action: "Create"},
			"entry %q became WindowsInstance %s", e.key, instance.Name)
	case have.DeletionTimestamp != nil: // it comes back when the host has left
	case !isOfConfigMap(have):
		c.Events.Emit(c.about(cm, e.key, nameTaken),
			"entry %q: a WindowsInstance %s is there that was not made from this ConfigMap; remove one of the two", e.key, have.Name)
	case have.Spec.Username != e.username || !isHostKey(have.Spec.HostKey, e.hostKey):
		changed := have.DeepCopy()
		changed.Spec.Username = e.username
		if e.hostKey != "" { // else what a user wrote there stays
			changed.Spec.HostKey = e.hostKey
		}
		if err := c.Client.Patch(ctx, changed, client.MergeFrom(have)); err != nil {
			return fmt.Errorf("changing WindowsInstance %s: %w", have.Name, err)
		}
	}
	return nil
}

// prune removes the instances that were made from entries which are gone. An entry that has become faulty is
// not gone: its key is still there.
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
				errs = append(errs, fmt.Errorf("removing WindowsInstance %s: %w", i.Name, err))
			}
			continue
		}
		if cm.UID != "" {
			c.Events.Emit(kube.Event{Object: cm, Related: i, Type: corev1.EventTypeNormal, Reason: api.EventInstanceTeardown, Action: "Delete"},
				"WindowsInstance %s was removed with its entry", i.Name)
		}
	}
	return errors.Join(errs...)
}
