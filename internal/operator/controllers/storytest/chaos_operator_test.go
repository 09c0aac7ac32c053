package storytest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

func keyOf(o client.Object) client.ObjectKey { return client.ObjectKeyFromObject(o) }

// startChaosOperator starts the operator with clients whose writes may fail. Cached reads succeed, live reads may fail.
func (w *chaosWorld) startChaosOperator() {
	raw := w.client
	w.client, w.live = w.operatorClient(false), w.operatorClient(true)
	w.startOperator()
	w.client = raw
	w.retryAt = map[string]time.Time{}
	w.fleetDue = time.Time{}
}

// fails decides how a request of the operator ends: rejected before it takes effect, or with its response lost afterwards.
func (w *chaosWorld) fails() (before, after error) {
	if !w.chance(w.apiFails) {
		return nil, nil
	}
	switch w.rand.IntN(4) {
	case 0:
		return apierrors.NewServiceUnavailable("the API server starts"), nil
	case 1:
		return apierrors.NewTimeoutError("the API server is slow", 1), nil
	case 2:
		return apierrors.NewConflict(corev1.Resource("things"), "this", fmt.Errorf("it was changed")), nil
	}
	return nil, apierrors.NewServerTimeout(corev1.Resource("things"), "write", 1)
}

// try executes a request of the operator unless the API server fails.
func (w *chaosWorld) try(do func() error) error {
	before, after := w.fails()
	if before != nil {
		return before
	}
	if err := do(); err != nil {
		return err
	}
	return after
}

// operatorClient returns a client that observes the operator's writes.
func (w *chaosWorld) operatorClient(readsFail bool) client.Client {
	funcs := interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return w.try(func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return w.try(func() error { return c.Update(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return w.try(func() error {
				if pod, found := w.cache.objects["Pod"][keyOf(o)]; found {
					w.evicted(pod.(*corev1.Pod), "deleted")
				}
				return c.Delete(ctx, o, opts...)
			})
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return w.try(func() error {
				if node, isNode := o.(*corev1.Node); isNode {
					w.patchesNode(node, p)
				}
				return c.Patch(ctx, o, p, opts...)
			})
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return w.try(func() error {
				i, isInstance := o.(*v1alpha1.WindowsInstance)
				if !isInstance {
					return c.SubResource(sub).Patch(ctx, o, p, opts...)
				}
				before := w.host(i.Name).instanceSeen()
				err := c.SubResource(sub).Patch(ctx, o, p, opts...)
				w.host(i.Name).statusWritten(before)
				return err
			})
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, s client.Object, opts ...client.SubResourceCreateOption) error {
			return w.try(func() error {
				if e, isEviction := s.(*policyv1.Eviction); isEviction {
					return w.evict(o.(*corev1.Pod), e)
				}
				return c.SubResource(sub).Create(ctx, o, s, opts...)
			})
		},
	}
	if readsFail {
		funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return w.try(func() error { return c.Get(ctx, key, o, opts...) })
		}
		funcs.List = func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			return w.try(func() error { return c.List(ctx, l, opts...) })
		}
	}
	return interceptor.NewClient(w.raw(), funcs)
}

// nodePatch contains the fields of a Node patch that the rules check.
type nodePatch struct {
	Metadata struct {
		ResourceVersion string
		Annotations     map[string]*string
	}
	Spec map[string]any
}

// patchesNode is called before the operator changes a Node.
func (w *chaosWorld) patchesNode(node *corev1.Node, p client.Patch) {
	h := w.host(node.Name)
	before := h.nodeSeen()
	data, err := p.Data(node)
	w.must(err)
	var change nodePatch
	w.must(json.Unmarshal(data, &change))
	if v := change.Metadata.ResourceVersion; before == nil || v != "" && v != before.ResourceVersion {
		return // it will fail
	}
	switch cordon, some := change.Spec["unschedulable"]; {
	case !some:
	case cordon == true && !before.Spec.Unschedulable:
		h.effect("cordon")
		w.record("%s is cordoned", h.name)
	case cordon != true && before.Spec.Unschedulable:
		w.record("%s is uncordoned", h.name)
	}
	m, target := h.maintenance(), change.Metadata.Annotations[api.AnnotationDesiredVersion]
	if m != nil && m.Action == v1alpha1.ActionUpgrade && target != nil && *target != h.version {
		h.effect("order")
		w.record("%s gets desired version %s", h.name, *target)
	}
}

// statusWritten checks an instance's status after the operator has written it.
func (h *chaosHost) statusWritten(previous *v1alpha1.WindowsInstance) {
	now := h.maintenance()
	var before *v1alpha1.Maintenance
	if previous != nil {
		before = previous.Status.Maintenance
	}
	isNew := now != nil && (before == nil || before.Action != now.Action || !before.StartedAt.Equal(&now.StartedAt))
	if before != nil && (now == nil || isNew) {
		f := h.instanceSeen().Status.Failure
		failed := f != nil && f.Action == before.Action && !f.At.Before(&before.StartedAt)
		h.w.record("%s: %s ends, failed: %v", h.name, before.Action, failed)
		h.ended(failed)
	}
	if isNew {
		h.begins(now)
	}
}

// ended ends the operator's hold on a node.
func (h *chaosHost) ended(failed bool) {
	if h.hold != nil && !failed {
		h.w.needed += h.hold.leave
		h.w.completed++
	}
	h.hold = nil
}

// announceHost creates the host's instance.
func (w *chaosWorld) announceHost(h *chaosHost) {
	h.announced, h.joined, h.hold = true, 0, nil
	w.announce(h.storyHost)
}

