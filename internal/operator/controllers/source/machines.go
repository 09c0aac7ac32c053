package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/machines"
)

// The namespaces in which OpenShift keeps Machines.
const (
	MachineAPINamespace = "openshift-machine-api"
	ClusterAPINamespace = "openshift-cluster-api"
)

// leavingInterval is how often a Machine is checked while the instance that has its host is leaving.
const leavingInterval = 5 * time.Second

// machineSource creates a WindowsInstance for each Windows Machine of one API and deletes it with the Machine. It changes only instances that it
// created.
type machineSource struct {
	Options
	source string // a value of label source
	// place is where the API's Machines are read; nil while the API has not been found.
	place      atomic.Pointer[machinePlace]
	cache      announcementCache
	names      machineNames
	tried      atomic.Bool // whether the API has been looked for
	lastLogged string      // why it was not found, as last logged
}

type machinePlace struct {
	kind      schema.GroupVersionKind
	namespace string        // of the Machines
	cached    client.Reader // only Machines with label LabelMachineOS
	cluster   machines.Cluster
}

type machineView struct {
	object *unstructured.Unstructured // nil when it is gone
	// own are the instances made from it; instances contains all by name. They are shared with the cache and must not be changed.
	own       []*v1alpha1.WindowsInstance
	instances map[string]*v1alpha1.WindowsInstance
	// machine is what was read from object.
	machine machines.Machine
	machines.Decision
}

// NewMachines returns the controller of the Machines of one API; source is a value of label source.
func NewMachines(o Options, source string) *machineSource {
	return &machineSource{Options: o, source: source}
}

// Register adds the controller to the manager.
func (s *machineSource) Register(_ context.Context, m manager.Manager) error {
	ctl, err := builder.ControllerManagedBy(m).
		Named(strings.ToLower(s.source)+"-source").
		Watches(&v1alpha1.WindowsInstance{}, handler.EnqueueRequestsFromMapFunc(s.requestsForInstance), builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(s.requestsForNode), builder.WithPredicates(providerIDSet())).
		Build(s)
	if err != nil {
		return err
	}
	if s.source == api.SourceClusterAPI {
		return kube.Follow(m, ctl, s.Kind, s.reportClusterAPI)
	}
	return kube.WatchWhenAvailable(m, ctl, s.Kind, func() { s.tried.Store(true) })
}

// Kind returns which Machines to watch.
func (s *machineSource) Kind(ctx context.Context) (kube.OptionalKind, error) {
	if s.source == api.SourceClusterAPI {
		return s.clusterAPIKind(ctx)
	}
	return s.machineAPIKind(ctx)
}

// HasSynced implements Announcer.
func (s *machineSource) HasSynced() bool { return s.tried.Load() }

func (s *machineSource) machineAPIKind(ctx context.Context) (kube.OptionalKind, error) {
	platform, err := cluster.ReadPlatform(ctx, s.Live)
	return s.kind(MachineAPINamespace, machines.Cluster{Namespace: s.Namespace, Platform: platform.Type}), err
}

// kind returns what to watch: the Windows Machines of a namespace.
func (s *machineSource) kind(namespace string, of machines.Cluster) kube.OptionalKind {
	k := kube.OptionalKind{
		Group: machines.MachineAPIGroup, Versions: []string{"v1beta1"}, Kind: machines.Kind, Namespace: namespace,
		Labels: labels.SelectorFromSet(labels.Set{api.LabelMachineOS: "Windows"}),
		Events: &handler.EnqueueRequestForObject{},
		Keep:   keepMachine, Bytes: maxMachine, Share: &kube.Share{Total: allMachines, PerOwner: machinesOfNamespace, Owner: client.Object.GetNamespace},
	}
	if s.source == api.SourceClusterAPI {
		k.Group, k.Versions = machines.ClusterAPIGroup, clusterAPIVersions()
	}
	k.ID, k.Lost = of.Name, func() { s.place.Store(nil) }
	k.Found = func(kind schema.GroupVersionKind, in client.Reader) {
		s.place.Store(&machinePlace{kind, namespace, in, of})
	}
	return k
}

// Memory limits: of one Machine, of all in a namespace, and of all. Outside OpenShift, tenants create them.
const (
	maxMachine          = 256 << 10
	machinesOfNamespace = 32 << 20
	allMachines         = 64 << 20
)

// keepMachine drops metadata of a Machine that nothing reads.
func keepMachine(o client.Object) (client.Object, bool) {
	kube.ShortenMetadata(o)
	return o, true
}

