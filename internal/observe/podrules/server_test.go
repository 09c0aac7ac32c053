package podrules_test

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/observe/podrules"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// server evaluates the pod policies as an API server does.
type server struct {
	t        *testing.T
	env      *cel.Env
	programs map[string]cel.Program
	assign   *admissionv1.MutatingAdmissionPolicy
	warn     *admissionv1.ValidatingAdmissionPolicy
}

// newServer returns a server with the policies of package podrules.
func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, programs: map[string]cel.Program{}}
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

func (s *server) eval(expression string, input map[string]any) ref.Val {
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

func (s *server) matches(conditions []admissionv1.MatchCondition, input map[string]any) bool {
	s.t.Helper()
	return !slices.ContainsFunc(conditions, func(c admissionv1.MatchCondition) bool { return s.eval(c.Expression, input).Value() != true })
}

// input returns the CEL variables of a request to create a pod.
func (s *server) input(pod *corev1.Pod) map[string]any {
	s.t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		s.t.Fatal(err)
	}
	object["kind"] = "Pod"
	user := map[string]any{"username": "somebody"}
	return map[string]any{"object": object, "oldObject": nil, "request": map[string]any{"operation": "CREATE", "userInfo": user}, "params": nil, "authorizer": nil, "variables": nil}
}

// warned returns the sorted fields of a pod that the API server warns about.
func (s *server) warned(pod *corev1.Pod) []string {
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

// assigned returns a pod with the class that the policy chooses for it, and with what that class adds. The error is a rejection.
func (s *server) assigned(pod *corev1.Pod, classes []*nodev1.RuntimeClass) (*corev1.Pod, error) {
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

// runtimeClasses returns RuntimeClasses for some builds, as the operator creates them; the default class is for Windows Server 2022.
func runtimeClasses() (classes []*nodev1.RuntimeClass) {
	tolerates := func(value string) corev1.Toleration {
		return corev1.Toleration{Key: api.TaintKey, Operator: corev1.TolerationOpEqual, Value: value, Effect: corev1.TaintEffectNoSchedule}
	}
	for _, r := range windowsbuild.Releases() {
		class := &nodev1.RuntimeClass{
			ObjectMeta: metav1.ObjectMeta{Name: r.Class, Labels: map[string]string{api.LabelManagedBy: api.ManagedBy, api.LabelImages: r.Tag}},
			Handler:    "runhcs-wcow-process",
			Scheduling: &nodev1.Scheduling{
				NodeSelector: map[string]string{corev1.LabelOSStable: "windows", corev1.LabelWindowsBuild: r.Build.Label()},
				Tolerations:  []corev1.Toleration{tolerates(api.TaintValue), tolerates(api.TaintValueLowerCase)},
			},
		}
		if r.Build == windowsbuild.Server2022 {
			class.Labels[api.LabelDefaultClass] = "true"
		}
		classes = append(classes, class)
	}
	return classes
}
