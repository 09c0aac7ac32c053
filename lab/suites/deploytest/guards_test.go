//go:build linux

package deploytest

import (
	"context"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/deploy"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/admission"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
)

// testOperatorComparesPolicies compares the policies, with the defaults that the API server sets, with those that the operator expects.
func (c *cluster) testOperatorComparesPolicies(t *testing.T) {
	guards, err := deploy.Guards()
	must(t, err)
	o := c.asOperator(t).AdmissionregistrationV1()
	for _, g := range guards {
		policy, err := o.ValidatingAdmissionPolicies().Get(t.Context(), g.Policy.Name, metav1.GetOptions{})
		must(t, err)
		binding, err := o.ValidatingAdmissionPolicyBindings().Get(t.Context(), g.Binding.Name, metav1.GetOptions{})
		must(t, err)
		if p, b := g.PolicyDiffers(policy), g.BindingDiffers(binding); p != "" || b != "" {
			t.Errorf("applied policy %s differs in %q and its binding in %q, want no differences", g.Policy.Name, p, b)
		}
	}
	name := guards[0].Policy.Name
	admin := c.admin.AdmissionregistrationV1()
	must(t, errOf(admin.ValidatingAdmissionPolicies().Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"failurePolicy":"Ignore"}}`), metav1.PatchOptions{})))
	if got, err := o.ValidatingAdmissionPolicies().Get(t.Context(), name, metav1.GetOptions{}); err != nil || guards[0].PolicyDiffers(got) != "spec.failurePolicy" {
		t.Errorf("the policy that fails open differs in %q (error %v), want spec.failurePolicy", guards[0].PolicyDiffers(got), err)
	}
	must(t, errOf(admin.ValidatingAdmissionPolicies().Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"failurePolicy":"Fail"}}`), metav1.PatchOptions{})))
	try(t, []attempt{
		{"read another policy", forbidden, func(ctx context.Context) error {
			return errOf(o.ValidatingAdmissionPolicies().Get(ctx, "other", metav1.GetOptions{}))
		}},
		{"list policies", forbidden, func(ctx context.Context) error {
			return errOf(o.ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{}))
		}},
		{"change a policy", forbidden, func(ctx context.Context) error {
			return errOf(o.ValidatingAdmissionPolicies().Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"failurePolicy":"Ignore"}}`), metav1.PatchOptions{}))
		}},
		{"delete a binding", forbidden, func(ctx context.Context) error {
			return o.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{})
		}},
		{"create a policy", forbidden, func(ctx context.Context) error {
			return errOf(o.ValidatingAdmissionPolicies().Create(ctx, &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}))
		}},
	})
}

// testOperatorAppliesPolicies grants the operator the permissions of the bundle for OLM, and has it repair its policies.
func (c *cluster) testOperatorAppliesPolicies(t *testing.T) {
	must(t, manifest.Apply(t.Context(), c.config, deployDir+"/olm"))
	const role = "windows-machine-config-operator-olm"
	guards, err := deploy.Guards()
	must(t, err)
	as := c.asOperator(t).AdmissionregistrationV1()
	eventually(t, "", func(ctx context.Context) error {
		return errOf(as.ValidatingAdmissionPolicies().List(ctx, byName(guards[0].Policy.Name)))
	})
	c.weaken(t, guards)
	o, err := client.New(c.operatorConfig(), client.Options{})
	must(t, err)
	policies := admission.NewApplying(o, o, kube.NewEvents(events.NewFakeRecorder(100)), guards)
	for n, p := range []*admission.Policies{policies, admission.New(o, kube.NewEvents(events.NewFakeRecorder(100)), guards)} {
		finding, err := p.Check(t.Context())
		if err != nil || n == 0 != strings.Contains(finding, "has just applied") || n == 1 && finding != "" {
			t.Errorf("check %d: got finding %q (error %v), want one from the first check only", n, finding, err)
		}
	}
	limit := "windows-machine-config-operator-approvals"
	apply := metav1.PatchOptions{FieldManager: "x"}
	try(t, []attempt{
		{"create another policy", forbidden, func(ctx context.Context) error {
			return errOf(as.ValidatingAdmissionPolicies().Create(ctx, &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}))
		}},
		{"apply another policy", forbidden, func(ctx context.Context) error {
			return errOf(as.ValidatingAdmissionPolicies().Patch(ctx, "x", types.ApplyPatchType,
				[]byte(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy"}`), apply))
		}},
		{"apply a policy that limits it", forbidden, func(ctx context.Context) error {
			return errOf(as.ValidatingAdmissionPolicies().Patch(ctx, limit, types.ApplyPatchType,
				[]byte(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","spec":{"failurePolicy":"Ignore"}}`), apply))
		}},
		{"delete a policy that it applies", forbidden, func(ctx context.Context) error {
			return as.ValidatingAdmissionPolicies().Delete(ctx, guards[0].Policy.Name, metav1.DeleteOptions{})
		}},
		{"list a policy that it applies", "", func(ctx context.Context) error {
			return errOf(as.ValidatingAdmissionPolicies().List(ctx, byName(guards[0].Policy.Name)))
		}},
		{"list all policies", forbidden, func(ctx context.Context) error {
			return errOf(as.ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{}))
		}},
	})
	c.testBundlePermissions(t)
	if err := c.admin.RbacV1().ClusterRoleBindings().Delete(t.Context(), role, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// testBundlePermissions compares the operator's permissions of the bundle, with and without the policies in deploy/limits, with
// docs/security.md.
func (c *cluster) testBundlePermissions(t *testing.T) {
	o := c.asOperator(t).CoreV1()
	userData := func(in string) func(context.Context) error {
		return func(ctx context.Context) error {
			return errOf(o.Secrets(in).Update(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "windows-user-data"}}, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}))
		}
	}
	for _, name := range []string{"pull-secret", "windows-user-data"} {
		must(t, errOf(c.admin.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})))
	}
	takeOver := func(ctx context.Context) error {
		return errOf(o.Pods("kube-system").Patch(ctx, "none", types.MergePatchType, []byte(`{"spec":{"containers":null}}`), metav1.PatchOptions{}))
	}
	try(t, []attempt{
		{"read a tenant's pull secret", forbidden, func(ctx context.Context) error {
			return errOf(o.Secrets("default").Get(ctx, "pull-secret", metav1.GetOptions{}))
		}},
		{"write a tenant's user data with limits", "allowed in default is", userData("default")},
		{"patch pods with limits", "not found", takeOver},
	})
	const pods = "windows-machine-config-operator-pods"
	must(t, c.admin.RbacV1().ClusterRoleBindings().Delete(t.Context(), pods, metav1.DeleteOptions{}))
	eventually(t, forbidden, takeOver)
	must(t, manifest.Apply(t.Context(), c.config, deployDir+"/limits"))
}

