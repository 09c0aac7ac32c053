package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/sshkey"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// steps returns the steps that advance one host as far as possible.
func (c *Controller) steps() []func(context.Context, *pass) (outcome, error) {
	return []func(context.Context, *pass) (outcome, error){
		c.observe,            // reads the state of the host from the cache; handles a requested retry
		c.syncCollectRequest, // passes the requested collection to the Node
		c.maintain,           // starts what the plan allows, or continues what is in progress
		c.decide,             // decides whether the host joins now; if so, it has a slot
		c.attemptJoin,        // joins or repairs the host
		c.proveKey,           // checks that the host accepts the current SSH key
		c.syncNodeMetadata,   // sets labels and annotations of the Node
	}
}

// Reconcile runs the steps for one host, then writes its status.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	p := &pass{id: r.NamespacedName}
	defer p.close()
	for _, step := range c.steps() {
		outcome, err := step(ctx, p)
		switch {
		case outcome == abandon, outcome == proceed && err != nil:
			return reconcile.Result{}, err
		case outcome == finish:
			result, reported := c.report(ctx, p)
			return result, errors.Join(err, reported)
		}
	}
	return c.report(ctx, p)
}

// observe reads the state of the host from the cache and handles a requested retry.
func (c *Controller) observe(ctx context.Context, p *pass) (outcome, error) {
	var err error
	if p.view, err = c.gather(ctx, c.Client, p.id); p.view == nil || err != nil {
		return abandon, err
	}
	return proceed, c.retry(ctx, p.Instance)
}

// decide determines what happens to the host. Before a join, it reads the host's state from the API server, because the cache may lag behind the
// operator's own last write.
func (c *Controller) decide(ctx context.Context, p *pass) (outcome, error) {
	p.decision = c.admit(p.view, join.Next(p.Observed))
	if p.decision.Action == join.Join || mustReportWait(p.decision, p.Instance) {
		slot := p.admission
		seen, err := c.gather(ctx, c.Live, p.id)
		if seen == nil || err != nil {
			return abandon, err
		}
		p.view = seen
		p.slot, p.admission = slot, slot
		p.SlotFree = p.SlotFree || slot != nil
		p.decision = join.Next(p.Observed)
	}
	p.status = c.newStatus(p.Instance)
	return proceed, nil
}

func (c *Controller) attemptJoin(ctx context.Context, p *pass) (outcome, error) {
	if p.decision.Action != join.Join {
		return proceed, nil
	}
	p.attempted = true
	_, repairs := p.BrokenSince()
	p.decision.Err = c.join(ctx, p.view, p.status)
	if errors.Is(p.decision.Err, errDeleted) {
		return abandon, nil // not a failure; the plan decides when the host leaves
	}
	if repairs && ctx.Err() == nil {
		recordFailure(p.status.want(), v1alpha1.Failure{Action: v1alpha1.ActionRepair, Message: join.Findings(p.Observed, p.decision.Err)})
	}
	if p.decision.Err == nil && p.key != nil {
		c.proven.Store(p.id, sshkey.Hash(p.key))
		p.keyProven = true
	}
	// The join has identified the host's Node. It exists already if the host was announced again.
	var err error
	p.Node, p.Conflict, err = c.node(ctx, c.Client, p.Instance)
	return proceed, err
}

// admit takes a join slot before the operator connects; otherwise hundreds of hosts would be contacted only to find no free slot. A host that did not
// answer last time takes its slot only after it answers, so that dead hosts do not occupy all slots.
func (c *Controller) admit(v *view, d join.Decision) join.Decision {
	if d.Action != join.Join || isSilent(v.Instance) {
		return d
	}
	slot, ok := c.Slots.Take(joins(v.config))
	if !ok {
		return join.Waiting()
	}
	v.slot, v.admission = slot, slot
	return d
}

// retry clears recorded failures when the user requests it.
func (c *Controller) retry(ctx context.Context, i *v1alpha1.WindowsInstance) error {
	if _, requested := i.Annotations[api.AnnotationRetry]; !requested {
		return nil
	}
	c.retries.Reset(client.ObjectKeyFromObject(i))
	stalled := kube.Condition(i, api.ConditionStalled).Reason == api.ReasonRebootDidNotHelp
	offered := i.Status.Plan != nil && i.Status.Plan.WaitsFor == api.ReasonUpdateNotKept
	if i.Status.Failure != nil || i.Status.LastReboot != nil || stalled || offered {
		before := i.DeepCopy()
		if now := metav1.Now(); stalled { // the next join may restart the host again
			i.Status.RetriedAt = &now
		}
		if i.Status.Failure == nil { // the retry is for a restart that did not help
			i.Status.LastReboot = nil
		}
		i.Status.Failure = nil
		if offered {
			i.Status.InstalledUpdates = nil
		}
		if err := c.Client.Status().Patch(ctx, i, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("clearing the failure of WindowsInstance %s: %w", i.Name, err)
		}
	}
	before := i.DeepCopy()
	delete(i.Annotations, api.AnnotationRetry)
	if err := c.Client.Patch(ctx, i, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("removing annotation %s of WindowsInstance %s: %w", api.AnnotationRetry, i.Name, err)
	}
	return nil
}

// retriedAt returns when the user last allowed another restart for a join, in RFC 3339; "" if never.
func retriedAt(i *v1alpha1.WindowsInstance) string {
	if i.Status.RetriedAt == nil {
		return ""
	}
	return i.Status.RetriedAt.UTC().Format(time.RFC3339)
}

// mustReportWait reports whether an instance waits for a join slot and its conditions do not report it yet.
func mustReportWait(d join.Decision, i *v1alpha1.WindowsInstance) bool {
	return errors.Is(d.Err, join.ErrNoSlot) && kube.Condition(i, api.ConditionConfigured).Reason != api.ReasonWaitingForSlot
}
