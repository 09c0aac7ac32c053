// Package fleet plans for all hosts at once: its only worker calls rollout.Decide for the next action of each host, so that the budget is counted
// once. The instance controller carries out the plan.
package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
	"github.com/windows-machine-config/wmco/internal/operator/controllers/clusterversion"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/settings"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// Changes within minPlanDelay are planned together. If planning takes long, the delay grows to planDelayFactor times the duration of the last plan, up
// to maxPlanDelay.
const (
	minPlanDelay    = 250 * time.Millisecond
	maxPlanDelay    = time.Second
	planDelayFactor = 50
)

// Controller plans for all hosts at once with one worker, so that the budget is counted once. The instance controller carries out the plan, with a
// separate worker per host.
type Controller struct {
	Options
	costs costs
	// orphanNodes is the number of Windows nodes without an instance.
	orphanNodes prometheus.Gauge
	// Plans receives hosts whose plan has changed, for the instance controller.
	Plans chan ctrlevent.GenericEvent
	// orphans are the nodes for which gather has found no instance.
	orphans orphans
	// reportedAt is when the summary was last written.
	reportedAt time.Time

	mu           sync.Mutex
	planDuration time.Duration // of the last plan
	next         map[types.NamespacedName]rollout.Next
	// unhealthy maps hosts on which the version does not work to the problem; unrepaired are hosts that must not be joined again now.
	unhealthy  map[string]string
	unrepaired map[string]bool
	// granted are actions that were allowed to begin, until the instance controller reports that they have ended or were not needed.
	granted map[types.NamespacedName]v1alpha1.PlanAction
}

// Options are the controller's dependencies.
type Options struct {
	Client client.Client
	Events kube.Events
	// Registry receives the metrics.
	Registry  prometheus.Registerer
	Namespace string
	// Releases choose the version of nodes.
	Releases *clusterversion.Releases
	Store    *settings.Store
}

// New returns the controller and registers its metrics.
func New(o Options) *Controller {
	orphans := kube.NewGauge(api.MetricOrphanNodes)
	f := &Controller{
		Options:     o,
		orphanNodes: orphans.WithLabelValues(),
		Plans:       make(chan ctrlevent.GenericEvent),
		next:        map[types.NamespacedName]rollout.Next{}, granted: map[types.NamespacedName]v1alpha1.PlanAction{},
	}
	o.Registry.MustRegister(orphans)
	return f
}

// Register adds the controller to the manager.
func (f *Controller) Register(_ context.Context, m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("fleet").
		Watches(&v1alpha1.WindowsInstance{}, f.planSoon()).
		Watches(&corev1.Node{}, f.planSoon(), builder.WithPredicates(NodeChanged())).
		Watches(&v1alpha1.WindowsConfig{}, f.planSoon(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(ctrlsource.Channel(f.Releases.Changed(), f.planSoon())).
		Watches(&corev1.ConfigMap{}, f.planSoon(), builder.WithPredicates(predicate.NewPredicateFuncs(settings.IsSetting))).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(f)
}

// planSoon requests a plan after a short delay, one for all changes until then.
func (f *Controller) planSoon() handler.EventHandler {
	return kube.OnChange(func(_ context.Context, _ client.Object, q kube.Queue) { q.AddAfter(fleetRequest(), f.planDelay()) })
}

func (f *Controller) planDelay() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return min(max(minPlanDelay, planDelayFactor*f.planDuration), maxPlanDelay)
}

func fleetRequest() reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: "fleet"}}
}

// NodeChanged passes only Node changes that affect plans: heartbeats of a thousand nodes do not.
func NodeChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e ctrlevent.UpdateEvent) bool {
		previous, current := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
		return (nodestate.IsWindows(previous) || nodestate.IsWindows(current)) && !rollout.NodeOf(previous).Same(rollout.NodeOf(current))
	}}
}

