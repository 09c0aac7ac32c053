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

// failing is a valid expression whose evaluation fails for every object.
const failing = "object.spec.isMissing.isMissing == ''"

// breakage makes the evaluation of a pod policy fail.
type breakage struct {
	// name describes the broken part of the policy.
	name, policy string
	change       change
}

// change changes a policy and its bindings. If forced is set, the API server must report the failure.
type change func(o *unstructured.Unstructured, forced bool)

// breakages returns a breakage for each evaluated part of the policies. There is none for a mutation whose result is not a
// valid pod, because the API server never ignores that, and the policy's own mutation can only add a name.
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
		{name: "a patch of a missing field", change: patch("replace", "/spec/isMissing/isMissing", "'x'")},
		{name: "no parameters", change: withoutParameters},
		{name: "unknown kind of parameters", change: func(o *unstructured.Unstructured, _ bool) {
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

// with returns a change that replaces the first expression of a list.
func with(expression string, path ...string) change {
	return func(o *unstructured.Unstructured, _ bool) { replaceFirst(o, expression, path...) }
}

// patch returns a change that replaces the mutation.
func patch(operation, path, value string) change {
	expression := fmt.Sprintf("[JSONPatch{op: '%s', path: '%s', value: %s}]", operation, path, value)
	return with(expression, "mutations", "jsonPatch", "expression")
}

// withoutParameters changes the binding to select parameters that do not exist. The shipped binding permits that.
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

// replaceFirst sets a field in the first element of a list of the spec, if the list exists.
func replaceFirst(o *unstructured.Unstructured, with string, path ...string) {
	list, found, _ := unstructured.NestedSlice(o.Object, "spec", path[0])
	if !found {
		return
	}
	first, _ := list[0].(map[string]any)
	_ = unstructured.SetNestedField(first, with, path[1:]...)
	_ = unstructured.SetNestedSlice(o.Object, list, "spec", path[0])
}

// testBrokenPolicies breaks each pod policy. With failurePolicy Fail, the API server reports the failure; with the shipped one,
// it admits all pods.
func (c *cluster) testBrokenPolicies(t *testing.T) {
	w := c.newWriter(t)
	c.createNamespace(t, "broken-rules", map[string]string{api.LabelPodRules: "deny"})
	var shipped []*unstructured.Unstructured
	for _, dir := range []string{deployDir, deployDir + "/workloads"} {
		objects, err := manifest.Render(dir)
		must(t, err)
		shipped = append(shipped, objects...)
	}
	for _, b := range breakages() {
		objects := slices.DeleteFunc(slices.Clone(shipped), func(o *unstructured.Unstructured) bool { return !isOf(o, b.policy) })
		t.Run(b.policy+", "+b.name, func(t *testing.T) {
			defer c.apply(t, objects)
			c.apply(t, broken(objects, b, true))
			eventually(t, b.policy, w.createAll) // until the API server reports the failure
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

// broken returns copies of a policy and its bindings that fail. If forced is set, the API server reports the failure.
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

// createAll creates valid objects of all kinds with pods, and returns the errors and warnings.
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
