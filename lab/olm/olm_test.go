//go:build linux

package olm

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func TestASubscriptionChangesThePodAsWithOLM(t *testing.T) {
	pod := corev1.PodSpec{
		NodeSelector: map[string]string{"node-role.kubernetes.io/control-plane": ""},
		Tolerations:  []corev1.Toleration{{Key: "a"}},
		Containers:   []corev1.Container{{Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}}},
	}
	Config{
		Env:          []corev1.EnvVar{{Name: "ARGS", Value: "--debugLogging"}, {Name: "A", Value: "3"}},
		NodeSelector: map[string]string{"kubernetes.io/os": "linux"}, Tolerations: []corev1.Toleration{{Key: "a"}, {Key: "b"}},
		Resources: &corev1.ResourceRequirements{},
	}.merge(&pod)
	got, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	const want = `"env":[{"name":"A","value":"3"},{"name":"B","value":"2"},{"name":"ARGS","value":"--debugLogging"}]`
	if !strings.Contains(string(got), want) || len(pod.NodeSelector) != 1 || pod.NodeSelector["kubernetes.io/os"] != "linux" || len(pod.Tolerations) != 2 {
		t.Errorf("the pod is %s", got)
	}
}

func TestUnsafeUpgradesOfKindsAreRefused(t *testing.T) {
	type schema = apiextensionsv1.JSONSchemaProps
	// field changes a field below a schema.
	field := func(change func(*schema), path ...string) func(*apiextensionsv1.CustomResourceDefinition) {
		var in func(at *schema, path []string)
		in = func(at *schema, path []string) {
			if len(path) == 0 {
				change(at)
				return
			}
			below := at.Properties[path[0]]
			in(&below, path[1:])
			at.Properties[path[0]] = below
		}
		return func(crd *apiextensionsv1.CustomResourceDefinition) {
			in(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, path)
		}
	}
	for name, tc := range map[string]struct {
		change func(*apiextensionsv1.CustomResourceDefinition)
		want   string // "" where it is safe
	}{
		"nothing":       {func(*apiextensionsv1.CustomResourceDefinition) {}, ""},
		"another field": {field(func(s *schema) { s.Properties["new"] = schema{Type: "string"} }, "spec"), ""},
		"another value": {field(func(s *schema) { s.Enum = append(s.Enum, apiextensionsv1.JSON{Raw: []byte(`"x"`)}) }, "spec", "trust"), ""},
		"a new version": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			v := crd.Spec.Versions[0].DeepCopy()
			v.Name, v.Storage = "v1beta1", false
			crd.Spec.Versions = append(crd.Spec.Versions, *v)
		}, ""},
		"a version is removed": {func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[0].Name = "v1" }, "version v1alpha1 is stored and is missing"},
		"another scope":        {func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Scope = "Namespaced" }, "its scope was Cluster and is Namespaced"},
		"a field is removed":   {field(func(s *schema) { delete(s.Properties, "taint") }, "spec"), "v1alpha1.spec: field taint is missing"},
		"a field is required":  {field(func(s *schema) { s.Required = append(s.Required, "trust") }, "spec"), "field trust is required now"},
		"a value is removed":   {field(func(s *schema) { s.Enum = s.Enum[:1] }, "spec", "trust"), `value "Pinned" is allowed no more`},
		"values are listed":    {field(func(s *schema) { s.Enum = []apiextensionsv1.JSON{{Raw: []byte("true")}} }, "spec", "rollout", "paused"), "values that are listed now"},
		"another type":         {field(func(s *schema) { s.Type = "string" }, "spec", "rollout", "paused"), `v1alpha1.spec.rollout.paused: its type was "boolean"`},
		"another default":      {field(func(s *schema) { s.Default = nil }, "spec", "trust"), "its default is another one"},
		"a lower limit":        {field(func(s *schema) { s.Maximum = new(10.0) }, "spec", "rollout", "maxConcurrentJoins"), "maximum is tighter"},
		"a new limit":          {field(func(s *schema) { s.MinLength = new(int64(1)) }, "spec", "trust"), "minLength is tighter"},
		"a list's items":       {field(func(s *schema) { s.Items.Schema.MaxLength = new(int64(1)) }, "spec", "rollout", "readinessGates"), "readinessGates[]: maxLength is tighter"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("../../deploy/crds/windowsmachineconfig.openshift.io_windowsconfigs.yaml")
			if err != nil {
				t.Fatal(err)
			}
			var before, after apiextensionsv1.CustomResourceDefinition
			if err := yaml.Unmarshal(text, &before); err != nil {
				t.Fatal(err)
			}
			before.Status.StoredVersions = []string{"v1alpha1"}
			before.DeepCopyInto(&after)
			tc.change(&after)
			err = checkKindUpgrade(toObject(t, &before), toObject(t, &after))
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, want one that says %q", err, tc.want)
			}
		})
	}
}

func toObject(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}
