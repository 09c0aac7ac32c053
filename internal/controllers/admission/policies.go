// Package admission checks whether the admission policies that limit hosts and the operator are in force. As long as they
// are not, no host gets an identity.
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
	"github.com/windows-machine-config/wmco/internal/kube"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// How often it is looked whether the admission policies are in force, how old that may be where something is decided by it, and how long
// it may take.
const (
	policiesEvery  = 30 * time.Second
	policiesFresh  = 10 * time.Second
	policiesWithin = 10 * time.Second
)

// Policies looks whether the admission policies that limit hosts and the operator are in force. Without them, a host's identity may do more
// than it is made for: then no host gets one.
type Policies struct {
	live   client.Reader
	guards []deploy.Guard
	// tell is called with what is newly wrong: the object, and how.
	tell func(about client.Object, finding string)
	// Changed gets an event when what is wrong is something else than before.
	Changed chan ctrlevent.GenericEvent

	mu       sync.Mutex
	lookedAt time.Time
	found    map[string]bool // what was wrong then
	finding  string          // the same as one text
}

// New makes a controller that compares the cluster with guards, the policies as they were shipped.
func New(live client.Reader, events kube.Events, guards []deploy.Guard) *Policies {
	return &Policies{live: live, guards: guards, Changed: make(chan ctrlevent.GenericEvent, 1), tell: func(about client.Object, finding string) {
		events.Emit(kube.Event{Object: about, Type: corev1.EventTypeWarning, Reason: api.ReasonPoliciesAltered, Action: "Look"},
			"%s; until that is fixed no host joins, and WICD's certificates are not renewed", finding)
	}}
}

// Register has the manager look now and then.
func (p *Policies) Register(_ context.Context, m manager.Manager) error {
	return kube.RunEvery(m, policiesEvery, func(ctx context.Context) {
		if _, err := p.Check(ctx); err != nil {
			log.FromContext(ctx).Info("Reading admission policies failed", "error", err.Error())
		}
	})
}

// Finding is what was wrong when it was looked last; empty when nothing was, and before the first look.
func (p *Policies) Finding() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.finding
}

// Check says what is wrong with the policies; empty when nothing is. It is for those who are about to rely on them.
func (p *Policies) Check(ctx context.Context) (finding string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.guards) == 0 || !p.lookedAt.IsZero() && time.Since(p.lookedAt) < policiesFresh {
		return p.finding, nil
	}
	ctx, cancel := context.WithTimeout(ctx, policiesWithin)
	defer cancel()
	found, was := map[string]bool{}, p.found
	var all []string
	for _, g := range p.guards {
		for _, o := range []client.Object{&admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}} {
			what, err := p.compare(ctx, g, o)
			if err != nil {
				return "", err
			}
			if what == "" {
				continue
			}
			found[what] = true
			all = append(all, what)
			if !was[what] {
				p.tell(o, what)
			}
		}
	}
	before := p.finding
	p.lookedAt, p.found, p.finding = time.Now(), found, strings.Join(all, "; ")
	if p.finding != before || was == nil {
		kube.Notify(p.Changed)
	}
	return p.finding, nil
}

// compare reads a policy or a binding, and says how it is another than it must be.
func (p *Policies) compare(ctx context.Context, g deploy.Guard, o client.Object) (finding string, err error) {
	kind, name := "ValidatingAdmissionPolicy", g.Policy.Name
	if _, isBinding := o.(*admissionv1.ValidatingAdmissionPolicyBinding); isBinding {
		kind, name = "ValidatingAdmissionPolicyBinding", g.Binding.Name
	}
	err = p.live.Get(ctx, types.NamespacedName{Name: name}, o)
	o.SetName(name)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("%s %s is not there; apply deploy/admission.yaml of this version of the operator", kind, name), nil
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("%s %s may not be read by the operator; apply deploy/rbac-operator.yaml of this version", kind, name), nil
	case err != nil:
		return "", fmt.Errorf("reading %s %s: %w", kind, name, err)
	}
	fields := ""
	switch is := o.(type) {
	case *admissionv1.ValidatingAdmissionPolicy:
		fields = g.PolicyDiffers(is)
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		fields = g.BindingDiffers(is)
	}
	if fields == "" {
		return "", nil
	}
	return fmt.Sprintf("%s %s is not as this version of the operator has it (%s); apply its deploy/admission.yaml", kind, name, fields), nil
}

// Condition is what condition PoliciesInForce says.
func (p *Policies) Condition(generation int64) metav1.Condition {
	c := metav1.Condition{
		Type: api.ConditionPolicies, Status: metav1.ConditionTrue, Reason: api.ReasonPoliciesInForce, ObservedGeneration: generation,
		Message: "the admission policies that limit hosts and the operator are as they were installed",
	}
	if finding := p.Finding(); finding != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, api.ReasonPoliciesAltered, shorten.Text(finding, shorten.Reported)
	}
	return c
}
