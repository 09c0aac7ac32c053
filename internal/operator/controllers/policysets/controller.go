// Package policysets compiles NetworkPolicies for Windows nodes, and publishes the result of each namespace as a WindowsPolicySet.
//
// Pods, namespaces and whole policies are watched only while WindowsConfig requests it: other clusters do not need them in memory.
package policysets

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/observe/advice"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/networkpolicy"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

const (
	// minPause is the minimum time from the start of one compilation to the next. After a long one, the time is pauseFactor times its duration,
	// so that constantly changing pods do not keep a processor busy. After one that wrote a lot, it is long enough to keep the average write
	// rate at maxRate, in bytes per second: etcd keeps each version for some minutes, and one pod can be a peer in all namespaces.
	minPause    = 500 * time.Millisecond
	pauseFactor = 2
	maxRate     = 2 << 20
	// requestTimeout limits each request to the API server.
	requestTimeout = 30 * time.Second
)

// Controller publishes the sets.
type Controller struct {
	Options
	metrics metrics
	// changed receives an event for each change of what is compiled or published. isDue is set if something must be compiled.
	changed chan ctrlevent.GenericEvent
	isDue   atomic.Bool
	// start starts the watches. It returns a reader of what is compiled, and of the metadata of sets, when it has all objects.
	start func() (objects client.Reader, end func(), err error)

	// Only one worker uses the fields below.
	platform *cluster.Platform
	// objects and end are nil while policies are off.
	objects client.Reader
	end     func()
	// removed is true when policies are off and no set is left.
	removed   bool
	next      time.Time // of the next compilation
	published map[string]record
	reports   *reports
}

// Options are the controller's dependencies.
type Options struct {
	// Client reads WindowsConfig and Nodes from the cache, and writes sets.
	Client client.Client
	// Live reads OpenShift's objects, which are not cached.
	Live   client.Reader
	Events kube.Events
	// Namespace is the operator's.
	Namespace string
	// Registry receives the metrics.
	Registry prometheus.Registerer
}

// New returns the controller and registers its metrics.
func New(o Options) *Controller {
	return &Controller{
		Options: o, metrics: newMetrics(o.Registry), changed: make(chan ctrlevent.GenericEvent, 1), published: map[string]record{},
		reports: newReports(o.Events, advice.All()),
	}
}

// Register adds the controller to the manager. The watches that it starts later end with ctx.
func (c *Controller) Register(ctx context.Context, m manager.Manager) error {
	all := []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "all"}}}
	enqueue := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return all })
	compile := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		c.isDue.Store(true)
		return all
	})
	c.start = func() (client.Reader, func(), error) {
		return watch(ctx, m, c.Namespace, func(isInput bool) {
			if isInput {
				c.isDue.Store(true)
			}
			kube.Notify(c.changed)
		})
	}
	kube.Notify(c.changed) // sets may be left although there is neither a WindowsConfig nor a Node
	return builder.ControllerManagedBy(m).
		Named("policy-sets").
		Watches(&v1alpha1.WindowsConfig{}, compile, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Node{}, compile, builder.WithPredicates(nodeChanged())).
		WatchesRawSource(ctrlsource.Channel(c.changed, enqueue)).
		Complete(c)
}

// Reconcile publishes what all NetworkPolicies allow now, or removes all sets if nodes ignore them.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	network, err := c.network(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if desired.PoliciesOf(network) == nil {
		return reconcile.Result{}, c.stop(ctx)
	}
	if wait := time.Until(c.next); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if c.objects == nil {
		if c.objects, c.end, err = c.start(); err != nil {
			return reconcile.Result{}, fmt.Errorf("watching what NetworkPolicies depend on: %w", err)
		}
		c.removed = false
		c.isDue.Store(true)
	}
	existing, err := c.existing(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !c.isDue.Swap(false) && c.isIntact(existing) {
		return reconcile.Result{}, nil
	}
	later, err := c.compile(ctx, network.Provider, existing)
	if err != nil || later > 0 {
		c.isDue.Store(true)
	}
	return reconcile.Result{RequeueAfter: later}, err
}

// compile compiles and publishes all sets. It returns when more problems must be reported; 0 if all are.
func (c *Controller) compile(ctx context.Context, provider v1alpha1.NetworkProvider, existing sets) (later time.Duration, err error) {
	found, err := c.read(ctx, provider)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	compiled, problems := networkpolicy.Compile(found.cluster)
	took := time.Since(began)
	c.metrics.compiled(found, len(compiled), problems, took)
	written, err := c.publish(ctx, compiled, existing)
	c.next = began.Add(max(minPause, pauseFactor*took, time.Duration(written)*time.Second/maxRate))
	return c.reports.report(found, problems, began), err
}

// network returns the settings of the pod network, with the provider in use.
func (c *Controller) network(ctx context.Context) (v1alpha1.NetworkSpec, error) {
	config, err := kube.ReadConfig(ctx, c.Client)
	if err != nil {
		return config.Network, err
	}
	if c.platform == nil { // a cluster stays what it is
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		platform, err := cluster.ReadPlatform(ctx, c.Live)
		if err != nil {
			return config.Network, err
		}
		c.platform = &platform
	}
	config.Network.Provider = desired.Provider(config.Network, c.platform.OpenShift)
	return config.Network, nil
}

// stop ends the watches, and deletes all sets. Nodes no longer need them: they remove their rules when they have the setting.
func (c *Controller) stop(ctx context.Context) error {
	if c.end != nil {
		c.end()
		c.objects, c.end, c.reports.known = nil, nil, nil
		c.metrics.compiled(inputs{}, 0, nil, 0)
	}
	if c.removed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := c.Client.DeleteAllOf(ctx, &v1alpha1.WindowsPolicySet{}, client.InNamespace(c.Namespace))
	if err != nil && !kube.Unavailable(err) { // without the kind, or the permission for it, no set can exist
		return fmt.Errorf("deleting the WindowsPolicySets of policies that are off: %w", err)
	}
	clear(c.published)
	c.removed = true
	return nil
}
