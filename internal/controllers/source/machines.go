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
	"github.com/windows-machine-config/wmco/internal/cluster"
	"github.com/windows-machine-config/wmco/internal/kube"
	"github.com/windows-machine-config/wmco/internal/machines"
)

// The namespaces in which OpenShift keeps Machines.
const (
	MachineAPINamespace = "openshift-machine-api"
	ClusterAPINamespace = "openshift-cluster-api"
)

// leavingAgain is how often a Machine looks whether the host it wants has been left by the instance that is on its way out.
const leavingAgain = 5 * time.Second

// machineSource makes a WindowsInstance of each Windows Machine of one API, and removes it with the Machine. It touches only instances
// that it made.
type machineSource struct {
	Options
	source string // a value of label source
	// place is what is known when the API was found; nil before.
	place atomic.Pointer[machinePlace]
	asked asked
	names machineNames
	tried atomic.Bool // to find the API
	said  string      // why it was not found
}

// machinePlace is where Machines are read.
type machinePlace struct {
	kind      schema.GroupVersionKind
	namespace string        // with the Machines
	cached    client.Reader // those with our label only
	cluster   machines.Cluster
}

// machineView is what is known of one Machine.
type machineView struct {
	object *unstructured.Unstructured // nil when it is gone
	// own are the instances made from it, have all by name. They are the cache's: not to be changed.
	own  []*v1alpha1.WindowsInstance
	have map[string]*v1alpha1.WindowsInstance
	// machine is what was read of the object.
	machine machines.Machine
	machines.Decision
}

// NewMachines makes the controller of the Machines of one API; source is a value of label source.
func NewMachines(o Options, source string) *machineSource {
	return &machineSource{Options: o, source: source}
}

// Register adds the controller to the manager.
func (s *machineSource) Register(_ context.Context, m manager.Manager) error {
	ctl, err := builder.ControllerManagedBy(m).
		Named(strings.ToLower(s.source)+"-source").
		Watches(&v1alpha1.WindowsInstance{}, handler.EnqueueRequestsFromMapFunc(s.ofInstance), builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(s.ofNode), builder.WithPredicates(providerIDSet())).
		Build(s)
	if err != nil {
		return err
	}
	if s.source == api.SourceClusterAPI {
		return kube.Follow(m, ctl, s.Kind, s.tellClusterAPI)
	}
	return kube.WatchWhenAvailable(m, ctl, s.Kind, func() { s.tried.Store(true) })
}

// Kind says which Machines to watch.
func (s *machineSource) Kind(ctx context.Context) (kube.OptionalKind, error) {
	if s.source == api.SourceClusterAPI {
		return s.clusterAPIKind(ctx)
	}
	return s.machineAPIKind(ctx)
}

// Looked implements Announcer.
func (s *machineSource) Looked() bool { return s.tried.Load() }

// machineAPIKind says what to watch of OpenShift's Machine API.
func (s *machineSource) machineAPIKind(ctx context.Context) (kube.OptionalKind, error) {
	platform, err := cluster.ReadPlatform(ctx, s.Live)
	return s.kind(MachineAPINamespace, machines.Cluster{Namespace: s.Namespace, Platform: platform.Type}), err
}

// kind is what to watch: the Windows Machines of a namespace.
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

// Limits of what is kept of Machines, of one, of all in a namespace, and of all. Outside of OpenShift, tenants make them.
const (
	maxMachine          = 256 << 10
	machinesOfNamespace = 32 << 20
	allMachines         = 64 << 20
)

// keepMachine keeps a Machine without what nobody reads of its metadata.
func keepMachine(o client.Object) (client.Object, bool) {
	kube.ShortenMetadata(o)
	return o, true
}

// ofInstance names the Machine that an instance was made from.
func (s *machineSource) ofInstance(_ context.Context, i client.Object) []reconcile.Request {
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
		return nil // no API server is asked: the cache is on its way down
	}
	return s.asked.of(list.Items, place.cluster)
}

