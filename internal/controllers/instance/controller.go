// Package instance makes each WindowsInstance a node, and keeps it one: its controller runs joins, carries out the
// maintenance that the fleet's plan lets begin, and is the only writer of an instance's status.
package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/ssh"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/controllers/admission"
	"github.com/windows-machine-config/wmco/internal/controllers/fleet"
	"github.com/windows-machine-config/wmco/internal/controllers/settings"
	"github.com/windows-machine-config/wmco/internal/controllers/source"
	"github.com/windows-machine-config/wmco/internal/controllers/sshkey"
	"github.com/windows-machine-config/wmco/internal/join"
	"github.com/windows-machine-config/wmco/internal/kube"
	"github.com/windows-machine-config/wmco/internal/remote"
	"github.com/windows-machine-config/wmco/payload"
)

// instanceWorkers is how many instances are looked at, and tried, at the same time. It is far above the number
// that may join at the same time, so that hosts which do not answer hold up nobody.
const instanceWorkers = 256

// defaultJoins is how many hosts join at the same time where WindowsConfig does not say.
const defaultJoins = 32

// Controller makes each WindowsInstance a node.
type Controller struct {
	Options
	metrics *metrics
	staging kube.Slots // of hosts that are sent another version
	// bandwidth is what all of these may be sent together, in bytes a second.
	bandwidth *rate.Limiter
	readings  *settings.RenderGroup
	retries   kube.Backoff
	running   running    // joins
	steps     *stopwatch // of maintenances
}

// Options are what the controller needs.
type Options struct {
	Client client.Client
	Live   client.Reader
	Events kube.Events
	// Registry takes the metrics.
	Registry  prometheus.Registerer
	Namespace string
	// Version is what nodes report that have all of the content.
	Version string
	// Payload is what the operator carries for hosts; content what hosts get of it, each with its network.
	Payload  *payload.Payload
	Content  payload.Manifest
	Store    *settings.Store
	Renderer *settings.Renderer
	Policies *admission.Policies
	Fleet    *fleet.Controller
	Hosts    *source.Ownership
	Resolver *source.Resolver
	Reserved *source.ReservedAddresses
	// Ssh bounds how long a host may take to answer; dialer reaches hosts.
	Ssh    remote.Options
	Dialer func(context.Context, remote.Target, remote.Options) (SSHHost, error)
	// Slots are the places of hosts that join, names the claims of node names.
	Slots *kube.Slots
	Names *NameClaims
	// Jitter returns a time below the one that is given; by chance where it is nil.
	Jitter func(time.Duration) time.Duration
	// RetryMin and RetryMax are the shortest and the longest time between two attempts at a host that fails; 5 s and 2 min where zero.
	RetryMin, RetryMax time.Duration
}

func New(o Options) *Controller {
	if o.Jitter == nil {
		o.Jitter = rand.N[time.Duration]
	}
	return &Controller{
		Options:  o,
		metrics:  newMetrics(o.Registry, o.Client),
		readings: settings.NewRenderGroup(),
		steps:    newStopwatch(),
		// A megabyte at once is more than is read at a time; each host sets the limit that the user wants.
		bandwidth: rate.NewLimiter(rate.Limit(1<<20), 1<<20),
		retries: kube.Backoff{
			Min:    cmp.Or(o.RetryMin, 5*time.Second),
			Max:    cmp.Or(o.RetryMax, 2*time.Minute),
			Jitter: o.Jitter,
		},
	}
}

// Indexes find instances by the name of their node, and by the SSH key of their host.
const (
	HostnameIndex = "status.hostname"
	HostKeyIndex  = "status.hostKey"
)

// Indexes are what instances are found by.
func Indexes() map[string]client.IndexerFunc {
	return map[string]client.IndexerFunc{
		HostnameIndex: func(o client.Object) []string { return []string{o.(*v1alpha1.WindowsInstance).Status.Hostname} },
		HostKeyIndex:  func(o client.Object) []string { return []string{o.(*v1alpha1.WindowsInstance).Status.HostKey} },
	}
}