// weaken deletes a policy and a binding, and adds fields to others that server-side apply does not remove.
func (c *cluster) weaken(t *testing.T, guards []deploy.Guard) {
	t.Helper()
	admin := c.admin.AdmissionregistrationV1()
	for _, err := range []error{
		admin.ValidatingAdmissionPolicies().Delete(t.Context(), guards[0].Policy.Name, metav1.DeleteOptions{}),
		admin.ValidatingAdmissionPolicyBindings().Delete(t.Context(), guards[1].Binding.Name, metav1.DeleteOptions{}),
		errOf(admin.ValidatingAdmissionPolicies().Patch(t.Context(), guards[2].Policy.Name, types.JSONPatchType,
			[]byte(`[{"op":"add","path":"/spec/matchConditions/-","value":{"name":"never","expression":"false"}}]`), metav1.PatchOptions{})),
		errOf(admin.ValidatingAdmissionPolicyBindings().Patch(t.Context(), guards[3].Binding.Name, types.MergePatchType,
			[]byte(`{"spec":{"validationActions":["Audit"],"matchResources":{"objectSelector":{"matchLabels":{"a":"b"}}}}}`), metav1.PatchOptions{})),
	} {
		must(t, err)
	}
}

// operatorConfig returns a client configuration that impersonates the operator's ServiceAccount.
func (c *cluster) operatorConfig() *rest.Config {
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":windows-machine-config-operator", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace},
	}
	return config
}
