// Package instance makes each WindowsInstance a node and keeps it one. Its controller runs joins, carries out the maintenance that the fleet's plan
// allows, and is the only writer of an instance's status.
package instance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/ssh"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
	"github.com/windows-machine-config/wmco/internal/operator/controllers/admission"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/clusterversion"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/fleet"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/settings"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/source"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/payload"
)

// instanceWorkers is the number of instances that are reconciled concurrently. It is far above the number of concurrent joins, so that hosts that do not
// answer do not delay others.
const instanceWorkers = 256

// Controller makes each WindowsInstance a node.
type Controller struct {
	Options
	metrics *metrics
	staging kube.Slots // for transfers of another version
	// bandwidth limits the transfers to all of these hosts together, in bytes per second.
	bandwidth *rate.Limiter
	readings  *kube.SharedRead[v1alpha1.WindowsConfigSpec, join.Want]
	retries   kube.Backoff
	stopwatch *stopwatch // of maintenance steps
	settles   *settling
	// running maps instances to a function that ends their join in progress.
	running sync.Map
	// proven maps instances to the hash of the SSH key that their host has accepted. A Node, which may be missing or created again, must not be
	// annotated with a key that was not tried, because WICD removes the others.
	proven sync.Map
	// unprovenNodes are the UIDs of Nodes with the name of an instance's host that were not proven to be the host's when they were created. Later changes
	// prove nothing: the host has an identity of that name, too, and may have made them. A managed kubelet registers its Node with its address, or with
	// its label if Windows has no address yet, as after boot; no other machine has a managed kubelet of that name.
	unprovenNodes sync.Map
}

// Options are the controller's dependencies and settings.
type Options struct {
	Client client.Client
	Live   client.Reader
	Events kube.Events
	// Registry registers the metrics.
	Registry  prometheus.Registerer
	Namespace string
	// Payload contains the programs for hosts; Releases selects the part that nodes get.
	Payload  *payload.Payload
	Releases *clusterversion.Releases
	Store    *settings.Store
	Renderer *settings.Renderer
	Policies *admission.Policies
	Fleet    *fleet.Controller
	Hosts    *source.Ownership
	Resolver *source.Resolver
	Reserved *source.ReservedAddresses
	// Dialer opens SSH connections.
	Dialer func(context.Context, remote.Target, remote.Options) (SSHHost, error)
	// Slots limits concurrent joins; Names holds the claims to node names.
	Slots *kube.Slots
	Names *NameClaims
	// Jitter returns a random duration below its argument. Default: rand.N.
	Jitter func(time.Duration) time.Duration
}

// SSHHost is a connected host, as remote.Dial returns it.
type SSHHost interface {
	join.Host
	HostKey() ssh.PublicKey
	Usage() remote.Usage
}

// New creates the controller and registers its metrics.
func New(o Options) *Controller {
	if o.Jitter == nil {
		o.Jitter = rand.N[time.Duration]
	}
	return &Controller{
		Options:   o,
		metrics:   newMetrics(o.Registry, o.Client),
		readings:  kube.NewSharedRead[v1alpha1.WindowsConfigSpec, join.Want](),
		stopwatch: newStopwatch(),
		settles:   newSettling(),
		// The burst of 1 MiB is more than any single read; each transfer sets the configured rate.
		bandwidth: rate.NewLimiter(rate.Limit(1<<20), 1<<20),
		retries:   kube.Backoff{Min: 5 * time.Second, Max: 2 * time.Minute, Jitter: o.Jitter},
	}
}

// Field indexes of instances: by the name of their node, and by the SSH key of their host.
const (
	HostnameIndex = "status.hostname"
	HostKeyIndex  = "status.hostKey"
)

// Indexes returns the index functions of instances by field.
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
		For(&v1alpha1.WindowsInstance{}, builder.WithPredicates(
			predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, statusWritten()))).
		WatchesRawSource(ctrlsource.Channel(c.Fleet.Plans, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(ctrlsource.Channel(c.Releases.Changed(), handler.EnqueueRequestsFromMapFunc(c.EnqueueAll))).
		WatchesRawSource(ctrlsource.Channel(c.Renderer.Cluster.Changed, handler.EnqueueRequestsFromMapFunc(c.EnqueueAll))).
		Watches(&corev1.Node{}, c.NodeEvents(), builder.WithPredicates(
			predicate.Or(fleet.NodeChanged(), imagesPulled(), predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(c.EnqueueAll)).
		Watches(&v1alpha1.WindowsConfig{}, handler.EnqueueRequestsFromMapFunc(c.EnqueueAll),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(c.EnqueueAll), builder.WithPredicates(published())).
		Watches(&v1alpha1.WindowsInstance{}, c.Deletions()).
		WithOptions(controller.Options{MaxConcurrentReconciles: instanceWorkers}).
		Complete(c)
}

// Deletions ends the join of a deleted instance: its worker is busy with that join and would not notice the deletion before the end.
func (c *Controller) Deletions() handler.EventHandler {
	return kube.OnChange(func(_ context.Context, i client.Object, _ kube.Queue) {
		if i.GetDeletionTimestamp() != nil {
			if end, found := c.running.Load(client.ObjectKeyFromObject(i)); found {
				end.(func())()
			}
		}
	})
}

// statusWritten passes the operator's own status writes, except the progress of steps. A pass within milliseconds of a write may read the former
// status from a stale cache and find nothing to write; without another pass, the status would keep the intermediate value.
func statusWritten() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e ctrlevent.UpdateEvent) bool {
		previous, current := e.ObjectOld.(*v1alpha1.WindowsInstance).Status, e.ObjectNew.(*v1alpha1.WindowsInstance).Status
		previous.Steps, current.Steps = nil, nil
		return !equality.Semantic.DeepEqual(previous, current)
	}}
}

// imagesPulled passes changes of Nodes that may end the wait for images (join.ImagesWait).
func imagesPulled() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e ctrlevent.UpdateEvent) bool {
		statusOf := func(o client.Object) (s corev1.ConditionStatus) {
			if c := nodestate.Condition(o.(*corev1.Node), api.ConditionImagesMissing); c != nil {
				s = c.Status
			}
			return s
		}
		return statusOf(e.ObjectOld) != statusOf(e.ObjectNew)
	}}
}

// published passes services ConfigMaps, which hold what nodes must have, when they become readable for the first time or again.
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

func (c *Controller) forget(name types.NamespacedName) {
	c.Names.release(name)
	c.retries.Reset(name)
	c.stopwatch.forget(name)
	c.settles.forget(name)
	c.proven.Delete(name)
}

// requestsForNode returns a request for the instance whose host is the node.
func (c *Controller) requestsForNode(ctx context.Context, node client.Object) []reconcile.Request {
	return c.requests(ctx, client.MatchingFields{HostnameIndex: node.GetName()})
}

// EnqueueAll returns requests for all instances after a change that concerns them all, and resets their back-off.
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
		return nil // the cache has not started; its start enqueues every instance anyway
	}
	var requests []reconcile.Request
	for _, i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&i)})
	}
	return requests
}