// requestsForInstance returns a request for the Machine from which an instance was made.
func (s *machineSource) requestsForInstance(_ context.Context, i client.Object) []reconcile.Request {
	namespace, name, ok := strings.Cut(i.GetAnnotations()[api.AnnotationMachine], "/")
	if !ok || i.GetLabels()[api.LabelSource] != s.source {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

// Announced implements Announcer.
func (s *machineSource) Announced(ctx context.Context) []Announcement {
	place := s.place.Load()
	if place == nil {
		return nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(place.kind)
	if err := place.cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache is shutting down; no API server is involved
	}
	return s.cache.get(list.Items, place.cluster)
}

// Reconcile creates, keeps or deletes the instance of one Machine.
func (s *machineSource) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	place := s.place.Load()
	if place == nil || r.Namespace != place.namespace {
		return reconcile.Result{RequeueAfter: kube.DiscoveryInterval}, nil // a Machine that cannot be read is not gone
	}
	v, err := s.gather(ctx, place, r)
	if err != nil {
		return reconcile.Result{}, err
	}
	switch v.Verdict {
	case machines.Gone:
		return reconcile.Result{}, s.remove(ctx, v, v.own, "its Machine is gone or is being deleted")
	case machines.Leave:
		return reconcile.Result{}, s.remove(ctx, v, v.own, "its Machine is no longer marked as a Windows node of this operator")
	case machines.Want:
		s.compareNodes(ctx, v)
		return s.ensure(ctx, v)
	}
	if v.Fault != "" {
		s.refuse(v, v.Fault, v.Message)
	}
	return reconcile.Result{}, nil
}

func (s *machineSource) gather(ctx context.Context, place *machinePlace, r reconcile.Request) (v machineView, err error) {
	if v.instances, err = allInstances(ctx, s.Client, s.Namespace); err != nil {
		return v, err
	}
	for _, i := range sorted(v.instances) {
		if slices.Contains(s.requestsForInstance(ctx, i), r) {
			v.own = append(v.own, i)
		}
	}
	if v.object, err = s.read(ctx, place, r.NamespacedName); err != nil {
		return v, err
	}
	if v.object == nil {
		v.Verdict = machines.Gone
		return v, nil
	}
	if kube.IsCut(v.object) {
		v.Decision = machines.Decision{Verdict: machines.Keep, Fault: "MachineTooLarge", Message: "the metadata and status of this Machine, or of all Machines in its namespace, are too large to cache"}
		return v, nil
	}
	m, err := machines.Read(v.object)
	if err != nil {
		v.Decision = machines.Decision{Verdict: machines.Keep, Fault: "MachineUnreadable", Message: err.Error()}
		return v, nil
	}
	v.machine, v.Decision = m, machines.Decide(m, place.cluster)
	return v, nil
}

// read returns a Machine; nil if it does not exist. The cache holds labeled Machines only, so a missing one is read from the API server.
func (s *machineSource) read(ctx context.Context, place *machinePlace, name types.NamespacedName) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(place.kind)
	err := place.cached.Get(ctx, name, object)
	if apierrors.IsNotFound(err) {
		err = s.Live.Get(ctx, name, object)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Machine %s: %w", name, err)
	}
	return object, nil
}

// ensure creates the instance of a Machine, unless it exists or the host belongs to another object.
func (s *machineSource) ensure(ctx context.Context, v machineView) (reconcile.Result, error) {
	for _, i := range v.own {
		if ip, err := netip.ParseAddr(i.Spec.Address); err == nil && slices.Contains(v.Addresses, ip) {
			return reconcile.Result{}, nil // later changes by a user stay: the user has no other place for them
		}
	}
	if len(v.own) > 0 { // when they are gone, the Machine is reconciled again
		v.Verdict = machines.Gone // the host is no longer at the former address
		return reconcile.Result{}, s.remove(ctx, v, v.own, fmt.Sprintf("its Machine now has address %s", v.Addresses[0]))
	}
	if adopted, err := s.adopt(ctx, v); adopted || err != nil {
		return reconcile.Result{}, err
	}
	if !s.Hosts.ready(time.Now()) {
		return reconcile.Result{RequeueAfter: readyInterval}, nil
	}
	if reason := s.dropReserved(ctx, &v); reason != nil {
		s.refuse(v, addressInvalid, reason.Error())
		return reconcile.Result{RequeueAfter: recheckInterval}, nil
	}
	known := s.Hosts.resolve(ctx, addressesOf(v.instances))
	if early(known, v.instances, time.Now()) {
		return reconcile.Result{RequeueAfter: readyInterval}, nil
	}
	if ip, holder := s.holder(ctx, v, known); holder != "" {
		return s.reportTaken(v, ip, holder), nil
	}
	return s.create(ctx, v)
}

// dropReserved drops addresses that the cluster uses for other purposes, and returns the reason if no address is left. It is not applied to existing
// instances, because addresses that Nodes report must not remove an instance.
func (s *machineSource) dropReserved(ctx context.Context, v *machineView) (reason error) {
	current, err := s.Reserved.With(ctx, "")
	if err != nil { // the instance reports it, too, before the operator connects
		log.FromContext(ctx).Info("Reading reserved addresses failed; addresses of the Machine are checked against those known", "error", err.Error())
	}
	var left []netip.Addr
	for _, ip := range v.Addresses {
		if bad := refused(current, ip); bad != nil {
			reason = bad
			if node := current.Nodes[ip]; node != "" {
				s.recordOnNode(ctx, node, ip, "Machine "+v.Instance.Annotations[api.AnnotationMachine])
			}
		} else {
			left = append(left, ip)
		}
	}
	if len(left) == 0 {
		return reason
	}
	v.Addresses, v.Instance.Spec.Address = left, left[0].String()
	return nil
}

