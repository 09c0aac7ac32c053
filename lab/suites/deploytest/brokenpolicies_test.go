//go:build linux

package deploytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/observe/podrules"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
)

// failing is an expression that is valid, and that no object has a value for.
const failing = "object.spec.isMissing.isMissing == ''"

// breakage makes the evaluation of a policy about pods fail.
type breakage struct {
	// name is the broken part, policy the policy that has it.
	name, policy string
	change       change
}

// change changes a policy and its bindings. With forced, the failure must show.
type change func(o *unstructured.Unstructured, forced bool)

// breakages are all parts of a policy that are evaluated. The API server does not ignore a patch that leaves no pod, such as one with a text in
// place of the containers; that of the policy only adds the name of an object.
func breakages() (all []breakage) {
	for _, policy := range []string{podrules.PolicyName, podrules.DenyPolicyName, podrules.AdvicePolicyName} {
		all = append(all,
			breakage{name: "a validation", policy: policy, change: with(failing, "validations", "expression")},
			breakage{name: "a variable", policy: policy, change: with("object.isMissing.spec", "variables", "expression")},
			breakage{name: "a match condition", policy: policy, change: with(failing, "matchConditions", "expression")})
	}
	for _, b := range []breakage{
		{name: "a match condition", change: with(failing, "matchConditions", "expression")},
		{name: "a mutation", change: patch("add", "/spec/runtimeClassName", "object.spec.isMissing")},
		{name: "a patch of what is not there", change: patch("replace", "/spec/isMissing/isMissing", "'x'")},
		{name: "no parameters", change: withoutParameters},
		{name: "no kind of parameters", change: func(o *unstructured.Unstructured, _ bool) {
			if strings.HasSuffix(o.GetKind(), "Policy") {
				_ = unstructured.SetNestedStringMap(o.Object, map[string]string{"apiVersion": "example.com/v1", "kind": "Missing"}, "spec", "paramKind")
			}
		}},
	} {
		b.policy = podrules.AssigningPolicyName
		all = append(all, b)
	}
	return all
}

// with replaces the first expression of a list.
func with(expression string, path ...string) change {
	return func(o *unstructured.Unstructured, _ bool) { replaceFirst(o, expression, path...) }
}

// patch replaces the mutation by another patch.
func patch(operation, path, value string) change {
	expression := fmt.Sprintf("[JSONPatch{op: '%s', path: '%s', value: %s}]", operation, path, value)
	return with(expression, "mutations", "jsonPatch", "expression")
}

// withoutParameters has the binding select parameters that do not exist. As delivered, it allows that.
func withoutParameters(o *unstructured.Unstructured, forced bool) {
	param, found, _ := unstructured.NestedMap(o.Object, "spec", "paramRef")
	if !found {
		return
	}
	param["selector"] = map[string]any{"matchLabels": map[string]any{"example.com/is": "missing"}}
	if forced {
		param["parameterNotFoundAction"] = "Deny"
	}
	_ = unstructured.SetNestedMap(o.Object, param, "spec", "paramRef")
}

// replaceFirst replaces a text in the first element of a list of the spec, where there is one.
func replaceFirst(o *unstructured.Unstructured, with string, path ...string) {
	list, found, _ := unstructured.NestedSlice(o.Object, "spec", path[0])
	if !found {
		return
	}
	first, _ := list[0].(map[string]any)
	_ = unstructured.SetNestedField(first, with, path[1:]...)
	_ = unstructured.SetNestedSlice(o.Object, list, "spec", path[0])
}

// testBrokenPolicies breaks each policy about pods. The failure shows with failurePolicy Fail; as we deliver the policy, it stops no pod.
func (c *cluster) testBrokenPolicies(t *testing.T) {
	w := c.newWriter(t)
	c.createNamespace(t, "broken-rules", map[string]string{api.LabelPodRules: "deny"})
	var ours []*unstructured.Unstructured
	for _, dir := range []string{deployDir, deployDir + "/workloads"} {
		objects, err := manifest.Render(dir)
		must(t, err)
		ours = append(ours, objects...)
	}
	for _, b := range breakages() {
		objects := slices.DeleteFunc(slices.Clone(ours), func(o *unstructured.Unstructured) bool { return !isOf(o, b.policy) })
		t.Run(b.policy+", "+b.name, func(t *testing.T) {
			defer c.apply(t, objects)
			c.apply(t, broken(objects, b, true))
			eventually(t, b.policy, w.createAll) // the failure shows
			c.apply(t, broken(objects, b, false))
			eventually(t, "", w.createAll)
		})
	}
}

// isOf reports whether an object is a policy or one of its bindings.
func isOf(o *unstructured.Unstructured, policy string) bool {
	if name, _, _ := unstructured.NestedString(o.Object, "spec", "policyName"); name != "" {
		return name == policy
	}
	return strings.HasSuffix(o.GetKind(), "AdmissionPolicy") && o.GetName() == policy
}

// broken are copies of a policy and its bindings that fail; with forced, the API server does not ignore that.
func broken(objects []*unstructured.Unstructured, b breakage, forced bool) (all []*unstructured.Unstructured) {
	for _, o := range objects {
		o = o.DeepCopy()
		if b.change(o, forced); forced && strings.HasSuffix(o.GetKind(), "Policy") {
			_ = unstructured.SetNestedField(o.Object, "Fail", "spec", "failurePolicy")
		}
		all = append(all, o)
	}
	return all
}

func (c *cluster) apply(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	must(t, manifest.ApplyObjects(t.Context(), c.config, objects))
}

// createAll creates acceptable pods of all kinds, and returns an error with any warnings or refusals.
func (w writer) createAll(ctx context.Context) error {
	spec := goodSpec()
	spec["os"] = map[string]any{"name": "windows"}
	var output error
	for _, namespace := range []string{"default", "broken-rules"} {
		for _, o := range withPods(spec) {
			o.SetNamespace(namespace)
			w.warnings.take()
			if err := w.create(ctx, o); err != nil {
				output = errors.Join(output, fmt.Errorf("%s in %s: %w", o.GetKind(), namespace, err))
			}
			for _, text := range w.warnings.take() {
				output = errors.Join(output, errors.New(text))
			}
		}
	}
	return output
}
