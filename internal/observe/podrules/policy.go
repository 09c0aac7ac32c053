package podrules

import (
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
)

// Names of the admission policies.
const (
	// PolicyName is the policy with all rules. It only warns.
	PolicyName = "windows-pods"
	// DenyPolicyName is the policy that rejects pods that do not run, in namespaces that opt in.
	DenyPolicyName = "windows-pods-deny"
	// AdvicePolicyName is the policy that warns, in these namespaces, about pods that may not run or may not run as specified.
	AdvicePolicyName = "windows-pods-advice"
)

// Values of the namespace label api.LabelPodRules, which the bindings select.
const (
	rulesOff  = "off"
	rulesDeny = "deny"
)

// Policies returns the policies that immediately report to authors of pods for Windows what will not work. Each policy converts the object for
// CEL again, which takes most of the time, so one policy has all rules, and only namespaces that opt in to rejections have two.
func Policies() []any {
	var stops, advice []admissionv1.Validation
	for _, r := range Rules() {
		v := admissionv1.Validation{Expression: r.expression(), Message: r.Path + " of a pod for Windows: " + r.Why + " " + r.Instead}
		if r.Refused || r.Stops {
			stops = append(stops, v)
		} else {
			advice = append(advice, v)
		}
	}
	stops = append(stops, imagesRunTogether(), noAdministrator())
	advice = append(placementValidations(), advice...)
	const warn, audit, deny = admissionv1.Warn, admissionv1.Audit, admissionv1.Deny
	return []any{
		newPolicy(PolicyName, slices.Concat(stops, advice)),
		newBinding(PolicyName, metav1.LabelSelectorOpNotIn, []string{rulesOff, rulesDeny}, warn, audit),
		newPolicy(DenyPolicyName, stops),
		newBinding(DenyPolicyName, metav1.LabelSelectorOpIn, []string{rulesDeny}, deny, audit),
		newPolicy(AdvicePolicyName, advice),
		newBinding(AdvicePolicyName, metav1.LabelSelectorOpIn, []string{rulesDeny}, warn, audit),
	}
}

// newPolicy returns a policy about pods and all objects with a pod template. A failed evaluation never blocks a pod. Objects that Kubernetes'
// own controllers create are excluded: no one reads their warnings, and the policy checked the template they come from. Objects of other
// controllers are checked: no policy saw the source of their templates.
func newPolicy(name string, validations []admissionv1.Validation) *admissionv1.ValidatingAdmissionPolicy {
	rule := func(group string, operations []admissionv1.OperationType, resources ...string) admissionv1.NamedRuleWithOperations {
		return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: operations, Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: resources},
		}}
	}
	create, write := []admissionv1.OperationType{admissionv1.Create}, []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}
	return &admissionv1.ValidatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Ignore),
			MatchConstraints: complete(admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{
				rule("", create, "pods"),
				rule("", write, "replicationcontrollers", "podtemplates"),
				rule("apps", write, "deployments", "statefulsets", "daemonsets", "replicasets"),
				rule("batch", write, "jobs", "cronjobs"),
			}}),
			MatchConditions: []admissionv1.MatchCondition{
				// Checks the requesting user rather than the object's owner, which any user can set.
				{Name: "by-people", Expression: "!request.userInfo.?username.orValue('').startsWith('system:serviceaccount:kube-system:') && " +
					"request.userInfo.?username.orValue('') != 'system:kube-controller-manager'"},
				// Scaling and pausing do not change pods.
				{Name: "changed", Expression: "request.operation == 'CREATE' || " + podSpec("object") + " != " + podSpec("oldObject")},
				{Name: "for-windows", Expression: "[" + podSpec("object") + "].exists(s, " + forWindows("s") + ")"},
			},
			Variables: []admissionv1.Variable{
				{Name: "spec", Expression: podSpec("object")},
				{Name: "main", Expression: "variables.spec.?containers.orValue([])"},
				{Name: "containers", Expression: "variables.main + variables.spec.?initContainers.orValue([]) + variables.spec.?ephemeralContainers.orValue([])"},
				{Name: "hostProcess", Expression: "variables.spec.?securityContext.windowsOptions.hostProcess.orValue(false) || " +
					"variables.main.all(c, c.?securityContext.windowsOptions.hostProcess.orValue(false))"},
				// OpenShift completes a pod's security context before validation; those fields are not the user's. On other clusters, users can
				// set the annotation to anything.
				{Name: "filled", Expression: filled()},
			},
			Validations: validations,
		},
	}
}