// operateRandomly runs the controllers when their watches or requeue times would. Failed passes are retried a few ticks later.
func (w *chaosWorld) operateRandomly() {
	w.releases.Update(w.ctx)
	for len(w.released) > 0 {
		<-w.released
		w.operated = -1
	}
	if seen := fmt.Sprint(w.rules().Generation); seen != w.configSeen {
		w.configSeen = seen
		clear(w.seen)
		w.operated = -1
	}
	for range 10 {
		if w.operated == w.cache.changes && !w.isAnyDue() {
			return
		}
		w.operated = w.cache.changes
		if !w.runControllers() {
			return
		}
	}
}

func (w *chaosWorld) isDue(at time.Time) bool { return !at.IsZero() && !time.Now().Before(at) }

func (w *chaosWorld) isAnyDue() bool {
	for _, at := range w.due {
		if w.isDue(at) {
			return true
		}
	}
	return w.isDue(w.fleetDue) || w.isDue(w.retryAt["settings"])
}

func (w *chaosWorld) runControllers() (did bool) {
	if seen := w.settingsWatched(); seen != w.settingsSeen || w.isDue(w.retryAt["settings"]) {
		w.settingsSeen, w.retryAt["settings"], did = seen, time.Time{}, true
		if _, err := w.settings.Reconcile(w.ctx, reconcile.Request{}); err != nil {
			w.retryAt["settings"] = w.again()
		}
	}
	if seen := w.fleetWatched(); seen != w.fleetSeen || w.isDue(w.fleetDue) {
		w.fleetSeen, w.fleetDue, did = seen, time.Time{}, true
		result, err := w.fleet.Reconcile(w.ctx, reconcile.Request{})
		switch {
		case err != nil:
			w.fleetDue = w.again()
		case result.RequeueAfter > 0:
			w.fleetDue = time.Now().Add(result.RequeueAfter)
		}
	}
	for len(w.fleet.Plans) > 0 {
		w.due[keyOf((<-w.fleet.Plans).Object)] = time.Now()
	}
	all := w.allInstances()
	w.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i := range all {
		id := keyOf(&all[i])
		if seen := w.instanceView(&all[i]); seen != w.seen[id] || w.isDue(w.due[id]) {
			w.seen[id], did = seen, true
			w.runInstance(id)
		}
	}
	return did
}

// settingsWatched returns what the watches of the settings controller see. It excludes the fleet's summary in WindowsConfig.
func (w *chaosWorld) settingsWatched() string {
	view := w.configSeen + w.version
	for _, name := range []string{api.PrivateKeySecret, api.SigningKeySecret} {
		if secret, found := w.cache.objects["Secret"][client.ObjectKey{Namespace: "ns", Name: name}]; found {
			view += " " + secret.GetResourceVersion()
		}
	}
	return view
}

// fleetWatched returns what the watches of the fleet controller see.
func (w *chaosWorld) fleetWatched() string {
	_, finding := w.releases.Current()
	view := w.configSeen + w.version + finding + fmt.Sprint(w.cache.settings)
	for _, h := range w.hosts {
		if i := h.instanceSeen(); i != nil {
			view += " " + i.ResourceVersion
		}
		if node := h.nodeSeen(); node != nil {
			view += fmt.Sprint(*rollout.NodeOf(node))
		}
	}
	return view
}

func (w *chaosWorld) runInstance(id types.NamespacedName) {
	delete(w.due, id)
	result, err := w.instances.Reconcile(w.ctx, reconcile.Request{NamespacedName: id})
	switch {
	case err != nil:
		w.due[id] = w.again()
	case result.RequeueAfter > 0:
		w.due[id] = time.Now().Add(result.RequeueAfter)
	}
	if h := w.host(id.Name); h.instanceSeen() == nil && h.announced {
		w.record("the instance of %s was deleted", h.name)
		h.announced = false
		h.ended(false)
	}
}

// again returns when to retry a failed pass.
func (w *chaosWorld) again() time.Time { return time.Now().Add(w.between(time.Second, 30*time.Second)) }

// unfinished describes the first host that is not in its final state, or returns "".
func (w *chaosWorld) unfinished() string {
	for _, h := range w.hosts {
		node, i := h.nodeSeen(), h.instanceSeen()
		switch {
		case i == nil:
			return h.name + " has no instance"
		case node == nil:
			return fmt.Sprintf("%s has no Node: %s", h.name, w.summaryOf(i))
		case !nodestate.IsReady(node), node.Spec.Unschedulable:
			return fmt.Sprintf("%s is Ready: %v, cordoned: %v: %s", h.name, nodestate.IsReady(node), node.Spec.Unschedulable, w.summaryOf(i))
		case h.version != w.version, node.Annotations[api.AnnotationVersion] != w.version:
			return fmt.Sprintf("%s has version %s, not %s: %s", h.name, h.version, w.version, w.summaryOf(i))
		case i.Status.Maintenance != nil, i.Status.Plan != nil, !meta.IsStatusConditionTrue(i.Status.Conditions, api.ConditionReady):
			return fmt.Sprintf("%s is not done: %s", h.name, w.summaryOf(i))
		}
	}
	return ""
}

func (w *chaosWorld) summaryOf(i *v1alpha1.WindowsInstance) string {
	ready := kube.Condition(i, api.ConditionReady)
	return fmt.Sprintf("%s %q plan %+v maintenance %+v failure %+v", ready.Reason, ready.Message, i.Status.Plan, i.Status.Maintenance, i.Status.Failure)
}