// Reconcile makes a plan and notifies the instance controller of hosts whose plan has changed.
func (f *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	seen, err := f.gather(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	plan := rollout.Decide(seen.Fleet)
	for _, id := range f.storePlan(plan, seen) {
		select {
		case f.Plans <- ctrlevent.GenericEvent{Object: seen.instances[id]}:
		case <-ctx.Done():
			return reconcile.Result{}, nil
		}
	}
	result := reconcile.Result{}
	if !plan.RecheckAt.IsZero() {
		result.RequeueAfter = max(time.Until(plan.RecheckAt), time.Second)
	}
	orphaned := f.reportOrphans(seen.orphans)
	later, err := f.report(ctx, seen, plan.Summary)
	result.RequeueAfter = kube.Soonest(result.RequeueAfter, orphaned, later)
	return result, err
}

type fleetSeen struct {
	rollout.Fleet
	config    *v1alpha1.WindowsConfig
	ids       []types.NamespacedName // in the order of Hosts
	instances map[types.NamespacedName]*v1alpha1.WindowsInstance
	orphans   map[string]*corev1.Node // Windows nodes without an instance, by name
}

func (f *Controller) gather(ctx context.Context) (fleetSeen, error) {
	s := fleetSeen{instances: map[types.NamespacedName]*v1alpha1.WindowsInstance{}}
	s.Now = time.Now()
	var err error
	if s.config, err = kube.GetConfig(ctx, f.Client); err != nil {
		return s, err
	}
	current, finding := f.Releases.Current()
	version := current.Version
	s.Policy = rollout.PolicyOf(s.config.Spec, version)
	s.Policy.VersionFault, s.Policy.Kubelet = finding, current.Kubelet
	got, err := f.Store.Cached(ctx, version)
	if client.IgnoreNotFound(err) != nil {
		return s, err
	}
	s.Policy.Unpublished = err != nil
	nodes, err := f.nodes(ctx)
	if err != nil {
		return s, err
	}
	var list v1alpha1.WindowsInstanceList
	if err := f.Client.List(ctx, &list, client.InNamespace(f.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return s, fmt.Errorf("listing WindowsInstances: %w", err)
	}
	for i := range list.Items {
		instance := &list.Items[i]
		if kube.HasLeft(instance) {
			continue
		}
		id := client.ObjectKeyFromObject(instance)
		s.instances[id] = instance
		s.ids = append(s.ids, id)
		h := rollout.HostOf(instance, nodes[instance.Status.Hostname])
		if h.Node != nil {
			delete(nodes, instance.Status.Hostname)
		}
		h.SettlesAt = rollout.SettlesUntil(instance.Status.DrainedAt, s.config.Spec.Rollout.Drain.Settle)
		h.Arrived, h.Former = ContentOf(instance, current.Content.Digest)
		h.Staged = instance.Status.Payload.Staged == desired.ShortDigest(current.Content.Digest)
		if h.Node != nil && h.Node.Version != version && !s.Policy.Unpublished {
			h.Disruption = f.costs.of(ctx, f.Store, h.Node.Version, got)
		}
		h.ReplaceReason = ReplaceReason(instance, s.config.Spec.Rollout.Machines)
		h.Granted = f.grantOf(id)
		s.Hosts = append(s.Hosts, h)
	}
	s.orphans, s.Orphans = nodes, slices.Sorted(maps.Keys(nodes))
	return s, nil
}

func (f *Controller) nodes(ctx context.Context) (map[string]*corev1.Node, error) {
	list, err := kube.WindowsNodes(ctx, f.Client)
	if err != nil {
		return nil, err
	}
	nodes := map[string]*corev1.Node{}
	for i := range list {
		nodes[list[i].Name] = &list[i]
	}
	return nodes, nil
}

// storePlan stores the plan and returns the hosts whose plan has changed. An action that begins stays granted until Done is called.
func (f *Controller) storePlan(plan rollout.Plan, seen fleetSeen) []types.NamespacedName {
	f.mu.Lock()
	defer f.mu.Unlock()
	previous := f.next
	f.planDuration = time.Since(seen.Now)
	wasUnhealthy, wasUnrepaired := f.unhealthy, f.unrepaired
	f.next, f.unhealthy, f.unrepaired = map[types.NamespacedName]rollout.Next{}, plan.Unhealthy, plan.Unrepaired
	var changed []types.NamespacedName
	for _, id := range seen.ids {
		next, planned := plan.Hosts[id.Name]
		if planned {
			f.next[id] = next
		}
		if next.Begin && usesBudget(next.Action) && !next.InProgress {
			f.granted[id] = next.Action
		}
		joined := previous[id].Action == v1alpha1.ActionJoin && !planned // the instance controller knows that the host has joined
		if next != previous[id] && !joined || f.unhealthy[id.Name] != wasUnhealthy[id.Name] || wasUnrepaired[id.Name] && !f.unrepaired[id.Name] {
			changed = append(changed, id)
		}
	}
	maps.DeleteFunc(f.granted, func(id types.NamespacedName, _ v1alpha1.PlanAction) bool { _, planned := f.next[id]; return !planned })
	return changed
}

// usesBudget reports whether an action uses the budget until it ends.
func usesBudget(a v1alpha1.PlanAction) bool {
	return a != v1alpha1.ActionJoin && a != v1alpha1.ActionStage
}

func (f *Controller) grantOf(id types.NamespacedName) v1alpha1.PlanAction {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.granted[id]
}

// Next returns the next action of a host in the current plan.
func (f *Controller) Next(id types.NamespacedName) rollout.Next {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next[id]
}

// Unhealthy returns what is wrong with the version on a host that got it; empty if nothing is, or nothing is known yet.
func (f *Controller) Unhealthy(id types.NamespacedName) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unhealthy[id.Name]
}

// Unrepaired reports whether a host must not be joined again now, because more nodes are silent than may be out of service.
func (f *Controller) Unrepaired(id types.NamespacedName) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unrepaired[id.Name]
}

// Done reports that a granted action has ended or has not begun.
func (f *Controller) Done(id types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.granted, id)
	delete(f.next, id) // so that the next plan counts as changed even if it is the same
}

// summaryInterval is the minimum time between writes of the summary: while a fleet joins, it differs in each plan.
const summaryInterval = 2 * time.Second

// report writes the summary to the status of WindowsConfig, if that exists. A summary that follows the last write too soon is written later.
func (f *Controller) report(ctx context.Context, s fleetSeen, sum v1alpha1.RolloutStatus) (later time.Duration, err error) {
	if s.config.UID == "" {
		return 0, nil
	}
	config := s.config.DeepCopy()
	sum.StartedAt, sum.EstimatedEnd = estimate(s, sum)
	config.Status.Rollout = &sum
	if equality.Semantic.DeepEqual(s.config.Status.Rollout, config.Status.Rollout) {
		return 0, nil
	}
	if wait := summaryInterval - time.Since(f.reportedAt); wait > 0 {
		return wait, nil
	}
	if err := f.Client.Status().Patch(ctx, config, client.MergeFrom(s.config)); err != nil {
		return 0, fmt.Errorf("writing the status of WindowsConfig %s: %w", config.Name, err)
	}
	f.reportedAt = time.Now()
	return 0, nil
}
