package chart_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/release/chart"
)

const deploy = "../../deploy"

func TestChartHasVersionAndImage(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0f", 32)
	type image struct{ Repository, Tag, Digest string }
	for reference, want := range map[string]image{
		"":                                     {"ghcr.io/windows-machine-config/wmco", "v0.1.0", ""},
		"registry.example.com:5000/wmco:1.2.0": {"registry.example.com:5000/wmco", "1.2.0", ""},
		"registry.example.com:5000/wmco":       {"registry.example.com:5000/wmco", "latest", ""},
		"quay.io/team/wmco@" + digest:          {"quay.io/team/wmco", "", digest},
		"quay.io/team/wmco:v1@" + digest:       {"quay.io/team/wmco", "v1", digest},
	} {
		files, err := chart.Files(chart.Source{Deploy: deploy, Version: "1.2.0-rc.1", Image: reference})
		if err != nil {
			t.Fatal(err)
		}
		var about struct{ APIVersion, Name, Version, AppVersion, KubeVersion string }
		var values struct{ Image image }
		if err := errors.Join(yaml.Unmarshal(files["Chart.yaml"], &about), yaml.Unmarshal(files["values.yaml"], &values)); err != nil {
			t.Fatal(err)
		}
		if about.APIVersion != "v2" || about.Name != chart.Name || about.Version != "1.2.0-rc.1" || about.AppVersion != about.Version || about.KubeVersion != ">= 1.33.0-0" {
			t.Errorf("Chart.yaml is %+v", about)
		}
		if values.Image != want {
			t.Errorf("image %q becomes %+v, want %+v", reference, values.Image, want)
		}
	}
}

// TestEachValueHasSchemaType compares the names in values.yaml with those in the schema.
func TestEachValueHasSchemaType(t *testing.T) {
	files, err := chart.Files(chart.Source{Deploy: deploy, Version: "1.2.0"})
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	var schema map[string]any
	if err := errors.Join(yaml.Unmarshal(files["values.yaml"], &values), json.Unmarshal(files["values.schema.json"], &schema)); err != nil {
		t.Fatal(err)
	}
	var check func(path string, values, schema map[string]any)
	check = func(path string, values, schema map[string]any) {
		properties, _ := schema["properties"].(map[string]any)
		for name, value := range values {
			typed, exists := properties[name].(map[string]any)
			if !exists && properties != nil {
				t.Errorf("values.schema.json has no type for %s%s", path, name)
			}
			if below, ok := value.(map[string]any); ok && exists {
				check(path+name+".", below, typed)
			}
		}
		for name := range properties {
			if _, exists := values[name]; !exists && name != "global" && name != "requests" && name != "limits" {
				t.Errorf("values.yaml has no default for %s%s", path, name)
			}
		}
	}
	check("", values, schema)
}

// TestImageValuesAreValidated: templates quote repository and tag. lab/suites/e2e checks with Helm that a tag or a digest is set.
func TestImageValuesAreValidated(t *testing.T) {
	files, err := chart.Files(chart.Source{Deploy: deploy, Version: "1.2.0"})
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]struct {
			Properties map[string]struct{ Pattern string }
		}
	}
	if err := json.Unmarshal(files["values.schema.json"], &schema); err != nil {
		t.Fatal(err)
	}
	for field, values := range map[string]map[string]bool{
		"repository": {
			"quay.io/team/wmco": true, "registry.example.com:5000/wmco": true, "wmco": true, "10.0.0.1:5000/a/b_c/d__e": true,
			"": false, "wmco'": false, "quay.io/team/wmco:1": false, "quay.io//wmco": false, "quay.io/wmco/": false, "Quay.io/wmco": false, "a\nb": false, "a b": false,
		},
		"tag": {"": true, "v1.2.0": true, "_1": true, "1.2.0-rc.1": true, "v1'": false, "v1\n": false, ".1": false, "a:b": false, "{{ 1 }}": false, strings.Repeat("a", 129): false},
	} {
		pattern := schema.Properties["image"].Properties[field].Pattern
		if pattern == "" {
			t.Errorf("image.%s has no pattern", field)
			continue
		}
		for value, allowed := range values {
			if regexp.MustCompile(pattern).MatchString(value) != allowed {
				t.Errorf("image.%s %q is allowed: %v, want %v", field, value, !allowed, allowed)
			}
		}
	}
}