// Register adds the controller to the manager.
func (c *Controller) Register(ctx context.Context, m manager.Manager) error {
	for field, index := range Indexes() {
		if err := m.GetFieldIndexer().IndexField(ctx, &v1alpha1.WindowsInstance{}, field, index); err != nil {
			return fmt.Errorf("indexing WindowsInstances: %w", err)
		}
	}
	return builder.ControllerManagedBy(m).
		Named("windowsinstance").
		For(&v1alpha1.WindowsInstance{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		WatchesRawSource(ctrlsource.Channel(c.Fleet.Plans, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(ctrlsource.Channel(c.Renderer.Network.Changed, handler.EnqueueRequestsFromMapFunc(c.EnqueueAll))).
		Watches(&corev1.Node{}, c.nodeEvents(), builder.WithPredicates(
			predicate.Or(fleet.NodeChanged(), predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(c.EnqueueAll)).
		Watches(&v1alpha1.WindowsConfig{}, handler.EnqueueRequestsFromMapFunc(c.EnqueueAll),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(c.EnqueueAll), builder.WithPredicates(published())).
		Watches(&v1alpha1.WindowsInstance{}, c.Deletions()).
		WithOptions(controller.Options{MaxConcurrentReconciles: instanceWorkers}).
		Complete(c)
}

// Deletions ends the join of an instance that is deleted. Its worker is busy with that join, and would not hear of it before the end.
func (c *Controller) Deletions() handler.EventHandler {
	return kube.OnChange(func(_ context.Context, i client.Object, _ kube.Queue) {
		if i.GetDeletionTimestamp() != nil {
			c.running.end(client.ObjectKeyFromObject(i))
		}
	})
}

// published lets through what nodes must have, when it can be read for the first time, or again.
func published() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e ctrlevent.CreateEvent) bool {
			return strings.HasPrefix(e.Object.GetName(), api.ServicesConfigMapPrefix)
		},
		UpdateFunc:  func(ctrlevent.UpdateEvent) bool { return false },
		DeleteFunc:  func(ctrlevent.DeleteEvent) bool { return false },
		GenericFunc: func(ctrlevent.GenericEvent) bool { return false },
	}
}

// Reconcile brings one host as far towards being a node as it can get now.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	seen, err := c.gather(ctx, c.Client, r.NamespacedName)
	if seen == nil || err != nil {
		return reconcile.Result{}, err
	}
	if err := c.retry(ctx, seen.Instance); err != nil {
		return reconcile.Result{}, err
	}
	if next := c.Fleet.Next(r.NamespacedName); concerned(seen.Instance, next) {
		return c.maintain(ctx, r.NamespacedName, next)
	}
	d, place := c.admit(seen, join.Next(seen.Seen))
	defer place()
	if d.Action == join.Start || newlyWaits(d, seen.Instance) { // the cache may not have heard of our own last write
		admitted := seen.admitted
		if seen, err = c.gather(ctx, c.Live, r.NamespacedName); seen == nil || err != nil {
			return reconcile.Result{}, err
		}
		seen.admitted, seen.place = admitted, place
		seen.SlotFree = seen.SlotFree || admitted
		d = join.Next(seen.Seen)
	}
	status := c.newStatus(seen.Instance)
	attempted := d.Action == join.Start
	if attempted {
		_, repairs := seen.BrokenSince()
		d.Err = c.join(ctx, seen, status)
		if errors.Is(d.Err, errDeleted) {
			return reconcile.Result{}, nil // that is no failure, and the plan says when the host leaves
		}
		if repairs && ctx.Err() == nil {
			noteFailure(status.desired(), v1alpha1.Failure{Action: v1alpha1.ActionRepair, Message: join.Findings(seen.Seen, d.Err)})
		}
		seen.keyProven = d.Err == nil
		// The join found out which Node is the host's. It is there already when the host was announced again.
		if seen.Node, err = c.node(ctx, c.Client, seen.Instance); err != nil {
			return reconcile.Result{}, err
		}
	}
	if d.Action == join.Rest && d.Err == nil && seen.Instance.DeletionTimestamp == nil {
		d.After = c.proveKey(ctx, seen, status)
	}
	if err := c.syncNodeMetadata(ctx, seen); err != nil {
		return reconcile.Result{}, err
	}
	return c.report(ctx, seen, status, d, attempted)
}

// noteFailure notes what failed just now, and how often it has. Of a repair, it is noted with each join: whether that helped shows
// later, and then the note goes.
func noteFailure(st *v1alpha1.WindowsInstanceStatus, f v1alpha1.Failure) {
	f.At, f.Attempts = metav1.Now(), 1
	if st.Failure != nil && st.Failure.Action == f.Action {
		f.Attempts += st.Failure.Attempts
	}
	st.Failure = &f
}

// retry forgets what failed when the user asks for it.
func (c *Controller) retry(ctx context.Context, i *v1alpha1.WindowsInstance) error {
	if _, asked := i.Annotations[api.AnnotationRetry]; !asked {
		return nil
	}
	c.retries.Reset(client.ObjectKeyFromObject(i))
	if i.Status.Failure != nil {
		before := i.DeepCopy()
		i.Status.Failure = nil
		if err := c.Client.Status().Patch(ctx, i, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("forgetting what failed on WindowsInstance %s: %w", i.Name, err)
		}
	}
	before := i.DeepCopy()
	delete(i.Annotations, api.AnnotationRetry)
	if err := c.Client.Patch(ctx, i, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("removing annotation %s of WindowsInstance %s: %w", api.AnnotationRetry, i.Name, err)
	}
	return nil
}

// admit takes a place among the hosts that join before one of them is spoken to, or hundreds would connect to find out that
// there is none. A host that did not answer the last time takes it only when it does: many of them must not keep others out.
func (c *Controller) admit(v *view, d join.Decision) (join.Decision, func()) {
	if d.Action != join.Start || isSilent(v.Instance) {
		return d, func() {}
	}
	release, ok := c.Slots.Take(joins(v.config))
	if !ok {
		return join.Waiting(), func() {}
	}
	v.admitted, v.place = true, release
	return d, release
}

// isSilent says whether the host did not answer the last time.
func isSilent(i *v1alpha1.WindowsInstance) bool {
	return meta.IsStatusConditionFalse(i.Status.Conditions, api.ConditionReachable)
}

// newlyWaits says whether an instance that was not known to wait for a place does.
func newlyWaits(d join.Decision, i *v1alpha1.WindowsInstance) bool {
	return errors.Is(d.Err, join.ErrNoSlot) && kube.Condition(i, api.ConditionConfigured).Reason != api.ReasonWaitingForSlot
}

// view is all that is known about an instance before something is decided.
type view struct {
	join.Seen
	key    ssh.Signer
	config v1alpha1.WindowsConfigSpec
	// drained says that no pod is on the node any more that a join could hurt.
	drained bool
	// keyProven says that the host has let the key in just now.
	keyProven bool
	// admitted says that the host has its place among those that join; place gives it back.
	admitted bool
	place    func()
}

// gather looks at everything Next needs. It returns nil for an instance that is gone.
func (c *Controller) gather(ctx context.Context, r client.Reader, name types.NamespacedName) (*view, error) {
	v := &view{place: func() {}, Seen: join.Seen{Instance: &v1alpha1.WindowsInstance{}, Now: time.Now()}}
	err := r.Get(ctx, name, v.Instance)
	if apierrors.IsNotFound(err) || err == nil && kube.HasLeft(v.Instance) {
		c.forget(name)
		c.Fleet.Done(name)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading WindowsInstance %s: %w", name, err)
	}
	if v.config, err = kube.ReadConfig(ctx, c.Client); err != nil {
		return nil, err
	}
	if v.Node, err = c.node(ctx, r, v.Instance); err != nil {
		return nil, err
	}
	if v.key, v.KeyFault, err = sshkey.PrivateKey(ctx, c.Client, c.Namespace); err != nil {
		return nil, err
	}
	v.Version, v.Unfit = c.Version, c.Fleet.Skew.Unsupported()
	if cm, err := c.Store.Cached(ctx, v.Version); err == nil {
		v.Settings, v.SettingsSince = cm.Annotations[api.AnnotationSettings], cm.CreationTimestamp.Time
	}
	v.Unguarded = c.Policies.Finding()
	v.AllPaused = v.config.Rollout.Paused
	v.SlotFree = c.Slots.Free(joins(v.config))
	v.NotBefore = c.notBefore(v.Instance)
	return v, nil
}

func (c *Controller) forget(name types.NamespacedName) {
	c.Names.release(name)
	c.retries.Reset(name)
	c.steps.forget(name)
}

func joins(config v1alpha1.WindowsConfigSpec) int {
	if config.Rollout.MaxConcurrentJoins > 0 {
		return int(config.Rollout.MaxConcurrentJoins)
	}
	return defaultJoins
}

// node returns the Node that the host of the instance became, or nil. The name in the status was checked to be
// the host's before it was written there.
func (c *Controller) node(ctx context.Context, r client.Reader, i *v1alpha1.WindowsInstance) (*corev1.Node, error) {
	if i.Status.Hostname == "" {
		return nil, nil
	}
	var node corev1.Node
	err := r.Get(ctx, types.NamespacedName{Name: i.Status.Hostname}, &node)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Node %s: %w", i.Status.Hostname, err)
	}
	return &node, nil
}

// notBefore is when an instance that failed may be tried again. A changed spec is tried at once.
func (c *Controller) notBefore(i *v1alpha1.WindowsInstance) time.Time {
	id := client.ObjectKeyFromObject(i)
	if i.Status.ObservedGeneration != i.Generation {
		c.retries.Reset(id)
	}
	return c.retries.Until(id)
}

// nodeEvents asks for the instance of a Node that changed. A Node that comes up changes several times within seconds; where many hosts
// join, its instance waits a little and sees that at once.
func (c *Controller) nodeEvents() handler.EventHandler {
	return kube.OnChange(func(ctx context.Context, node client.Object, q kube.Queue) {
		for _, r := range c.ofNode(ctx, node) {
			q.AddAfter(r, batchDelay(c.Slots.Taken()))
		}
	})
}

// ofNode names the instance whose host is the node.
func (c *Controller) ofNode(ctx context.Context, node client.Object) []reconcile.Request {
	return c.requests(ctx, client.MatchingFields{HostnameIndex: node.GetName()})
}

// EnqueueAll names all instances: what concerns them all has changed, so that none needs to wait out its back-off.
func (c *Controller) EnqueueAll(ctx context.Context, _ client.Object) []reconcile.Request {
	all := c.requests(ctx)
	for _, r := range all {
		c.retries.Reset(r.NamespacedName)
	}
	return all
}

func (c *Controller) requests(ctx context.Context, which ...client.ListOption) []reconcile.Request {
	var list v1alpha1.WindowsInstanceList
	if err := c.Client.List(ctx, &list, which...); err != nil {
		return nil // the cache is not there yet; its start brings every instance anyway
	}
	var requests []reconcile.Request
	for _, i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&i)})
	}
	return requests
}
