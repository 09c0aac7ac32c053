package chart

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windows-machine-config/wmco/api"
)

const operator = "windows-machine-config-operator"

// substitution replaces a field of manifests with an expression.
type substitution struct {
	// kind and name select the objects; an empty name selects all of the kind.
	kind, name string
	// path leads to the field. In a list, an element selects the item with this name, or the text that begins with it.
	path []string
	// expression is the field's value in the template.
	expression string
	// structured marks the expression as a value with its own structure: its YAML is indented below the field.
	structured bool
	// when is the condition for the field; empty means always.
	when string
}

func substitutions() []substitution {
	pod := []string{"spec", "template", "spec"}
	manager := append(pod[:3:3], "containers", "manager")
	return []substitution{
		{kind: "Deployment", name: operator, path: append(manager[:5:5], "image"), expression: imageExpression},
		{kind: "Deployment", name: operator, path: append(manager[:5:5], "resources"), expression: ".Values.resources", structured: true},
		{
			kind: "Deployment", name: operator, path: append(manager[:5:5], "args", "--metrics-bind-address="),
			expression: `--metrics-bind-address={{ ternary ":9182" "0" .Values.monitoring.enabled }}`,
		},
		{kind: "Deployment", name: operator, path: append(pod[:3:3], "nodeSelector"), expression: ".Values.nodeSelector", structured: true},
		{kind: "Deployment", name: operator, path: append(pod[:3:3], "tolerations"), expression: ".Values.tolerations", structured: true},
		{
			kind: "Deployment", name: operator, path: append(pod[:3:3], "imagePullSecrets"), expression: ".Values.image.pullSecrets",
			structured: true, when: ".Values.image.pullSecrets",
		},
		{
			kind: "CustomResourceDefinition", path: []string{"metadata", "annotations", "helm.sh/resource-policy"}, expression: "keep",
			when: ".Values.crds.keep",
		},
		{kind: "Namespace", path: []string{"metadata", "annotations", "helm.sh/resource-policy"}, expression: "keep", when: "true"},
		machinesNamespace("Role"), machinesNamespace("RoleBinding"),
		account("ClusterRoleBinding", "windows-machine-config-prometheus", "namespace"), account("ClusterRoleBinding", "windows-machine-config-prometheus", "name"),
		account("ClusterRoleBinding", "windows-machine-config-metrics", "namespace"), account("ClusterRoleBinding", "windows-machine-config-metrics", "name"),
		account("RoleBinding", "windows-machine-config-prometheus", "namespace"), account("RoleBinding", "windows-machine-config-prometheus", "name"),
	}
}

// account replaces a field of the ServiceAccount of Prometheus. The namespace must be replaced before the name, which selects
// the subject.
func account(kind, name, field string) substitution {
	return substitution{kind: kind, name: name, path: []string{"subjects", "prometheus-k8s", field}, expression: "{{ .Values.monitoring.prometheus." + field + " }}"}
}

// machinesNamespace places an object in the namespace of Cluster API's Machines.
func machinesNamespace(kind string) substitution {
	return substitution{
		kind: kind, name: "windows-machine-config-cluster-api", path: []string{"metadata", "namespace"},
		expression: "{{ .Values.clusterAPI.namespace }}", when: ".Values.clusterAPI.namespace",
	}
}

const imageExpression = `{{ .Values.image.repository }}{{ with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag }}{{ end }}`

// condition returns the condition for rendering an object, if there is one.
func condition(o *unstructured.Unstructured) string {
	switch {
	case o.GetKind() == "Namespace":
		return ".Values.namespace.create"
	case o.GetKind() == "CustomResourceDefinition":
		return ".Values.crds.install"
	case o.GetKind() == "Service":
		return ".Values.monitoring.enabled"
	case o.GetNamespace() == "openshift-cluster-api":
		return "and .Values.openshift.enabled .Values.openshift.clusterAPI"
	case strings.HasPrefix(o.GetNamespace(), "openshift-") && o.GetNamespace() != api.DefaultNamespace:
		return ".Values.openshift.enabled"
	}
	return ""
}

// placeholder returns the text that marks the substitution with this number in a manifest until it is rendered.
func placeholder(n int) string { return fmt.Sprintf("wmco-substitution-%d-", n) }

// replace puts placeholders into an object and returns their numbers.
func replace(o *unstructured.Unstructured, all []substitution) (used []int, err error) {
	for n, s := range all {
		if o.GetKind() != s.kind || s.name != "" && o.GetName() != s.name {
			continue
		}
		if err := set(o.Object, s.path, placeholder(n), s.when != ""); err != nil {
			return nil, fmt.Errorf("replacing %s of %s %s: %w", strings.Join(s.path, "."), o.GetKind(), o.GetName(), err)
		}
		used = append(used, n)
	}
	replaceNamespace(o.Object)
	return used, nil
}

// set replaces the value at the end of a path. The last field of the path may be missing if add is set.
func set(value any, path []string, replacement string, add bool) error {
	element := path[0]
	switch v := value.(type) {
	case map[string]any:
		if len(path) == 1 {
			if _, exists := v[element]; !exists && !add {
				return fmt.Errorf("field %s does not exist", element)
			}
			v[element] = replacement
			return nil
		}
		if _, exists := v[element]; !exists && add && len(path) == 2 {
			v[element] = map[string]any{}
		}
		return set(v[element], path[1:], replacement, add)
	case []any:
		for i, item := range v {
			if text, ok := item.(string); ok && len(path) == 1 && strings.HasPrefix(text, element) {
				v[i] = replacement
				return nil
			}
			if fields, ok := item.(map[string]any); ok && fields["name"] == element {
				return set(item, path[1:], replacement, add)
			}
		}
	}
	return fmt.Errorf("%s does not exist", element)
}

// replaceNamespace replaces the operator's namespace with that of the release, where it is a whole value or part of a Service name.
func replaceNamespace(value any) any {
	const service = "." + api.DefaultNamespace + ".svc"
	switch v := value.(type) {
	case string:
		if v == api.DefaultNamespace {
			return namespacePlaceholder
		}
		if before, ok := strings.CutSuffix(v, service); ok {
			return before + "." + namespacePlaceholder + ".svc"
		}
	case map[string]any:
		for key := range v {
			v[key] = replaceNamespace(v[key])
		}
	case []any:
		for i := range v {
			v[i] = replaceNamespace(v[i])
		}
	}
	return value
}

const (
	namespacePlaceholder = "wmco-namespace"
	namespaceExpression  = "{{ .Release.Namespace }}"
)
