//go:build linux

package deploytest

import (
	"context"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/deploy"
)

// testOperatorSeesThePolicies compares the policies as the API server has completed them with what the operator expects.
func (c *cluster) testOperatorSeesThePolicies(t *testing.T) {
	guards, err := deploy.Guards()
	if err != nil {
		t.Fatal(err)
	}
	o := c.asOperator(t).AdmissionregistrationV1()
	for _, g := range guards {
		policy, err := o.ValidatingAdmissionPolicies().Get(t.Context(), g.Policy.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		binding, err := o.ValidatingAdmissionPolicyBindings().Get(t.Context(), g.Binding.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if p, b := g.PolicyDiffers(policy), g.BindingDiffers(binding); p != "" || b != "" {
			t.Errorf("policy %s, as it was applied, differs in %q, its binding in %q", g.Policy.Name, p, b)
		}
	}
	name := guards[0].Policy.Name
	altered := c.admin.AdmissionregistrationV1()
	if _, err := altered.ValidatingAdmissionPolicies().Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"failurePolicy":"Ignore"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if is, err := o.ValidatingAdmissionPolicies().Get(t.Context(), name, metav1.GetOptions{}); err != nil || guards[0].PolicyDiffers(is) != "spec.failurePolicy" {
		t.Errorf("the policy that fails open differs in %q (%v)", guards[0].PolicyDiffers(is), err)
	}
	if _, err := altered.ValidatingAdmissionPolicies().Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"failurePolicy":"Fail"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	try(t, []attempt{
		{"reads another policy", forbidden, func(ctx context.Context) error {
			return drop(o.ValidatingAdmissionPolicies().Get(ctx, "other", metav1.GetOptions{}))
		}},
		{"lists policies", forbidden, func(ctx context.Context) error {
			return drop(o.ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{}))
		}},
		{"changes a policy", forbidden, func(ctx context.Context) error {
			return drop(o.ValidatingAdmissionPolicies().Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"failurePolicy":"Ignore"}}`), metav1.PatchOptions{}))
		}},
		{"deletes a binding", forbidden, func(ctx context.Context) error {
			return o.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{})
		}},
		{"makes a policy", forbidden, func(ctx context.Context) error {
			return drop(o.ValidatingAdmissionPolicies().Create(ctx, &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}))
		}},
	})
}
