package deploy

import (
	"os"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func guards(t *testing.T) []Guard {
	t.Helper()
	all, err := Guards()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Each policy denies, is bound, is read by the operator, and is explained.
func TestEveryPolicyIsAGuard(t *testing.T) {
	hosts, err := os.ReadFile("admission.yaml")
	if err != nil {
		t.Fatal(err)
	}
	operator, err := os.ReadFile("limits/admission.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manifest := slices.Concat(hosts, operator)
	withOLM, err := os.ReadFile("olm/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rights, err := os.ReadFile("rbac-operator.yaml")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(manifest)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") && strings.Contains(line, "//") {
			t.Errorf("an expression has a comment, which would end somewhere else on one line: %s", line)
		}
	}
	all := guards(t)
	if want := strings.Count(string(manifest), "kind: ValidatingAdmissionPolicy\n"); len(all) != want || want < 8 {
		t.Errorf("there are %d guards for %d policies", len(all), want)
	}
	for _, g := range all {
		name := g.Policy.Name
		if g.LimitsOperator != strings.HasPrefix(name, "windows-machine-config-operator-") {
			t.Errorf("policy %s is in the wrong file: limits/ has those that the operator may not write", name)
		}
		if g.LimitsOperator == strings.Contains(string(withOLM), "\n  - "+name+"\n") {
			t.Errorf("olm/rbac.yaml lets the operator write policy %s: %v", name, g.LimitsOperator)
		}
		if g.Binding.Name != name || g.Binding.Spec.PolicyName != name || g.BindingDiffers(&g.Binding) != "" || *g.Policy.Spec.FailurePolicy != admissionv1.Fail {
			t.Errorf("policy %s is not bound by its name, does not deny, or fails open: %+v", name, g.Binding)
		}
		if g.PolicyDiffers(&g.Policy) != "" {
			t.Errorf("policy %s differs from itself", name)
		}
		if !strings.Contains(string(rights), "\n  - "+name+"\n") {
			t.Errorf("rbac-operator.yaml does not let the operator read policy %s", name)
		}
		if !strings.Contains(string(readme), "`"+name+"`") {
			t.Errorf("README.md does not say why there is policy %s", name)
		}
	}
}

func TestWeakenedGuardIsDetected(t *testing.T) {
	policy := func(change func(*admissionv1.ValidatingAdmissionPolicySpec)) func(Guard) string {
		return func(g Guard) string {
			is := g.Policy.DeepCopy()
			change(&is.Spec)
			return g.PolicyDiffers(is)
		}
	}
	binding := func(change func(*admissionv1.ValidatingAdmissionPolicyBindingSpec)) func(Guard) string {
		return func(g Guard) string {
			is := g.Binding.DeepCopy()
			change(&is.Spec)
			return g.BindingDiffers(is)
		}
	}
	type spec = admissionv1.ValidatingAdmissionPolicySpec
	type bound = admissionv1.ValidatingAdmissionPolicyBindingSpec
	for name, tc := range map[string]struct {
		differs func(Guard) string
		want    string
	}{
		"the API server completes it": {policy(func(s *spec) { *s = *complete(*s) }), ""},
		"kustomize breaks its lines": {policy(func(s *spec) {
			for i := range s.Validations {
				s.Validations[i].Expression = strings.ReplaceAll(s.Validations[i].Expression, " ", "\n\n ")
			}
		}), ""},
		"it writes to the audit log": {policy(func(s *spec) {
			s.AuditAnnotations = []admissionv1.AuditAnnotation{{Key: "a", ValueExpression: "'b'"}}
		}), ""},
		"it fails open": {policy(func(s *spec) { s.FailurePolicy = new(admissionv1.Ignore) }), "spec.failurePolicy"},
		"it has another condition": {policy(func(s *spec) {
			s.MatchConditions = append(s.MatchConditions, admissionv1.MatchCondition{Name: "never", Expression: "false"})
		}), "spec.matchConditions"},
		"it asks less":           {policy(func(s *spec) { s.Validations = s.Validations[1:] }), "spec.validations"},
		"it asks something else": {policy(func(s *spec) { s.Validations[0].Expression = "true" }), "spec.validations"},
		"it has another variable": {policy(func(s *spec) {
			s.Variables = append(s.Variables, admissionv1.Variable{Name: "x", Expression: "true"})
		}), "spec.variables"},
		"it is about less": {policy(func(s *spec) { s.MatchConstraints.ResourceRules[0].Operations = []admissionv1.OperationType{"CONNECT"} }), "spec.matchConstraints"},
		"it is about some objects": {policy(func(s *spec) {
			s.MatchConstraints.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}), "spec.matchConstraints"},
		"it leaves some out": {policy(func(s *spec) {
			s.MatchConstraints.ExcludeResourceRules = s.MatchConstraints.ResourceRules
		}), "spec.matchConstraints"},
		"it has a parameter":   {policy(func(s *spec) { s.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"} }), "spec.paramKind"},
		"its binding audits":   {binding(func(s *bound) { s.ValidationActions = []admissionv1.ValidationAction{admissionv1.Audit} }), "spec.validationActions"},
		"its binding warns":    {binding(func(s *bound) { s.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn} }), "spec.validationActions"},
		"its binding does two": {binding(func(s *bound) { s.ValidationActions = append(s.ValidationActions, admissionv1.Audit) }), ""},
		"it is bound for some": {binding(func(s *bound) { s.MatchResources = &admissionv1.MatchResources{} }), "spec.matchResources"},
		"another is bound":     {binding(func(s *bound) { s.PolicyName = "x" }), "spec.policyName"},
		"it is bound by a parameter": {binding(func(s *bound) {
			s.ParamRef = &admissionv1.ParamRef{Name: "x"}
		}), "spec.paramRef"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, g := range guards(t) {
				if got := tc.differs(g); got != tc.want {
					t.Errorf("%s: %q, want %q", g.Policy.Name, got, tc.want)
				}
			}
		})
	}
}
