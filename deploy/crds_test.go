package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// schema is what this test reads of an OpenAPI schema.
type schema struct {
	Description string            `json:"description"`
	Properties  map[string]schema `json:"properties"`
	Items       *schema           `json:"items"`
	Additional  *schema           `json:"additionalProperties"`
}

// definition is what this test reads of a CustomResourceDefinition.
type definition struct {
	Spec struct {
		Names    struct{ Kind string } `json:"names"`
		Versions []struct {
			Columns []struct {
				Name        string `json:"name"`
				Description string `json:"description"`
			} `json:"additionalPrinterColumns"`
			Schema struct {
				Object schema `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

// definitions are the CustomResourceDefinitions that are installed.
func definitions(t *testing.T) (all []definition) {
	t.Helper()
	files, err := filepath.Glob("crds/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("there are %d definitions: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d definition
		if err := yaml.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, d)
	}
	return all
}

// TestKubectlExplainsEveryField reads what kubectl explain prints: without a description, it prints <no description>. The API
// server describes metadata itself.
func TestKubectlExplainsEveryField(t *testing.T) {
	fields := 0
	var check func(path string, s schema)
	check = func(path string, s schema) {
		for s.Items != nil || s.Additional != nil {
			if s.Items != nil {
				s = *s.Items
			} else {
				s = *s.Additional
			}
		}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			field := s.Properties[name]
			at := path + "." + name
			fields++
			if len(strings.Fields(field.Description)) < 3 && at != path[:strings.IndexByte(path+".", '.')]+".metadata" {
				t.Errorf("%s has the description %q; say in a sentence what it is, and its unit", at, field.Description)
			}
			check(at, field)
		}
	}
	for _, d := range definitions(t) {
		for _, v := range d.Spec.Versions {
			check(d.Spec.Names.Kind, v.Schema.Object)
			for _, column := range v.Columns {
				if column.Description == "" {
					t.Errorf("column %s of %s has no description", column.Name, d.Spec.Names.Kind)
				}
			}
		}
	}
	if fields < 150 {
		t.Errorf("only %d fields were found", fields)
	}
}

// TestRemovalNamesEveryDefinition: OLM leaves the kinds, so that the documented commands must delete each.
func TestRemovalNamesEveryDefinition(t *testing.T) {
	text, err := os.ReadFile("../docs/install-olm.md")
	if err != nil {
		t.Fatal(err)
	}
	_, removal, _ := strings.Cut(string(text), "$ oc delete crd ")
	removal, _, _ = strings.Cut(removal, "```")
	files, err := filepath.Glob("crds/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("there are %d definitions: %v", len(files), err)
	}
	for _, file := range files {
		group, plural, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".yaml"), "_")
		if name := plural + "." + group; !slices.Contains(strings.Fields(removal), name) {
			t.Errorf("docs/install-olm.md does not delete CustomResourceDefinition %s", name)
		}
	}
}
