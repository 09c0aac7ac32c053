package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/deploy"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// settleTime is how long no host joins after a policy was applied. An API server enforces a policy within a second after its watch has received it
// (policyRefreshIntervalDefault in k8s.io/apiserver/pkg/admission/plugin/policy/generic), and several API servers receive it at different times.
const settleTime = 5 * time.Second

// NewApplying returns a controller that also applies the policies that limit hosts, and repairs them as soon as they change. It only reports policies
// that limit the operator itself: they would not limit an operator that can write them.
func NewApplying(writer client.Writer, live client.Reader, events kube.Events, guards []deploy.Guard) *Policies {
	p := New(live, events, guards)
	p.writer = writer
	return p
}

// watch makes the manager check the policies when one that is applied changes, and periodically.
func (p *Policies) watch(m manager.Manager) error {
	enqueue := kube.Enqueue("", "all")
	first := make(chan ctrlevent.GenericEvent, 1)
	first <- ctrlevent.GenericEvent{Object: &admissionv1.ValidatingAdmissionPolicy{}}
	ctl, err := builder.ControllerManagedBy(m).
		Named("admission-policies").
		WatchesRawSource(ctrlsource.Channel(first, enqueue)).
		Build(reconcile.Func(p.reconcile))
	if err != nil {
		return err
	}
	for _, g := range p.guards {
		if g.LimitsOperator {
			continue
		}
		for _, o := range []client.Object{&g.Policy, &g.Binding} {
			kind, name := identify(g, o)
			watched := kube.OptionalKind{
				Group: admissionv1.GroupName, Kind: kind, Versions: []string{admissionv1.SchemeGroupVersion.Version}, Name: name,
				Events: enqueue, Found: func(schema.GroupVersionKind, client.Reader) {},
			}
			if err := kube.WatchWhenAvailable(m, ctl, func(context.Context) (kube.OptionalKind, error) { return watched, nil }, func() {}); err != nil {
				return err
			}
		}
	}
	return nil
}

// reconcile checks at once, regardless of the time of the last check.
func (p *Policies) reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.checkNow(ctx); err != nil {
		log.FromContext(ctx).Info("Reading or applying admission policies failed", "error", err.Error())
		return reconcile.Result{RequeueAfter: maxFindingAge}, nil
	}
	if remaining := p.untilEnforced(); remaining > 0 {
		return reconcile.Result{RequeueAfter: remaining}, nil
	}
	return reconcile.Result{RequeueAfter: checkInterval}, nil
}

// untilEnforced returns the time until the last applied policy is in force.
func (p *Policies) untilEnforced() time.Duration {
	if p.appliedAt.IsZero() {
		return 0
	}
	return settleTime - time.Since(p.appliedAt)
}

// repair applies a policy or a binding and returns what is still wrong with it.
func (p *Policies) repair(ctx context.Context, g deploy.Guard, o client.Object, previous string) (finding string, err error) {
	kind, name := identify(g, o)
	err = p.apply(ctx, g, o)
	if !apierrors.IsForbidden(err) {
		p.appliedAt = time.Now() // it may have taken effect despite an error
	}
	if err != nil {
		return fmt.Sprintf("%s; applying it failed: %s", previous, err), nil
	}
	if finding, err = p.compare(ctx, g, o); err == nil && finding != "" { // server-side apply leaves fields that others have added
		if err := p.replaceSpec(ctx, g, o); err != nil {
			return fmt.Sprintf("%s; replacing its spec failed: %s", finding, err), nil
		}
		finding, err = p.compare(ctx, g, o)
	}
	if err == nil && finding == "" {
		p.events.Emit(kube.Event{Object: o, Type: corev1.EventTypeNormal, Reason: api.EventPolicyApplied, Action: "Apply"},
			"the operator applied %s %s, which was missing or different", kind, name)
	}
	return finding, err
}

// shipped returns a policy or a binding as it is in deploy/admission.yaml.
func shipped(g deploy.Guard, o client.Object) (*unstructured.Unstructured, error) {
	var from client.Object = &g.Policy
	if _, isBinding := o.(*admissionv1.ValidatingAdmissionPolicyBinding); isBinding {
		from = &g.Binding
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	u := &unstructured.Unstructured{Object: content}
	kind, _ := identify(g, o)
	u.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind(kind))
	return u, nil
}

// apply creates the object, or takes ownership of the fields that the shipped one has.
func (p *Policies) apply(ctx context.Context, g deploy.Guard, o client.Object) error {
	u, err := shipped(g, o)
	if err != nil {
		return err
	}
	u.SetLabels(map[string]string{api.LabelManagedBy: api.ManagedBy})
	return p.writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(api.ManagedBy), client.ForceOwnership)
}

// replaceSpec removes fields that others have added.
func (p *Policies) replaceSpec(ctx context.Context, g deploy.Guard, o client.Object) error {
	u, err := shipped(g, o)
	if err != nil {
		return err
	}
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec", "value": u.Object["spec"]}})
	if err != nil {
		return err
	}
	return p.writer.Patch(ctx, o, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(api.ManagedBy))
}