// TestUseOfHelmTemplateIsExplained: if applied with its hooks, the output has a ConfigMap that a policy rejects while there
// are hosts.
func TestUseOfHelmTemplateIsExplained(t *testing.T) {
	files, err := chart.Files(chart.Source{Deploy: deploy, Version: "1.2.0"})
	if err != nil {
		t.Fatal(err)
	}
	message := regexp.MustCompile(`(?s)messageExpression: >-\n(.*?)\n---`).FindSubmatch(files["templates/uninstall.yaml"])
	for name, text := range map[string][]byte{"the message of the policy": slices.Concat(message...), "values.yaml": files["values.yaml"]} {
		if !bytes.Contains(text, []byte("--no-hooks")) {
			t.Errorf("%s does not explain how to apply the output of helm template: %s", name, text)
		}
	}
}

func TestInvalidChartSourcesAreRejected(t *testing.T) {
	for name, test := range map[string]struct {
		source  chart.Source
		wantErr string
	}{
		"a version with v": {chart.Source{Deploy: deploy, Version: "v1.2.0"}, `version "v1.2.0"`},
		"no version":       {chart.Source{Deploy: deploy}, `version ""`},
		"a short digest":   {chart.Source{Deploy: deploy, Version: "1.2.0", Image: "quay.io/team/wmco@sha256:12"}, "sha256:<64 digits>"},
		"text after it":    {chart.Source{Deploy: deploy, Version: "1.2.0", Image: "quay.io/team/wmco:1\nx: y"}, "image"},
		"no manifests":     {chart.Source{Deploy: "missing", Version: "1.2.0"}, "kustomize folder missing"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := chart.Files(test.source); err == nil || !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("got error %v, want %q", err, test.wantErr)
			}
		})
	}
}

// TestMissingSubstitutedFieldIsRejected copies deploy/ without the fields that the chart replaces.
func TestMissingSubstitutedFieldIsRejected(t *testing.T) {
	for name, test := range map[string]struct{ old, new, wantErr string }{
		"an argument": {"        - --metrics-bind-address=:9182\n", "", "--metrics-bind-address= does not exist"},
		"a selector":  {"      nodeSelector:\n        kubernetes.io/os: linux\n        node-role.kubernetes.io/control-plane: \"\"\n", "", "field nodeSelector does not exist"},
		"the name":    {"  name: windows-machine-config-operator\n", "  name: other\n", "no Deployment windows-machine-config-operator"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(deploy)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "deployment.yaml")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			without := strings.Replace(string(text), test.old, test.new, 1)
			if without == string(text) {
				t.Fatalf("deployment.yaml has no %q", test.old)
			}
			if err := os.WriteFile(path, []byte(without), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := chart.Files(chart.Source{Deploy: dir, Version: "1.2.0"}); err == nil || !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("got error %v, want %q", err, test.wantErr)
			}
		})
	}
}

func TestChartArchiveIsReproducible(t *testing.T) {
	const compare = `tar -xf "$1" -C "$2" && diff -r "$2/$4" "$3/$4" && tar -tf "$1" | sed -n 1p`
	source := chart.Source{Deploy: deploy, Version: "1.2.0"}
	var archives [][]byte
	for range 2 {
		dir := t.TempDir()
		stale := filepath.Join(dir, chart.Name, "templates", "stale.yaml")
		if err := errors.Join(os.MkdirAll(filepath.Dir(stale), 0o755), os.WriteFile(stale, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		path, err := chart.Write(dir, source)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(stale); err == nil {
			t.Error("a file of an earlier chart is still in the folder")
		}
		archive, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, archive)
		first, err := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", compare, "bash", path, t.TempDir(), dir, chart.Name).CombinedOutput()
		if err != nil || string(first) != chart.Name+"/Chart.yaml\n" {
			t.Errorf("the archive differs from the folder, or does not begin with Chart.yaml (%v): %s", err, first)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same chart differ")
	}
}
