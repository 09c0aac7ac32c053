package archtest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestCommandsReadExistingFields checks the fields of this project's objects that commands in documents print, and the conditions that
// they select: for those that do not exist, kubectl prints nothing and does not fail.
func TestCommandsReadExistingFields(t *testing.T) {
	inRoot(t)
	command := regexp.MustCompile(`(?:kubectl|oc) get (winst|windowsinstances?|windowsconfig|nodes?)\b([^\n|]*)`)
	field := regexp.MustCompile(`[:{"' ]\.((?:spec|status)(?:\.[A-Za-z]+)*)`)
	condition := regexp.MustCompile(`@\.type=="([A-Za-z]+)"`)
	schemas := map[string]schema{"winst": readSchema(t, "windowsinstances"), "windowsconfig": readSchema(t, "windowsconfigs")}
	known := conditionsOfAPI(t)
	found := 0
	for _, document := range allDocuments(t) {
		for _, m := range command.FindAllStringSubmatch(read(t, document), -1) {
			kind := m[1]
			if strings.HasPrefix(kind, "windowsinstance") {
				kind = "winst"
			}
			for _, c := range condition.FindAllStringSubmatch(m[2], -1) {
				if found++; !slices.Contains(known, c[1]) {
					t.Errorf("%s: %q selects condition %s, which does not exist", document, m[0], c[1])
				}
			}
			for _, f := range field.FindAllStringSubmatch(m[2], -1) {
				if s, ours := schemas[kind]; ours && !s.has(strings.Split(f[1], ".")) {
					t.Errorf("%s: %q prints %s, which does not exist", document, m[0], f[1])
				} else if ours {
					found++
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d fields and conditions were found", found)
	}
}

// schema has the parts of a kind's schema that the test reads.
type schema struct {
	Properties           map[string]schema `json:"properties"`
	AdditionalProperties *schema           `json:"additionalProperties"`
}

func (s schema) has(path []string) bool {
	if len(path) == 0 {
		return true
	}
	below, found := s.Properties[path[0]]
	if !found && s.AdditionalProperties != nil {
		below, found = *s.AdditionalProperties, true
	}
	return found && below.has(path[1:])
}

func readSchema(t *testing.T, plural string) schema {
	t.Helper()
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPI schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	text := read(t, "deploy/crds/windowsmachineconfig.openshift.io_"+plural+".yaml")
	if err := yaml.Unmarshal([]byte(text), &crd); err != nil || len(crd.Spec.Versions) != 1 {
		t.Fatalf("CustomResourceDefinition %s has %d versions (%v), want 1", plural, len(crd.Spec.Versions), err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPI
}

// conditionsOfAPI returns the types of conditions in package api, and those of Kubernetes that documents select.
func conditionsOfAPI(t *testing.T) []string {
	t.Helper()
	types := []string{"Ready"}
	files, err := filepath.Glob("api/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("package api has %d files (%v)", len(files), err)
	}
	constant := regexp.MustCompile(`\bCondition[A-Za-z]*\s*=\s*"([A-Za-z]+)"`)
	for _, name := range files {
		for _, m := range constant.FindAllStringSubmatch(read(t, name), -1) {
			types = append(types, m[1])
		}
	}
	return types
}
