package podrules

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/windowsbuild"
)

// AssigningPolicyName is the policy that gives pods a RuntimeClass.
const AssigningPolicyName = "windows-pods-runtime-class"

// Assigning are the policy that gives pods for Windows a RuntimeClass of the operator, and its binding. Its parameters are the classes that
// exist: a pod never gets one that does not, which the API server would refuse. The API server then has the class add its node selector and
// tolerations, because it asks all admission plugins again after a policy has changed a pod.
func Assigning() []any {
	kept := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: api.LabelAssignRuntimeClass, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"false"}},
	}}
	policy := &admissionv1.MutatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "MutatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: AssigningPolicyName},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			ParamKind:          &admissionv1.ParamKind{APIVersion: "node.k8s.io/v1", Kind: "RuntimeClass"},
			FailurePolicy:      new(admissionv1.Ignore),
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			MatchConstraints: complete(admissionv1.MatchResources{
				NamespaceSelector: kept, ObjectSelector: kept,
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				}}},
			}),
			MatchConditions: []admissionv1.MatchCondition{
				{Name: "for-windows", Expression: forWindows("object.spec")},
				{Name: "undecided", Expression: undecided()},
				{Name: "would-not-run", Expression: wouldNotRun()},
				{Name: "no-host-process", Expression: "!(object.spec.?securityContext.windowsOptions.hostProcess.orValue(false) || " +
					"object.spec.containers.exists(c, c.?securityContext.windowsOptions.hostProcess.orValue(false)))"},
				// A class that does not fit costs less here than as an empty patch, which the API server applies.
				{Name: "class-fits", Expression: classFits()},
			},
			Mutations: []admissionv1.Mutation{{
				PatchType: admissionv1.PatchTypeJSONPatch,
				JSONPatch: &admissionv1.JSONPatch{Expression: "!has(object.spec.runtimeClassName) ? " + // two classes can fit
					"[JSONPatch{op: 'add', path: '/spec/runtimeClassName', value: params.metadata.name}] : []"},
			}},
		},
	}
	return []any{policy, &admissionv1.MutatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "MutatingAdmissionPolicyBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: AssigningPolicyName},
		Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{
			PolicyName: AssigningPolicyName,
			ParamRef: &admissionv1.ParamRef{
				Selector:                &metav1.LabelSelector{MatchLabels: map[string]string{api.LabelManagedBy: api.ManagedBy}},
				ParameterNotFoundAction: new(admissionv1.AllowAction),
			},
		},
	}}
}

// undecided is true for pods that chose neither a class, nor a node, nor a build. A DaemonSet chooses the node of each of its pods, as others
// do: by the field metadata.name. A pod for another system would be refused with the node selector of a class.
func undecided() string {
	return strings.NewReplacer("SELECTOR", "object.spec.?nodeSelector", "TERMS", "object.spec"+terms, "ANOTHER", selectsAnotherExpression("object.spec"),
		"CHOICES", list([]string{corev1.LabelHostname, corev1.LabelWindowsBuild}), "RUNS", api.LabelRunsPrefix).Replace(
		"!has(object.spec.runtimeClassName) && object.spec.?nodeName.orValue('') == '' && object.spec.?os.name.orValue('windows') == 'windows' && " +
			"!object.metadata.?ownerReferences.orValue([]).exists(o, o.kind == 'DaemonSet') && " +
			"!ANOTHER && " +
			"!SELECTOR.orValue({}).exists(l, l in CHOICES || l.startsWith('RUNS')) && " +
			"!TERMS.exists(t, t.?matchFields.orValue([]).size() > 0 || t.?matchExpressions.orValue([]).exists(e, e.key in CHOICES || e.key.startsWith('RUNS')))")
}

// wouldNotRun is false for pods that may have all they need: they tolerate the taint of Windows nodes, and some label or pod restricts to which
// of these they may come. The build of a class might be that of other nodes.
func wouldNotRun() string {
	return strings.NewReplacer("SELECTOR", "object.spec.?nodeSelector", "TERMS", "object.spec"+terms, "LABELS", list(systemLabels())).Replace(
		"!(" + toleratesTaint("object.spec", api.TaintValue, api.TaintValueLowerCase) + ") || !(" +
			"SELECTOR.orValue({}).exists(l, !(l in LABELS)) || TERMS.exists(t, t.?matchExpressions.orValue([]).exists(e, !(e.key in LABELS))) || " +
			"object.spec.?affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution.orValue([]).size() > 0)")
}

// classFits is true for the class of the only generation that the images of a pod name, and for the default class where they name none.
func classFits() string {
	var named []string
	for _, r := range windowsbuild.Releases() {
		named = append(named, hasGeneration("object.spec.containers", r.Tag)+" ? ['"+r.Tag+"'] : []")
	}
	const label = "params.metadata.?labels[?'%s'].orValue('')"
	return fmt.Sprintf("[(%s)].exists(named, named == ["+label+"] || named == [] && "+label+" == 'true')",
		strings.Join(named, ") + ("), api.LabelImages, api.LabelDefaultClass)
}
