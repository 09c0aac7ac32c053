package deploy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// TestEveryRightIsExplained looks for each right of the operator in the tables of README.md: a row that names the resource and what is
// done with it, and the names that the right is limited to.
func TestEveryRightIsExplained(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var rights []string // first cells
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			rights = append(rights, strings.ToLower(cells[1]))
		}
	}
	words := map[string][]string{
		"get": {"read", "get"}, "list": {"read", "list"}, "watch": {"read", "watch"}, "create": {"create", "write", "evict"},
		"update": {"update", "write"}, "patch": {"patch", "write"}, "delete": {"delete", "write"}, "deletecollection": {"delete"}, "approve": {"approve"}, "use": {"use"},
	}
	for _, rule := range operatorRules(t) {
		for _, name := range rule.ResourceNames {
			if !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("README.md does not name %s, of %v", name, rule.Resources)
			}
		}
		for _, resource := range rule.Resources {
			kind, _, _ := strings.Cut(resource, "/")
			kind = strings.TrimSuffix(strings.TrimSuffix(kind, "s"), "ie")
			for _, verb := range rule.Verbs {
				if !slices.ContainsFunc(rights, func(right string) bool {
					return strings.Contains(right, kind) && slices.ContainsFunc(words[verb], func(w string) bool { return strings.Contains(right, w) })
				}) {
					t.Errorf("README.md does not say that the operator may %s %s", verb, resource)
				}
			}
		}
	}
}

// operatorRules are the rules of all roles of the operator, also those in OpenShift's namespaces.
func operatorRules(t *testing.T) (rules []rbacv1.PolicyRule) {
	t.Helper()
	files := []string{"rbac-operator.yaml"}
	for _, pattern := range []string{"openshift/*.yaml", "openshift/*/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
			var role rbacv1.Role
			err := documents.Decode(&role)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			rules = append(rules, role.Rules...)
		}
	}
	if len(rules) < 30 {
		t.Fatalf("%d rules were found", len(rules))
	}
	return rules
}
