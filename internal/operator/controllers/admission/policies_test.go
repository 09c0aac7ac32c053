package admission

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

const guardOfNodes = "windows-instance-config-daemon"

func TestMissingOrChangedPoliciesAreReported(t *testing.T) {
	policy := func(t *testing.T, c client.Client) *admissionv1.ValidatingAdmissionPolicy {
		var got admissionv1.ValidatingAdmissionPolicy
		if err := c.Get(t.Context(), types.NamespacedName{Name: guardOfNodes}, &got); err != nil {
			t.Fatal(err)
		}
		return &got
	}
	binding := func(t *testing.T, c client.Client) *admissionv1.ValidatingAdmissionPolicyBinding {
		var got admissionv1.ValidatingAdmissionPolicyBinding
		if err := c.Get(t.Context(), types.NamespacedName{Name: guardOfNodes}, &got); err != nil {
			t.Fatal(err)
		}
		return &got
	}
	for name, tc := range map[string]struct {
		happens func(*testing.T, client.Client) error
		want    string // "" for nothing
	}{
		"nothing happens": {func(*testing.T, client.Client) error { return nil }, ""},
		"a policy is deleted": {func(t *testing.T, c client.Client) error { return c.Delete(t.Context(), policy(t, c)) },
			"ValidatingAdmissionPolicy windows-instance-config-daemon not found"},
		"a binding is deleted": {func(t *testing.T, c client.Client) error { return c.Delete(t.Context(), binding(t, c)) },
			"ValidatingAdmissionPolicyBinding windows-instance-config-daemon not found"},
		"a policy is altered": {func(t *testing.T, c client.Client) error {
			got := policy(t, c)
			got.Spec.Validations[0].Expression = "true"
			return c.Update(t.Context(), got)
		}, "ValidatingAdmissionPolicy windows-instance-config-daemon differs from this operator version (spec.validations)"},
		"a binding only audits": {func(t *testing.T, c client.Client) error {
			got := binding(t, c)
			got.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Audit}
			return c.Update(t.Context(), got)
		}, "ValidatingAdmissionPolicyBinding windows-instance-config-daemon differs from this operator version (spec.validationActions)"},
	} {
		t.Run(name, func(t *testing.T) {
			guards, c := controllertest.Guards(t)
			if err := tc.happens(t, c); err != nil {
				t.Fatal(err)
			}
			recorder := &controllertest.Recorder{}
			p := New(c, kube.NewEvents(recorder), guards)
			finding, err := p.Check(t.Context())
			if err != nil || !strings.HasPrefix(finding, tc.want) || tc.want == "" && finding != "" || p.Finding() != finding {
				t.Errorf("found %q and remembered %q (%v), want %q", finding, p.Finding(), err, tc.want)
			}
			got := p.Condition(7)
			if (got.Status == "True") != (tc.want == "") || !strings.HasPrefix(got.Message, tc.want) || got.Type != api.ConditionPolicies {
				t.Errorf("the condition is %+v", got)
			}
			if limited, err := p.Limited(t.Context()); limited != (tc.want == "") || err != nil || p.LimitsMissing(7) != nil {
				t.Errorf("the operator is limited: %v (%v), and the condition is %+v", limited, err, p.LimitsMissing(7))
			}
			if events := strings.Join(recorder.Events, "\n"); (events == "") != (tc.want == "") || !strings.Contains(events, tc.want) {
				t.Errorf("events %q, want one with %q", recorder.Events, tc.want)
			}
		})
	}
}

// TestRecreatedBindingIsDetected deletes a binding and creates it again.
func TestRecreatedBindingIsDetected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guards, c := controllertest.Guards(t)
		recorder := &controllertest.Recorder{}
		p := New(c, kube.NewEvents(recorder), guards)
		checkNow := func(want string) {
			t.Helper()
			if finding, err := p.Check(t.Context()); err != nil || (finding == "") != (want == "") || !strings.Contains(finding, want) {
				t.Errorf("found %q (%v), want %q", finding, err, want)
			}
		}
		notifications := func() (n int) {
			for len(p.Changed) > 0 {
				<-p.Changed
				n++
			}
			return n
		}
		checkNow("")
		lost := guards[0].Binding.DeepCopy()
		if err := c.Delete(t.Context(), lost); err != nil {
			t.Fatal(err)
		}
		time.Sleep(maxFindingAge)
		notifications()
		checkNow("not found")
		time.Sleep(maxFindingAge)
		checkNow("not found")
		if n := notifications(); n != 1 || len(recorder.Events) != 1 {
			t.Errorf("got %d notifications and events %q; want one", n, recorder.Events)
		}
		lost.ResourceVersion = ""
		if err := c.Create(t.Context(), lost); err != nil {
			t.Fatal(err)
		}
		time.Sleep(maxFindingAge)
		checkNow("")
		if n := notifications(); n != 1 {
			t.Errorf("got %d notifications after the policy returned, want one", n)
		}
	})
}

// A policy that the operator is not allowed to read counts as not in force; if the API server does not answer, the state is unknown.
func TestUnreadablePoliciesAreReported(t *testing.T) {
	guards, c := controllertest.Guards(t)
	for name, tc := range map[string]struct {
		answer    error
		finding   string
		isUnknown bool
	}{
		"a right is missing":       {apierrors.NewForbidden(schema.GroupResource{}, guardOfNodes, errors.New("x")), "the operator is not permitted to read", false},
		"the API server is silent": {apierrors.NewServiceUnavailable("x"), "", true},
	} {
		t.Run(name, func(t *testing.T) {
			answers := interceptor.NewClient(c, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return tc.answer
			}})
			finding, err := New(answers, kube.NewEvents(&controllertest.Recorder{}), guards).Check(t.Context())
			if (err != nil) != tc.isUnknown || !strings.Contains(finding, tc.finding) {
				t.Errorf("found %q, %v", finding, err)
			}
		})
	}
}
