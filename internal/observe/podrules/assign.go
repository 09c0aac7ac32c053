package podrules

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// AssigningPolicyName is the name of the policy that assigns a RuntimeClass to pods.
const AssigningPolicyName = "windows-pods-runtime-class"

// Assigning returns the policy that assigns one of the operator's RuntimeClasses to pods for Windows, and its binding. Its parameters are the
// existing classes, so a pod never gets a missing class, which the API server would reject. The API server then adds the node selector and
// tolerations of the class, because it runs all admission plugins again after a policy has changed a pod.
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
				// A match condition is cheaper than an empty patch, which the API server would apply.
				{Name: "class-fits", Expression: classFits()},
			},
			Mutations: []admissionv1.Mutation{{
				PatchType: admissionv1.PatchTypeJSONPatch,
				JSONPatch: &admissionv1.JSONPatch{Expression: "!has(object.spec.runtimeClassName) ? " + // two classes can match
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

// undecided is true for pods that select no class, no node and no build. DaemonSets, among others, select the node of each pod by the field
// metadata.name. A pod for another system would be rejected with the node selector of a class.
func undecided() string {
	return strings.NewReplacer("SELECTOR", "object.spec.?nodeSelector", "TERMS", "object.spec"+terms, "ANOTHER", selectsAnotherExpression("object.spec"),
		"CHOICES", list([]string{corev1.LabelHostname, corev1.LabelWindowsBuild}), "RUNS", api.LabelRunsPrefix).Replace(
		"!has(object.spec.runtimeClassName) && object.spec.?nodeName.orValue('') == '' && object.spec.?os.name.orValue('windows') == 'windows' && " +
			"!object.metadata.?ownerReferences.orValue([]).exists(o, o.kind == 'DaemonSet') && " +
			"!ANOTHER && " +
			"!SELECTOR.orValue({}).exists(l, l in CHOICES || l.startsWith('RUNS')) && " +
			"!TERMS.exists(t, t.?matchFields.orValue([]).size() > 0 || t.?matchExpressions.orValue([]).exists(e, e.key in CHOICES || e.key.startsWith('RUNS')))")
}

// wouldNotRun is false for pods that may already have all they need: they tolerate the taint of Windows nodes, and a label or pod affinity
// restricts their nodes. These might have another build than the class.
func wouldNotRun() string {
	return strings.NewReplacer("SELECTOR", "object.spec.?nodeSelector", "TERMS", "object.spec"+terms, "LABELS", list(systemLabels())).Replace(
		"!(" + toleratesTaint("object.spec", api.TaintValue, api.TaintValueLowerCase) + ") || !(" +
			"SELECTOR.orValue({}).exists(l, !(l in LABELS)) || TERMS.exists(t, t.?matchExpressions.orValue([]).exists(e, !(e.key in LABELS))) || " +
			"object.spec.?affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution.orValue([]).size() > 0)")
}

// classFits is true for the class of the only generation that the images of a pod name, or for the default class if they name none.
func classFits() string {
	var named []string
	for _, r := range windowsbuild.Releases() {
		named = append(named, hasGeneration("object.spec.containers", r.Tag)+" ? ['"+r.Tag+"'] : []")
	}
	const label = "params.metadata.?labels[?'%s'].orValue('')"
	return fmt.Sprintf("[(%s)].exists(named, named == ["+label+"] || named == [] && "+label+" == 'true')",
		strings.Join(named, ") + ("), api.LabelImages, api.LabelDefaultClass)
}