// podSpec returns the expression for the pod spec of an object of any kind.
func podSpec(object string) string {
	return strings.ReplaceAll("(dyn(object).kind == 'Pod' ? dyn(object).spec : dyn(object).kind == 'PodTemplate' ? dyn(object).?template.spec.orValue({}) : "+
		"dyn(object).kind == 'CronJob' ? dyn(object).spec.jobTemplate.spec.template.spec : dyn(object).spec.?template.spec.orValue({}))", "object", object)
}

// filled is true for a pod with OpenShift's annotation that names the constraints from which its fields were completed, if the user or the pod's
// service account may use these constraints.
func filled() string {
	const name = "object.metadata.?annotations[?'openshift.io/scc'].orValue('')"
	const mayUse = ".group('security.openshift.io').resource('securitycontextconstraints').namespace(request.namespace).name(" + name + ").check('use').allowed()"
	return name + " != '' && (authorizer" + mayUse + " || " +
		"authorizer.serviceAccount(request.namespace, variables.spec.?serviceAccountName.orValue('default'))" + mayUse + ")"
}

// newBinding applies the policy of the same name to the namespaces that match a selector of api.LabelPodRules.
func newBinding(name string, op metav1.LabelSelectorOperator, values []string, actions ...admissionv1.ValidationAction) *admissionv1.ValidatingAdmissionPolicyBinding {
	return &admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: actions,
			MatchResources: complete(admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: api.LabelPodRules, Operator: op, Values: values}},
			}}),
		},
	}
}

// complete sets the defaults that the API server would set. It applies these fields as a unit: without the defaults, a server-side apply after
// another apply conflicts.
func complete(m admissionv1.MatchResources) *admissionv1.MatchResources {
	m.MatchPolicy = new(admissionv1.Equivalent)
	if m.NamespaceSelector == nil {
		m.NamespaceSelector = &metav1.LabelSelector{}
	}
	if m.ObjectSelector == nil {
		m.ObjectSelector = &metav1.LabelSelector{}
	}
	for i := range m.ResourceRules {
		m.ResourceRules[i].Scope = new(admissionv1.AllScopes)
	}
	return &m
}

// expression returns an expression that is true for pods that do not break the rule.
func (r Rule) expression() string {
	result := r.fieldExpression("variables.spec", strings.Split(r.Path, "."))
	if rest, isContainer := strings.CutPrefix(r.Path, "containers[*]."); isContainer {
		result = "variables.containers.all(c, " + r.fieldExpression("c", strings.Split(rest, ".")) + ")"
	}
	if strings.Contains(r.Path, "securityContext.") {
		result = "variables.filled || " + result
	}
	if r.HostProcess {
		result = "variables.hostProcess || " + result
	}
	return result
}

// fieldExpression returns an expression that is true if the field at a path is absent or has a value that the rule allows.
func (r Rule) fieldExpression(object string, path []string) string {
	field := object
	for i, name := range path {
		name, isList := strings.CutSuffix(name, "[*]")
		if prefix, isPrefix := strings.CutSuffix(name, "*"); isPrefix && !isList {
			return "!" + field + ".orValue({}).exists(key, key.startsWith('" + prefix + "'))"
		}
		if i == 0 {
			field += ".?"
		} else {
			field += "."
		}
		field += name
		if isList {
			item := string(rune('i' + len(path))) // nested lists need different names
			return field + ".orValue([]).all(" + item + ", " + r.fieldExpression(item, path[i+1:]) + ")"
		}
	}
	allowed := slices.Concat(r.Except, r.Defaults)
	switch {
	case len(r.Values) > 0:
		return "!(" + field + ".orValue(null) in " + list(r.Values) + ")"
	case len(allowed) > 0:
		return field + ".orValue(null) in " + list(append([]string{"null"}, allowed...))
	}
	return "!" + field + ".hasValue()"
}

