package deploy_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// TestManifestsIncludeAPIServerDefaults expects the manifests to set the fields that the API server defaults within an atomic field. Without them,
// server-side apply would see another value, and conflict with the former field manager. lab/suites/deploytest applies the manifests.
func TestManifestsIncludeAPIServerDefaults(t *testing.T) {
	added := map[string][]string{
		"fieldRef":         {"apiVersion"},
		"matchConstraints": {"matchPolicy", "namespaceSelector", "objectSelector"},
		"matchResources":   {"matchPolicy", "namespaceSelector", "objectSelector"},
		"resourceRules[]":  {"scope"},
	}
	found := map[string]int{}
	var look func(t *testing.T, path, key string, value any)
	look = func(t *testing.T, path, key string, value any) {
		if fields, ok := value.(map[string]any); ok {
			for _, name := range added[key] {
				if _, written := fields[name]; !written {
					t.Errorf("%s.%s is missing", path, name)
				}
				found[key]++
			}
			for name, below := range fields {
				look(t, path+"."+name, name, below)
			}
		}
		if items, ok := value.([]any); ok {
			for _, item := range items {
				look(t, path+"[]", key+"[]", item)
			}
		}
	}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".yaml") || strings.HasPrefix(name, "crds/") {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
			var object map[string]any
			err := documents.Decode(&object)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			look(t, name, "", object)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for key := range added {
		if found[key] == 0 {
			t.Errorf("no manifest has %s", key)
		}
	}
}