// Reconcile makes the instance of one Machine what the Machine says.
func (s *machineSource) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	place := s.place.Load()
	if place == nil || r.Namespace != place.namespace {
		return reconcile.Result{RequeueAfter: kube.DiscoveryInterval}, nil // what cannot be seen is not gone
	}
	v, err := s.gather(ctx, place, r)
	if err != nil {
		return reconcile.Result{}, err
	}
	switch v.Verdict {
	case machines.Gone:
		return reconcile.Result{}, s.remove(ctx, v, v.own, "its Machine is gone, or about to be")
	case machines.Leave:
		return reconcile.Result{}, s.remove(ctx, v, v.own, "its Machine is not marked as a Windows node of this operator any more")
	case machines.Want:
		s.compareNodes(ctx, v)
		return s.ensure(ctx, v)
	}
	if v.Fault != "" {
		s.refuse(v, v.Fault, v.Message)
	}
	return reconcile.Result{}, nil
}

// gather looks at a Machine and its instances, and decides.
func (s *machineSource) gather(ctx context.Context, place *machinePlace, r reconcile.Request) (v machineView, err error) {
	if v.have, err = allInstances(ctx, s.Client, s.Namespace); err != nil {
		return v, err
	}
	for _, i := range sorted(v.have) {
		if slices.Contains(s.ofInstance(ctx, i), r) {
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
		v.Decision = machines.Decision{Verdict: machines.Keep, Fault: "MachineTooLarge", Message: "it, or all Machines of its namespace, have too much metadata and status to be kept in memory"}
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

// read returns a Machine; nil when it is really gone, and not only without our label, which is all that the cache holds.
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

// ensure makes the instance that a Machine asks for, unless it is there or the host is another's.
func (s *machineSource) ensure(ctx context.Context, v machineView) (reconcile.Result, error) {
	for _, i := range v.own {
		if ip, err := netip.ParseAddr(i.Spec.Address); err == nil && slices.Contains(v.Addresses, ip) {
			return reconcile.Result{}, nil // what a user changed in it since stays: there is no other place for it
		}
	}
	if len(v.own) > 0 { // when they are gone, the Machine comes back
		v.Verdict = machines.Gone // nothing of ours is at the address any more
		return reconcile.Result{}, s.remove(ctx, v, v.own, fmt.Sprintf("its Machine has the address %s now", v.Addresses[0]))
	}
	if adopted, err := s.adopt(ctx, v); adopted || err != nil {
		return reconcile.Result{}, err
	}
	if !s.Hosts.ready(time.Now()) {
		return reconcile.Result{RequeueAfter: readyAgain}, nil
	}
	if why := s.leaveOutReserved(ctx, &v); why != nil {
		s.refuse(v, addressInvalid, why.Error())
		return reconcile.Result{RequeueAfter: lookAgain}, nil
	}
	known := s.Hosts.resolve(ctx, addressesOf(v.have))
	if early(known, v.have, time.Now()) {
		return reconcile.Result{RequeueAfter: readyAgain}, nil
	}
	if ip, holder := s.holder(ctx, v, known); holder != "" {
		return s.taken(v, ip, holder), nil
	}
	return s.create(ctx, v)
}

// leaveOutReserved leaves out addresses that the cluster has for something else. It returns why, where none is left. An instance that
// exists is not looked at in this way: what Nodes say of their addresses must not take it away.
func (s *machineSource) leaveOutReserved(ctx context.Context, v *machineView) (why error) {
	is, err := s.Reserved.With(ctx, "")
	if err != nil { // the instance says so, too, before it is connected to
		log.FromContext(ctx).Info("Reading reserved addresses failed; addresses of the Machine are checked against those known", "error", err.Error())
	}
	var left []netip.Addr
	for _, ip := range v.Addresses {
		if bad := refused(is, ip); bad != nil {
			why = bad
			if node := is.Nodes[ip]; node != "" {
				s.tellNode(ctx, node, ip, "Machine "+v.Instance.Annotations[api.AnnotationMachine])
			}
		} else {
			left = append(left, ip)
		}
	}
	if len(left) == 0 {
		return why
	}
	v.Addresses, v.Instance.Spec.Address = left, left[0].String()
	return nil
}

// holder says which of the Machine's addresses is another's, and whose.
func (s *machineSource) holder(ctx context.Context, v machineView, known resolved) (netip.Addr, string) {
	owner := owners(known, v.have, func(*v1alpha1.WindowsInstance) bool { return false })
	before := s.Hosts.higherPriority(ctx, s.source)
	for _, ip := range v.Addresses {
		if owner[ip] != "" {
			return ip, owner[ip]
		}
		if a, asked := before[ip]; asked {
			return ip, a.Who
		}
		for _, a := range s.Announced(ctx) {
			if a.Address == ip && a.ID < v.Instance.Annotations[api.AnnotationMachine] {
				return ip, a.Who
			}
		}
	}
	return netip.Addr{}, ""
}

func (s *machineSource) taken(v machineView, ip netip.Addr, holder string) reconcile.Result {
	if i := v.have[strings.TrimPrefix(holder, "WindowsInstance ")]; i != nil && i.DeletionTimestamp != nil {
		return reconcile.Result{RequeueAfter: leavingAgain}
	}
	s.refuse(v, addressTaken, fmt.Sprintf("its address %s is that of %s already; remove one of the two, "+
		"or keep the operator away from the Machine with label %s=true", ip, holder, api.LabelIgnore))
	return reconcile.Result{RequeueAfter: lookAgain}
}

// create makes the instance, under another name where another instance has the Machine's.
func (s *machineSource) create(ctx context.Context, v machineView) (reconcile.Result, error) {
	instance := v.Instance
	if v.have[instance.Name] != nil {
		instance.Name = otherName(s.source, instance)
	}
	if v.have[instance.Name] != nil {
		s.refuse(v, nameTaken, fmt.Sprintf("WindowsInstances with its name and with the name %s are there already; remove one of them", instance.Name))
		return reconcile.Result{RequeueAfter: lookAgain}, nil
	}
	holder, err := s.Hosts.create(ctx, s.Client, instance, v.Addresses[0])
	if err != nil {
		return reconcile.Result{}, err
	}
	if holder != "" {
		return s.taken(v, v.Addresses[0], holder), nil
	}
	s.Events.Emit(kube.Event{Object: v.object, Related: instance, Type: corev1.EventTypeNormal, Reason: api.EventInstanceSetup, Action: "Create"},
		"became WindowsInstance %s", instance.Name)
	return reconcile.Result{}, nil
}

// maxName is how long the name of an object may be.
const maxName = 253

// otherName is what the instance of a Machine is called when an instance has the Machine's name: always the same for the same Machine.
func otherName(source string, i *v1alpha1.WindowsInstance) string {
	sum := sha256.Sum256([]byte(source + "/" + i.Annotations[api.AnnotationMachine]))
	suffix := fmt.Sprintf("-%x", sum[:3])
	return strings.TrimRight(i.Name[:min(len(i.Name), maxName-len(suffix))], ".-") + suffix
}

// refuse tells why a Machine gets no instance.
func (s *machineSource) refuse(v machineView, kind, message string) {
	s.Events.Emit(kube.Event{Object: v.object, Type: corev1.EventTypeWarning, Reason: api.EventInstanceInvalid, Action: kind}, "%s", message)
}

// remove deletes instances. Where the host is gone, nobody is to wait until it has left by itself.
func (s *machineSource) remove(ctx context.Context, v machineView, which []*v1alpha1.WindowsInstance, because string) error {
	var errs []error
	for _, i := range which {
		errs = append(errs, s.removeOne(ctx, v, i, because))
	}
	return errors.Join(errs...)
}

func (s *machineSource) removeOne(ctx context.Context, v machineView, i *v1alpha1.WindowsInstance, because string) error {
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
		return nil // it is gone, or another one of its name has come, whose event comes, too
	}
	if err != nil {
		return fmt.Errorf("removing WindowsInstance %s: %w", i.Name, err)
	}
	s.Hosts.release(client.ObjectKeyFromObject(i))
	told := kube.Event{Object: i.DeepCopy(), Type: corev1.EventTypeNormal, Reason: api.EventInstanceTeardown, Action: "Delete"}
	if v.object != nil {
		told.Object, told.Related = v.object, i.DeepCopy()
	}
	s.Events.Emit(told, "WindowsInstance %s is being removed: %s", i.Name, because)
	return nil
}
