// Package deploy is what users install, as far as the operator has to know it: the admission policies that the security of a cluster rests
// on, so that the operator can see whether they are in force. It is pure.
package deploy

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed admission.yaml
var ofHosts []byte

//go:embed limits/admission.yaml
var ofOperator []byte

// Guard is an admission policy, and the binding of the same name that puts it in force.
type Guard struct {
	Policy  admissionv1.ValidatingAdmissionPolicy
	Binding admissionv1.ValidatingAdmissionPolicyBinding
	// LimitsOperator means that the policy limits the operator itself, which therefore never writes it.
	LimitsOperator bool
}

// Guards are all policies of admission.yaml and of limits/admission.yaml, in their order.
func Guards() ([]Guard, error) {
	hosts, err := read(ofHosts, false)
	if err != nil {
		return nil, fmt.Errorf("reading admission.yaml: %w", err)
	}
	operator, err := read(ofOperator, true)
	if err != nil {
		return nil, fmt.Errorf("reading limits/admission.yaml: %w", err)
	}
	return append(hosts, operator...), nil
}

func read(manifest []byte, limitsOperator bool) ([]Guard, error) {
	var guards []Guard
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		var raw json.RawMessage
		err := documents.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return guards, nil
		}
		if err != nil {
			return nil, err
		}
		var kind metav1.TypeMeta
		if err := json.Unmarshal(raw, &kind); err != nil {
			return nil, err
		}
		switch kind.Kind {
		case "ValidatingAdmissionPolicy":
			guards = append(guards, Guard{LimitsOperator: limitsOperator})
			err = json.Unmarshal(raw, &guards[len(guards)-1].Policy)
		case "ValidatingAdmissionPolicyBinding":
			if len(guards) == 0 {
				return nil, errors.New("a binding is before its policy")
			}
			err = json.Unmarshal(raw, &guards[len(guards)-1].Binding)
		default:
			err = fmt.Errorf("kind %q is not expected", kind.Kind)
		}
		if err != nil {
			return nil, err
		}
	}
}

// PolicyDiffers returns the fields in which a policy of the cluster differs from the guard's; "" if it has the same effect. Defaults of the API
// server and fields that only affect the audit log are ignored.
func (g Guard) PolicyDiffers(is *admissionv1.ValidatingAdmissionPolicy) string {
	have, want := complete(is.Spec), complete(g.Policy.Spec)
	var fields []string
	for _, f := range []struct {
		name       string
		have, want any
	}{
		{"failurePolicy", have.FailurePolicy, want.FailurePolicy},
		{"paramKind", have.ParamKind, want.ParamKind},
		{"matchConstraints", have.MatchConstraints, want.MatchConstraints},
		{"matchConditions", have.MatchConditions, want.MatchConditions},
		{"variables", have.Variables, want.Variables},
		{"validations", have.Validations, want.Validations},
	} {
		if !equality.Semantic.DeepEqual(f.have, f.want) {
			fields = append(fields, "spec."+f.name)
		}
	}
	return strings.Join(fields, ", ")
}

// BindingDiffers names the fields in which a binding of the cluster lets through what the guard's does not; "" when there is none.
func (g Guard) BindingDiffers(is *admissionv1.ValidatingAdmissionPolicyBinding) string {
	var fields []string
	if is.Spec.PolicyName != g.Binding.Spec.PolicyName {
		fields = append(fields, "spec.policyName")
	}
	if is.Spec.ParamRef != nil {
		fields = append(fields, "spec.paramRef")
	}
	if is.Spec.MatchResources != nil {
		fields = append(fields, "spec.matchResources")
	}
	if !slices.Contains(is.Spec.ValidationActions, admissionv1.Deny) {
		fields = append(fields, "spec.validationActions")
	}
	return strings.Join(fields, ", ")
}

// complete adds what the API server adds to a policy (k8s.io/kubernetes/pkg/apis/admissionregistration/v1, SetDefaults). White space in
// expressions is one blank each: kustomize writes some line breaks twice. Ours have no comments, which would end with their line.
func complete(spec admissionv1.ValidatingAdmissionPolicySpec) *admissionv1.ValidatingAdmissionPolicySpec {
	full := spec.DeepCopy()
	for i := range full.MatchConditions {
		full.MatchConditions[i].Expression = oneLine(full.MatchConditions[i].Expression)
	}
	for i := range full.Variables {
		full.Variables[i].Expression = oneLine(full.Variables[i].Expression)
	}
	for i := range full.Validations {
		full.Validations[i].Expression = oneLine(full.Validations[i].Expression)
		full.Validations[i].MessageExpression = oneLine(full.Validations[i].MessageExpression)
	}
	if full.FailurePolicy == nil {
		full.FailurePolicy = new(admissionv1.Fail)
	}
	if full.MatchConstraints == nil {
		return full
	}
	match := full.MatchConstraints
	if match.MatchPolicy == nil {
		match.MatchPolicy = new(admissionv1.Equivalent)
	}
	if match.NamespaceSelector == nil {
		match.NamespaceSelector = &metav1.LabelSelector{}
	}
	if match.ObjectSelector == nil {
		match.ObjectSelector = &metav1.LabelSelector{}
	}
	for _, rules := range [][]admissionv1.NamedRuleWithOperations{match.ResourceRules, match.ExcludeResourceRules} {
		for i := range rules {
			if rules[i].Scope == nil {
				rules[i].Scope = new(admissionv1.AllScopes)
			}
		}
	}
	return full
}

func oneLine(expression string) string { return strings.Join(strings.Fields(expression), " ") }