// holder returns which of the Machine's addresses belongs to another object, and to which.
func (s *machineSource) holder(ctx context.Context, v machineView, known resolved) (netip.Addr, string) {
	owner := owners(known, v.instances, func(*v1alpha1.WindowsInstance) bool { return false })
	before := s.Hosts.higherPriority(ctx, s.source)
	for _, ip := range v.Addresses {
		if owner[ip] != "" {
			return ip, owner[ip]
		}
		if a, requested := before[ip]; requested {
			return ip, a.Object
		}
		for _, a := range s.Announced(ctx) {
			if a.Address == ip && a.ID < v.Instance.Annotations[api.AnnotationMachine] {
				return ip, a.Object
			}
		}
	}
	return netip.Addr{}, ""
}

// reportTaken records an event for a Machine whose host belongs to another object, and returns when to check again.
func (s *machineSource) reportTaken(v machineView, ip netip.Addr, holder string) reconcile.Result {
	if i := v.instances[strings.TrimPrefix(holder, "WindowsInstance ")]; i != nil && i.DeletionTimestamp != nil {
		return reconcile.Result{RequeueAfter: leavingInterval}
	}
	s.refuse(v, addressTaken, fmt.Sprintf("address %s already belongs to %s; remove one of the two, "+
		"or exclude the Machine from the operator with label %s=true", ip, holder, api.LabelIgnore))
	return reconcile.Result{RequeueAfter: recheckInterval}
}

// create creates the instance, under another name if an instance with the Machine's name exists.
func (s *machineSource) create(ctx context.Context, v machineView) (reconcile.Result, error) {
	instance := v.Instance
	if v.instances[instance.Name] != nil {
		instance.Name = alternativeName(s.source, instance)
	}
	if v.instances[instance.Name] != nil {
		s.refuse(v, nameTaken, fmt.Sprintf("WindowsInstances with the name of the Machine and with name %s already exist; remove one of them", instance.Name))
		return reconcile.Result{RequeueAfter: recheckInterval}, nil
	}
	holder, err := s.Hosts.create(ctx, s.Client, instance, v.Addresses[0])
	if err != nil {
		return reconcile.Result{}, err
	}
	if holder != "" {
		return s.reportTaken(v, v.Addresses[0], holder), nil
	}
	s.Events.Emit(kube.Event{Object: v.object, Related: instance, Type: corev1.EventTypeNormal, Reason: api.EventInstanceSetup, Action: "Create"},
		"created WindowsInstance %s", instance.Name)
	return reconcile.Result{}, nil
}

const maxName = 253

// alternativeName returns the name of a Machine's instance if another instance has the Machine's name: always the same for the same Machine.
func alternativeName(source string, i *v1alpha1.WindowsInstance) string {
	sum := sha256.Sum256([]byte(source + "/" + i.Annotations[api.AnnotationMachine]))
	suffix := fmt.Sprintf("-%x", sum[:3])
	return strings.TrimRight(i.Name[:min(len(i.Name), maxName-len(suffix))], ".-") + suffix
}

// refuse records an event for why a Machine gets no instance.
func (s *machineSource) refuse(v machineView, kind, message string) {
	s.Events.Emit(kube.Event{Object: v.object, Type: corev1.EventTypeWarning, Reason: api.EventInstanceInvalid, Action: kind}, "%s", message)
}

// remove deletes instances. If the host is gone, they are released first, because it can no longer leave the cluster.
func (s *machineSource) remove(ctx context.Context, v machineView, instances []*v1alpha1.WindowsInstance, reason string) error {
	var errs []error
	for _, i := range instances {
		errs = append(errs, s.removeOne(ctx, v, i, reason))
	}
	return errors.Join(errs...)
}

func (s *machineSource) removeOne(ctx context.Context, v machineView, i *v1alpha1.WindowsInstance, reason string) error {
	if v.Verdict == machines.Gone && i.Annotations[api.AnnotationRelease] != "true" {
		released := i.DeepCopy()
		released.Annotations = kube.Merge(i.Annotations, map[string]string{api.AnnotationRelease: "true"})
		if err := s.Client.Patch(ctx, released, client.MergeFrom(i)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("releasing WindowsInstance %s: %w", i.Name, err)
		}
	}
	if i.DeletionTimestamp != nil {
		return nil
	}
	err := s.Client.Delete(ctx, i.DeepCopy(), client.Preconditions{UID: &i.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is gone, or replaced by another of that name, which has its own watch event
	}
	if err != nil {
		return fmt.Errorf("deleting WindowsInstance %s: %w", i.Name, err)
	}
	s.Hosts.release(client.ObjectKeyFromObject(i))
	reported := kube.Event{Object: i.DeepCopy(), Type: corev1.EventTypeNormal, Reason: api.EventInstanceTeardown, Action: "Delete"}
	if v.object != nil {
		reported.Object, reported.Related = v.object, i.DeepCopy()
	}
	s.Events.Emit(reported, "deleting WindowsInstance %s: %s", i.Name, reason)
	return nil
}
