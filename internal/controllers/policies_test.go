package controllers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/deploy"
	"github.com/windows-machine-config/wmco/internal/join"
)

// installed is a cluster in which deploy/admission.yaml was applied.
func installed(t *testing.T) ([]deploy.Guard, client.WithWatch) {
	t.Helper()
	guards, err := deploy.Guards()
	if err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(testScheme(t))
	for i := range guards {
		b = b.WithObjects(guards[i].Policy.DeepCopy(), guards[i].Binding.DeepCopy())
	}
	return guards, b.Build()
}

const guardOfNodes = "windows-instance-config-daemon"

func TestPoliciesThatAreNotInForceAreFound(t *testing.T) {
	policy := func(t *testing.T, c client.Client) *admissionv1.ValidatingAdmissionPolicy {
		var is admissionv1.ValidatingAdmissionPolicy
		if err := c.Get(t.Context(), types.NamespacedName{Name: guardOfNodes}, &is); err != nil {
			t.Fatal(err)
		}
		return &is
	}
	binding := func(t *testing.T, c client.Client) *admissionv1.ValidatingAdmissionPolicyBinding {
		var is admissionv1.ValidatingAdmissionPolicyBinding
		if err := c.Get(t.Context(), types.NamespacedName{Name: guardOfNodes}, &is); err != nil {
			t.Fatal(err)
		}
		return &is
	}
	for name, tc := range map[string]struct {
		happens func(*testing.T, client.Client) error
		want    string // "" for nothing
	}{
		"nothing happens": {func(*testing.T, client.Client) error { return nil }, ""},
		"a policy is deleted": {func(t *testing.T, c client.Client) error { return c.Delete(t.Context(), policy(t, c)) },
			"ValidatingAdmissionPolicy windows-instance-config-daemon is not there"},
		"a binding is deleted": {func(t *testing.T, c client.Client) error { return c.Delete(t.Context(), binding(t, c)) },
			"ValidatingAdmissionPolicyBinding windows-instance-config-daemon is not there"},
		"a policy is altered": {func(t *testing.T, c client.Client) error {
			is := policy(t, c)
			is.Spec.Validations[0].Expression = "true"
			return c.Update(t.Context(), is)
		}, "ValidatingAdmissionPolicy windows-instance-config-daemon is not as this version of the operator has it (spec.validations)"},
		"a binding only audits": {func(t *testing.T, c client.Client) error {
			is := binding(t, c)
			is.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Audit}
			return c.Update(t.Context(), is)
		}, "ValidatingAdmissionPolicyBinding windows-instance-config-daemon is not as this version of the operator has it (spec.validationActions)"},
	} {
		t.Run(name, func(t *testing.T) {
			guards, c := installed(t)
			if err := tc.happens(t, c); err != nil {
				t.Fatal(err)
			}
			recorder := &told{}
			p := newPolicies(common{live: c, recorder: recorder}, guards)
			finding, err := p.look(t.Context())
			if err != nil || !strings.HasPrefix(finding, tc.want) || tc.want == "" && finding != "" || p.seen() != finding {
				t.Errorf("found %q and remembered %q (%v), want %q", finding, p.seen(), err, tc.want)
			}
			is := p.inForce(7)
			if (is.Status == "True") != (tc.want == "") || !strings.HasPrefix(is.Message, tc.want) || is.Type != api.ConditionPolicies {
				t.Errorf("the condition is %+v", is)
			}
			if events := strings.Join(recorder.events, "\n"); (events == "") != (tc.want == "") || !strings.Contains(events, tc.want) {
				t.Errorf("events %q, want one with %q", recorder.events, tc.want)
			}
		})
	}
}

