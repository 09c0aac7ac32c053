package podrulestest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windows-machine-config/wmco/internal/observe/podrules"
)

// Server evaluates the pod policies as an API server does.
type Server struct {
	t        testing.TB
	env      *cel.Env
	programs map[string]cel.Program
	assign   *admissionv1.MutatingAdmissionPolicy
	warn     *admissionv1.ValidatingAdmissionPolicy
}

// NewServer returns a server with the policies of package podrules.
func NewServer(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, programs: map[string]cel.Program{}}
	options := []cel.EnvOption{cel.OptionalTypes(), cel.HomogeneousAggregateLiterals(), cel.CrossTypeNumericComparisons(true)}
	for _, name := range []string{"object", "oldObject", "request", "params", "variables", "authorizer"} {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	var err error
	if s.env, err = cel.NewEnv(options...); err != nil {
		t.Fatal(err)
	}
	for _, o := range slices.Concat(podrules.Assigning(), podrules.Policies()) {
		switch o := o.(type) {
		case *admissionv1.MutatingAdmissionPolicy:
			s.assign = o
		case *admissionv1.ValidatingAdmissionPolicy:
			if o.Name == podrules.PolicyName {
				s.warn = o
			}
		}
	}
	return s
}

func (s *Server) eval(expression string, input map[string]any) ref.Val {
	s.t.Helper()
	program := s.programs[expression]
	if program == nil {
		ast, issues := s.env.Compile(expression)
		if issues.Err() != nil {
			s.t.Fatalf("%s: %v", expression, issues.Err())
		}
		var err error
		if program, err = s.env.Program(ast); err != nil {
			s.t.Fatal(err)
		}
		s.programs[expression] = program
	}
	out, _, err := program.Eval(input)
	if err != nil {
		s.t.Fatalf("%s: %v", expression, err)
	}
	return out
}

func (s *Server) matches(conditions []admissionv1.MatchCondition, input map[string]any) bool {
	s.t.Helper()
	return !slices.ContainsFunc(conditions, func(c admissionv1.MatchCondition) bool { return s.eval(c.Expression, input).Value() != true })
}

// input returns the CEL variables of a request to create a pod.
func (s *Server) input(pod *corev1.Pod) map[string]any {
	s.t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		s.t.Fatal(err)
	}
	object["kind"] = "Pod"
	user := map[string]any{"username": "somebody"}
	return map[string]any{"object": object, "oldObject": nil, "request": map[string]any{"operation": "CREATE", "userInfo": user}, "params": nil, "authorizer": nil, "variables": nil}
}

// Warned returns the sorted fields of a pod that the API server warns about.
func (s *Server) Warned(pod *corev1.Pod) []string {
	s.t.Helper()
	input := s.input(pod)
	if !s.matches(s.warn.Spec.MatchConditions, input) {
		return nil
	}
	variables := map[string]any{"filled": false} // its expression needs an authorizer
	input["variables"] = variables
	for _, v := range s.warn.Spec.Variables {
		if v.Name != "filled" {
			variables[v.Name] = s.eval(v.Expression, input)
		}
	}
	var fields []string
	for _, v := range s.warn.Spec.Validations {
		if s.eval(v.Expression, input).Value() != true {
			field, _, _ := strings.Cut(v.Message, " of a pod for Windows: ")
			fields = append(fields, field)
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// Assign assigns the class that the policy chooses to a pod and applies that class to the pod. The error is a rejection.
func (s *Server) Assign(pod *corev1.Pod, classes []*nodev1.RuntimeClass) (*corev1.Pod, error) {
	s.t.Helper()
	given := pod.DeepCopy()
	for _, class := range classes {
		params, err := runtime.DefaultUnstructuredConverter.ToUnstructured(class)
		if err != nil {
			s.t.Fatal(err)
		}
		input := s.input(given)
		input["params"] = params
		if s.matches(s.assign.Spec.MatchConditions, input) {
			given.Spec.RuntimeClassName = &class.Name
		}
	}
	for _, class := range classes {
		if given.Spec.RuntimeClassName == nil || *given.Spec.RuntimeClassName != class.Name {
			continue
		}
		for label, value := range class.Scheduling.NodeSelector {
			if got, selects := given.Spec.NodeSelector[label]; selects && got != value {
				return nil, fmt.Errorf("conflict: RuntimeClass %s selects %s=%s, and the pod %s", class.Name, label, value, got)
			}
			if given.Spec.NodeSelector == nil {
				given.Spec.NodeSelector = map[string]string{}
			}
			given.Spec.NodeSelector[label] = value
		}
		given.Spec.Tolerations = append(given.Spec.Tolerations, class.Scheduling.Tolerations...)
	}
	return given, nil
}