// list renders values as a CEL list of mixed types.
func list(values []string) string {
	literals := make([]string, len(values))
	for i, v := range values {
		if _, isNumber := strconv.Atoi(v); v == "true" || v == "false" || v == "null" || isNumber == nil {
			literals[i] = "dyn(" + v + ")"
		} else {
			literals[i] = "dyn('" + v + "')"
		}
	}
	return "[" + strings.Join(literals, ", ") + "]"
}

// imagesRunTogether requires that one node can run all images of a pod.
func imagesRunTogether() admissionv1.Validation {
	var both []string
	for _, pair := range incompatibleReleases() {
		both = append(both, "!("+hasGeneration("variables.main", pair[0].Tag)+" && "+hasGeneration("variables.main", pair[1].Tag)+")")
	}
	return admissionv1.Validation{
		Expression: strings.Join(both, " && "),
		Message:    "containers[*].image of a pod for Windows: no node runs images for Windows Server 2019 and for a later one. Use images for the same build.",
	}
}

// noAdministrator is the function administrator as a validation.
func noAdministrator() admissionv1.Validation {
	of := func(object, field, otherwise string) string {
		return object + ".?securityContext." + field + ".orValue(" + otherwise + ")"
	}
	nonRoot := of("c", "runAsNonRoot", of("variables.spec", "runAsNonRoot", "false"))
	user := of("c", "windowsOptions.runAsUserName", of("variables.spec", "windowsOptions.runAsUserName", "''"))
	return admissionv1.Validation{
		Expression: "variables.containers.all(c, !(" + nonRoot + " && string(" + user + ").matches('(?i)^" + containerAdministrator + "$')))",
		Message:    "containers[*].securityContext.windowsOptions.runAsUserName of a pod for Windows: " + whyAdministrator + " " + useUserOrRoot,
	}
}

// placementValidations returns the rules about scheduling to Windows nodes only.
func placementValidations() []admissionv1.Validation {
	tolerates := func(values ...string) string { return toleratesTaint("variables.spec", values...) }
	const hasClass = "variables.spec.?runtimeClassName.hasValue() || "
	return []admissionv1.Validation{
		{
			Expression: hasClass + tolerates(api.TaintValue, api.TaintValueLowerCase),
			Message:    "tolerations of a pod for Windows: without a RuntimeClass or a toleration of the taint os=Windows:NoSchedule, the pod stays Pending. Set runtimeClassName, for example windows2022.",
		},
		{
			Expression: hasClass + "!(" + tolerates(api.TaintValueLowerCase) + ") || " + tolerates(api.TaintValue),
			Message: "tolerations of a pod for Windows: the taint of Windows nodes is os=Windows:NoSchedule, unless spec.taint of WindowsConfig says os=windows:NoSchedule. " +
				"Tolerate key os with value Windows, or set runtimeClassName.",
		},
		{
			Expression: hasClass + "variables.spec.?nodeName.orValue('') != '' || " + selectsNodesExpression("variables.spec") + " || " + selectsAnotherExpression("variables.spec"),
			Message:    "nodeSelector of a pod for Windows: nothing keeps the pod off Linux nodes. Set runtimeClassName, or select kubernetes.io/os: windows.",
		},
		{
			Expression: "!" + selectsAnotherExpression("variables.spec"),
			Message: "nodeSelector of a pod for Windows: it selects nodes of another operating system, and stays Pending; with a RuntimeClass for Windows, the API server rejects it. " +
				"Select kubernetes.io/os: windows.",
		},
		{
			Expression: "variables.spec.?os.name.hasValue()",
			Message:    "os.name of a pod for Windows: without it, the API server checks the pod as a Linux pod, and level restricted of the Pod Security Standards rejects it. Set os.name: windows.",
		},
		{
			Expression: "variables.main.all(c, c.?resources.limits[?'memory'].hasValue())",
			Message:    "containers[*].resources.limits.memory of a pod for Windows: Windows has no OOM killer; without a limit, one container can stop the whole node. Set a limit.",
		},
	}
}
