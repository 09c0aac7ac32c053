package verify_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xeipuuv/gojsonschema"
	"sigs.k8s.io/yaml"
)

// testFiles compares the files with those that RELEASE.md lists.
func (r *released) testFiles(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(r.clone, "RELEASE.md"))
	must(t, err)
	var found []string
	entries, err := os.ReadDir(r.files)
	must(t, err)
	for _, e := range entries {
		name := strings.ReplaceAll(e.Name(), version, "<version>")
		if rest, plugin := strings.CutPrefix(name, "kubectl-windows-<version>-"); plugin && strings.Count(rest, "-") == 1 {
			name = "kubectl-windows-<version>-<os>-<arch>.tar.gz"
		}
		if !slices.Contains(found, name) {
			found = append(found, name)
		}
		if !strings.Contains(string(text), "| `"+name+"` |") {
			t.Errorf("RELEASE.md does not list %s", e.Name())
		}
	}
	for line := range strings.Lines(string(text)) {
		row, isRow := strings.CutPrefix(line, "| `")
		if name, _, _ := strings.Cut(row, "` |"); isRow && !slices.Contains(found, name) {
			t.Errorf("the release has no %s, which RELEASE.md lists", name)
		}
	}
	if notes, err := os.ReadFile(filepath.Join(r.files, "release-notes.md")); err != nil || !strings.Contains(string(notes), "\n- ") {
		t.Errorf("the notes are %q (%v)", notes, err)
	}
}

// testSBOM validates the software bill of materials with the CycloneDX schema from its library.
func (r *released) testSBOM(t *testing.T) {
	library := command(t, ".", nil, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go")
	text, err := os.ReadFile(filepath.Join(r.files, "wmco-"+version+".cdx.json"))
	must(t, err)
	if !strings.Contains(string(text), `"specVersion": "1.7"`) {
		t.Errorf("the version is not 1.7: %.300s", text)
	}
	file := func(name string) gojsonschema.JSONLoader {
		return gojsonschema.NewReferenceLoader("file://" + filepath.Join(library, "schema", name))
	}
	loader := gojsonschema.NewSchemaLoader()
	for _, name := range []string{"spdx", "jsf-0.82"} { // the schema refers to them at their publisher
		found, err := filepath.Glob(filepath.Join(library, "schema", name+".schema*.json"))
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		must(t, loader.AddSchema("http://cyclonedx.org/schema/"+name+".schema.json", file(filepath.Base(found[0]))))
	}
	// The schema also refers to names of algorithms that are not in the library. Nothing in the list names one.
	const algorithms = `{"definitions": {"algorithmFamiliesEnum": false, "ellipticCurvesEnum": false}}`
	must(t, loader.AddSchema("http://cyclonedx.org/schema/cryptography-defs.schema.json", gojsonschema.NewStringLoader(algorithms)))
	schema, err := loader.Compile(file("bom-1.7.schema.json"))
	must(t, err)
	result, err := schema.Validate(gojsonschema.NewBytesLoader(text))
	must(t, err)
	for _, fault := range result.Errors() {
		t.Errorf("invalid: %s", fault)
	}
}

// testKrew installs the plugin for each platform with krew's validator, from archives that the test serves.
func (r *released) testKrew(t *testing.T) {
	released, err := os.ReadFile(filepath.Join(r.files, "windows.yaml"))
	must(t, err)
	server := httptest.NewServer(http.FileServer(http.Dir(r.files)))
	defer server.Close()
	published := "https://github.com/windows-machine-config/wmco/releases/download/v" + version
	if n := strings.Count(string(released), published+"/kubectl-windows-"); n != 6 {
		t.Errorf("%d archives are published below %s, want 6", n, published)
	}
	manifest := filepath.Join(t.TempDir(), "windows.yaml")
	must(t, os.WriteFile(manifest, []byte(strings.ReplaceAll(string(released), published, server.URL)), 0o600))
	bin := filepath.Join(t.TempDir(), "krew")
	command(t, ".", nil, "go", "build", "-o", bin+"/kubectl-krew", "sigs.k8s.io/krew/cmd/krew")
	command(t, ".", nil, "go", "build", "-o", bin+"/validate", "sigs.k8s.io/krew/cmd/validate-krew-manifest")
	kubectl := "#!/bin/sh\n[ \"$1\" = krew ] && shift && exec kubectl-krew \"$@\"\n"
	must(t, os.WriteFile(bin+"/kubectl", []byte(kubectl), 0o755))
	validate := exec.CommandContext(t.Context(), bin+"/validate", "-manifest", manifest)
	validate.Env = append(slices.Clone(r.env), "PATH="+bin+":"+os.Getenv("PATH"), "KREW_ROOT="+t.TempDir())
	if out, err := validate.CombinedOutput(); err != nil || !strings.Contains(string(out), "all 6 spec.platforms installed fine") {
		t.Errorf("krew's validator: %v\n%s", err, out)
	}
}

// testCommunity checks that the archive for OLM has the entry of a community catalog.
func (r *released) testCommunity(t *testing.T) {
	dir := t.TempDir()
	command(t, dir, r.env, "tar", "-xzf", filepath.Join(r.files, "wmco-"+version+"-olm.tar.gz"))
	operator := filepath.Join(dir, "wmco-"+version+"-olm", "community", "operators", "windows-machine-config-operator")
	for _, name := range []string{"ci.yaml", version + "/release-config.yaml", version + "/metadata/annotations.yaml", version + "/tests/scorecard/config.yaml"} {
		text, err := os.ReadFile(filepath.Join(operator, name))
		var content map[string]any
		if err == nil {
			err = yaml.Unmarshal(text, &content)
		}
		if err != nil || len(content) == 0 {
			t.Errorf("%s: %v, %v", name, err, content)
		}
	}
}
