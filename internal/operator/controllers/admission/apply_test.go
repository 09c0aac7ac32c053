package admission

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/deploy"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// applying returns a controller that applies policies, and its events.
func applying(t *testing.T, c client.WithWatch) (*Policies, *controllertest.Recorder) {
	t.Helper()
	guards, err := deploy.Guards()
	if err != nil {
		t.Fatal(err)
	}
	recorder := &controllertest.Recorder{}
	return NewApplying(c, c, kube.NewEvents(recorder), guards), recorder
}

func mustReconcile(t *testing.T, p *Policies) time.Duration {
	t.Helper()
	result, err := p.reconcile(t.Context(), reconcile.Request{})
	if err != nil {
		t.Fatal(err)
	}
	return result.RequeueAfter
}

// TestHostPoliciesAreAppliedToEmptyCluster starts like an installation with OLM.
func TestHostPoliciesAreAppliedToEmptyCluster(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).Build()
	synctest.Test(t, func(t *testing.T) {
		p, recorder := applying(t, c)
		after := mustReconcile(t, p)
		if finding := p.Finding(); !strings.Contains(finding, "has just applied") || after <= 0 || after > settleTime {
			t.Errorf("right after applying: finding %q, next check after %s", finding, after)
		}
		time.Sleep(after)
		if after := mustReconcile(t, p); p.Finding() != "" || after != checkInterval {
			t.Errorf("later: finding %q, next check after %s", p.Finding(), after)
		}
		for _, g := range p.guards {
			var policy admissionv1.ValidatingAdmissionPolicy
			err := c.Get(t.Context(), types.NamespacedName{Name: g.Policy.Name}, &policy)
			if g.LimitsOperator != apierrors.IsNotFound(err) {
				t.Errorf("policy %s: %v, but whether it limits the operator is %v", g.Policy.Name, err, g.LimitsOperator)
			}
			if !g.LimitsOperator && policy.Labels["app.kubernetes.io/managed-by"] != api.ManagedBy {
				t.Errorf("policy %s has labels %v", g.Policy.Name, policy.Labels)
			}
		}
		got := p.Condition(1)
		if got.Status != "True" || !strings.Contains(got.Message, "windows-machine-config-operator-secrets not found; apply deploy/limits") {
			t.Errorf("the condition is %+v", got)
		}
		missing := p.LimitsMissing(1)
		if limited, err := p.Limited(t.Context()); limited || err != nil || missing == nil || missing.Type != api.ConditionLimitsMissing || !strings.Contains(missing.Message, "apply deploy/limits") {
			t.Errorf("without limits, the operator is limited: %v (%v), and the condition is %+v", limited, err, missing)
		}
		if n := len(recorder.Events); n != 24 || !strings.HasPrefix(recorder.Events[0], "Normal PolicyApplied") {
			t.Errorf("got %d events: %q", n, recorder.Events)
		}
	})
}

// TestWeakenedPolicyIsRepaired also covers what server-side apply alone leaves: fields that the shipped policy does not have.
func TestWeakenedPolicyIsRepaired(t *testing.T) {
	name := types.NamespacedName{Name: guardOfNodes}
	policy := func(change func(*admissionv1.ValidatingAdmissionPolicySpec)) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			var got admissionv1.ValidatingAdmissionPolicy
			if err := c.Get(ctx, name, &got); err != nil {
				return err
			}
			change(&got.Spec)
			return c.Update(ctx, &got)
		}
	}
	binding := func(change func(*admissionv1.ValidatingAdmissionPolicyBindingSpec)) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			var got admissionv1.ValidatingAdmissionPolicyBinding
			if err := c.Get(ctx, name, &got); err != nil {
				return err
			}
			change(&got.Spec)
			return c.Update(ctx, &got)
		}
	}
	for about, happens := range map[string]func(context.Context, client.Client) error{
		"policy deleted": func(ctx context.Context, c client.Client) error {
			return c.DeleteAllOf(ctx, &admissionv1.ValidatingAdmissionPolicy{})
		},
		"binding deleted": func(ctx context.Context, c client.Client) error {
			return c.DeleteAllOf(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{})
		},
		"expression altered": policy(func(s *admissionv1.ValidatingAdmissionPolicySpec) { s.Validations[0].Expression = "true" }),
		"condition added": policy(func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.MatchConditions = append(s.MatchConditions, admissionv1.MatchCondition{Name: "never", Expression: "false"})
		}),
		"parameter added": policy(func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
		}),
		"binding narrowed": binding(func(s *admissionv1.ValidatingAdmissionPolicyBindingSpec) {
			s.MatchResources = &admissionv1.MatchResources{}
		}),
		"binding audits": binding(func(s *admissionv1.ValidatingAdmissionPolicyBindingSpec) {
			s.ValidationActions = []admissionv1.ValidationAction{admissionv1.Audit}
		}),
	} {
		t.Run(about, func(t *testing.T) {
			_, c := controllertest.Guards(t)
			synctest.Test(t, func(t *testing.T) {
				p, _ := applying(t, c)
				if mustReconcile(t, p); p.Finding() != "" {
					t.Fatalf("found %q before anything happened", p.Finding())
				}
				if err := happens(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				if mustReconcile(t, p); !strings.Contains(p.Finding(), "has just applied") {
					t.Errorf("found %q right after the repair", p.Finding())
				}
				time.Sleep(settleTime)
				if mustReconcile(t, p); p.Finding() != "" {
					t.Errorf("found %q after the repair", p.Finding())
				}
			})
		})
	}
}

func TestUnappliedPolicyIsReported(t *testing.T) {
	empty := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).Build()
	c := interceptor.NewClient(empty, interceptor.Funcs{Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
		return apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("no"))
	}})
	p, recorder := applying(t, c)
	if after := mustReconcile(t, p); !strings.Contains(p.Finding(), "applying it failed") || after != checkInterval {
		t.Errorf("found %q, and tries again after %s", p.Finding(), after)
	}
	if got := p.Condition(1); got.Status != "False" {
		t.Errorf("the condition is %+v", got)
	}
	mustReconcile(t, p)
	if n := len(recorder.Events); n != 24 || slices.ContainsFunc(recorder.Events, func(e string) bool { return !strings.HasPrefix(e, "Warning PoliciesAltered") }) {
		t.Errorf("got %d events, want one for each object: %q", n, recorder.Events)
	}
}