// TestPoliciesThatComeBackAreSeen deletes a binding and makes it again.
func TestPoliciesThatComeBackAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guards, c := installed(t)
		recorder := &told{}
		p := newPolicies(common{live: c, recorder: recorder}, guards)
		look := func(want string) {
			t.Helper()
			if finding, err := p.look(t.Context()); err != nil || (finding == "") != (want == "") || !strings.Contains(finding, want) {
				t.Errorf("found %q (%v), want %q", finding, err, want)
			}
		}
		heard := func() (n int) {
			for len(p.changed) > 0 {
				<-p.changed
				n++
			}
			return n
		}
		look("")
		lost := guards[0].Binding.DeepCopy()
		if err := c.Delete(t.Context(), lost); err != nil {
			t.Fatal(err)
		}
		time.Sleep(policiesFresh)
		heard()
		look("is not there")
		time.Sleep(policiesFresh)
		look("is not there")
		if n := heard(); n != 1 || len(recorder.events) != 1 {
			t.Errorf("it was told %d times, with events %q; want once", n, recorder.events)
		}
		lost.ResourceVersion = ""
		if err := c.Create(t.Context(), lost); err != nil {
			t.Fatal(err)
		}
		time.Sleep(policiesFresh)
		look("")
		if n := heard(); n != 1 {
			t.Errorf("that it is back was told %d times, want once", n)
		}
	})
}

// What cannot be read is not in force where a right is missing, and not known where the API server does not answer.
func TestPoliciesThatCannotBeRead(t *testing.T) {
	guards, c := installed(t)
	for name, tc := range map[string]struct {
		answer    error
		finding   string
		isUnknown bool
	}{
		"a right is missing":       {apierrors.NewForbidden(schema.GroupResource{}, guardOfNodes, errors.New("x")), "may not be read by the operator", false},
		"the API server is silent": {apierrors.NewServiceUnavailable("x"), "", true},
	} {
		t.Run(name, func(t *testing.T) {
			answers := interceptor.NewClient(c, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return tc.answer
			}})
			finding, err := newPolicies(common{live: answers, recorder: &told{}}, guards).look(t.Context())
			if (err != nil) != tc.isUnknown || !strings.Contains(finding, tc.finding) {
				t.Errorf("found %q, %v", finding, err)
			}
		})
	}
}

// TestNobodyGetsAnIdentityWithoutThePolicies tries what relies on the policies.
func TestNobodyGetsAnIdentityWithoutThePolicies(t *testing.T) {
	guards, cluster := installed(t)
	if err := cluster.Delete(t.Context(), guards[0].Binding.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	without := newPolicies(common{live: cluster, recorder: &told{}}, guards)

	request := servingRequest(t)
	request.Spec.SignerName = certificatesv1.KubeAPIServerClientSignerName
	approver, c, recorder := approvers(t, request, func(client.Client) {})
	approver.policies = without
	known, err := approver.known(t.Context())
	if err != nil || !strings.Contains(known.PoliciesFault, "is not there") {
		t.Errorf("requests are decided with %q (%v), want the missing binding", known.PoliciesFault, err)
	}

	a := &attempt{instances: newInstances(common{policies: without, client: c, recorder: recorder}, nil, nil)}
	var stall *join.Stall
	if token, err := a.token(t.Context()); token != "" || !errors.As(err, &stall) || stall.Reason != api.ReasonPoliciesAltered {
		t.Errorf("token %q, error %v; want none, for reason PoliciesAltered", token, err)
	}

	settings, _ := newTestSettings(t)
	settings.policies = without
	var config v1alpha1.WindowsConfig
	if err := settings.client.Get(t.Context(), types.NamespacedName{Name: api.WindowsConfigName}, &config); err != nil {
		t.Fatal(err)
	}
	if err := settings.report(t.Context(), &config, nil, "x", nil); err != nil {
		t.Fatal(err)
	}
	if !meta.IsStatusConditionFalse(config.Status.Conditions, api.ConditionPolicies) {
		t.Errorf("WindowsConfig has the conditions %+v, want PoliciesInForce to be False", config.Status.Conditions)
	}
}
