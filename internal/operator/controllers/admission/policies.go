// Package admission checks whether the admission policies that limit hosts and the operator are in force. While they are not, no host gets an
// identity. If nothing else can install the policies, as with OLM, it applies those that limit hosts.
package admission

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/deploy"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// How often the admission policies are checked, how old a result may be when a decision depends on it, and the timeout of a check.
const (
	checkInterval = 30 * time.Second
	maxFindingAge = 10 * time.Second
	checkTimeout  = 10 * time.Second
)

// Policies checks whether the admission policies that limit hosts and the operator are in force. Without them, a host's identity allows more than
// intended, so no host gets one.
type Policies struct {
	live   client.Reader
	guards []deploy.Guard
	events kube.Events
	// writer applies the policies that limit hosts; nil if they are only checked.
	writer client.Writer
	// Changed receives an event when the findings have changed.
	Changed chan ctrlevent.GenericEvent

	mu        sync.Mutex
	checkedAt time.Time
	found     map[string]bool // the findings of the last check
	finding   string          // the same as one string
	// unlimited describes problems with the operator's own limits that do not count as a finding.
	unlimited string
	// appliedAt is when a policy was last applied.
	appliedAt time.Time
}

// New returns a controller that compares the cluster with guards, the policies as shipped.
func New(live client.Reader, events kube.Events, guards []deploy.Guard) *Policies {
	return &Policies{live: live, events: events, guards: guards, Changed: make(chan ctrlevent.GenericEvent, 1)}
}

// Register makes the manager check the policies periodically, and also on changes if they are applied.
func (p *Policies) Register(_ context.Context, m manager.Manager) error {
	if p.writer != nil {
		return p.watch(m)
	}
	return kube.RunEvery(m, checkInterval, func(ctx context.Context) {
		if _, err := p.Check(ctx); err != nil {
			log.FromContext(ctx).Info("Reading admission policies failed", "error", err.Error())
		}
	})
}

// Finding returns what was wrong in the last check; empty if nothing was, and before the first check.
func (p *Policies) Finding() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.finding
}

// Check returns what is wrong with the policies, or "". Call it before relying on them.
func (p *Policies) Check(ctx context.Context) (finding string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.guards) == 0 || !p.checkedAt.IsZero() && time.Since(p.checkedAt) < maxFindingAge {
		return p.finding, nil
	}
	return p.checkNow(ctx)
}

// checkNow compares all policies and bindings, repairs those that it may change, and reports new findings.
func (p *Policies) checkNow(ctx context.Context) (finding string, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found, previous := map[string]bool{}, p.found
	var all, unlimited []string
	for _, g := range p.guards {
		for _, o := range []client.Object{&admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}} {
			difference, err := p.compare(ctx, g, o)
			if err == nil && difference != "" && p.writer != nil && !g.LimitsOperator {
				difference, err = p.repair(ctx, g, o, difference)
			}
			switch {
			case err != nil:
				return "", err
			case difference == "":
				continue
			case p.writer != nil && g.LimitsOperator:
				unlimited = append(unlimited, difference)
				continue
			}
			found[difference] = true
			all = append(all, difference)
			if !previous[difference] {
				p.events.Emit(kube.Event{Object: o, Type: corev1.EventTypeWarning, Reason: api.ReasonPoliciesAltered, Action: "Look"},
					"%s; until this is fixed, no host joins and WICD's certificates are not renewed", difference)
			}
		}
	}
	if len(all) == 0 && p.untilEnforced() > 0 {
		all = []string{"the operator has just applied admission policies; they take effect on all API servers within seconds"}
	}
	before, unlimitedBefore := p.finding, p.unlimited
	p.checkedAt, p.found, p.finding, p.unlimited = time.Now(), found, strings.Join(all, "; "), strings.Join(unlimited, "; ")
	if p.finding != before || p.unlimited != unlimitedBefore || previous == nil {
		kube.Notify(p.Changed)
	}
	return p.finding, nil
}

// compare reads a policy or a binding and returns how it differs from the shipped one.
func (p *Policies) compare(ctx context.Context, g deploy.Guard, o client.Object) (finding string, err error) {
	kind, name := identify(g, o)
	switch typed := o.(type) { // no field of an earlier response may remain
	case *admissionv1.ValidatingAdmissionPolicy:
		*typed = admissionv1.ValidatingAdmissionPolicy{}
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		*typed = admissionv1.ValidatingAdmissionPolicyBinding{}
	}
	err = p.live.Get(ctx, types.NamespacedName{Name: name}, o)
	o.SetName(name)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("%s %s not found; apply %s of this operator version", kind, name, file(g)), nil
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("the operator is not permitted to read %s %s; apply deploy/rbac-operator.yaml of this operator version", kind, name), nil
	case err != nil:
		return "", fmt.Errorf("reading %s %s: %w", kind, name, err)
	}
	fields := ""
	switch typed := o.(type) {
	case *admissionv1.ValidatingAdmissionPolicy:
		fields = g.PolicyDiffers(typed)
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		fields = g.BindingDiffers(typed)
	}
	if fields == "" {
		return "", nil
	}
	return fmt.Sprintf("%s %s differs from this operator version (%s); apply its %s", kind, name, fields, file(g)), nil
}

// identify returns the kind and name of a guard's policy or binding.
func identify(g deploy.Guard, o client.Object) (kind, name string) {
	if _, isBinding := o.(*admissionv1.ValidatingAdmissionPolicyBinding); isBinding {
		return "ValidatingAdmissionPolicyBinding", g.Binding.Name
	}
	return "ValidatingAdmissionPolicy", g.Policy.Name
}

// file returns where a guard is shipped.
func file(g deploy.Guard) string {
	if g.LimitsOperator {
		return "deploy/limits"
	}
	return "deploy/admission.yaml"
}

// Limited reports whether all policies that limit hosts or the operator were in force at the last check.
func (p *Policies) Limited(ctx context.Context) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.checkedAt.IsZero() && len(p.guards) > 0 {
		if _, err := p.checkNow(ctx); err != nil {
			return false, err
		}
	}
	return p.finding == "" && p.unlimited == "", nil
}

// LimitsMissing returns condition LimitsMissing; nil if nothing is missing, or it counts as a finding of PoliciesInForce.
func (p *Policies) LimitsMissing(generation int64) *metav1.Condition {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unlimited == "" {
		return nil
	}
	return &metav1.Condition{
		Type: api.ConditionLimitsMissing, Status: metav1.ConditionTrue, Reason: api.ReasonLimitsMissing, ObservedGeneration: generation,
		Message: truncate.Text("some admission policies that limit the operator are not in force, so it does not report why pods do not start: "+p.unlimited, truncate.Reported),
	}
}

// Condition returns condition PoliciesInForce.
func (p *Policies) Condition(generation int64) metav1.Condition {
	c := metav1.Condition{
		Type: api.ConditionPolicies, Status: metav1.ConditionTrue, Reason: api.ReasonPoliciesInForce, ObservedGeneration: generation,
		Message: "the admission policies that limit hosts and the operator are in force",
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.finding != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, api.ReasonPoliciesAltered, truncate.Text(p.finding, truncate.Reported)
	case p.unlimited != "":
		c.Message = truncate.Text("the admission policies that limit hosts are in force, applied by the operator; some that limit the operator are not: "+p.unlimited, truncate.Reported)
	}
	return c
}
