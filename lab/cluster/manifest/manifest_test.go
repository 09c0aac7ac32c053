package manifest

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windows-machine-config/wmco/internal/testing/documents"
)

// renderExample renders the example in deploy/README.md that changes the namespace and the image.
func renderExample(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	deploy, err := filepath.Abs("../../../deploy")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(deploy, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := documents.Blocks("deploy/README.md", string(readme))
	at := slices.IndexFunc(blocks, func(b documents.Block) bool {
		return strings.HasPrefix(b.Heading, "## Another namespace") && b.Language == "yaml"
	})
	if err != nil || at < 0 {
		t.Fatalf("found no YAML example in deploy/README.md (error %v)", err)
	}
	dir := t.TempDir()
	base, err := filepath.Rel(dir, deploy)
	if err != nil {
		t.Fatal(err)
	}
	example := strings.ReplaceAll(blocks[at].Text, "../deploy", base)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	objects, err := Render(dir)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestManifestsDoNotDependOnNamespace(t *testing.T) {
	const original = "openshift-windows-machine-config-operator"
	for _, o := range renderExample(t) {
		raw, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), original) {
			t.Errorf("%s %s still refers to namespace %s: %s", o.GetKind(), o.GetName(), original, raw)
		}
		if o.GetKind() == "Namespace" && o.GetName() != "windows" {
			t.Errorf("got Namespace %s, want windows", o.GetName())
		}
	}
}

func TestManifestsUseOneNamespace(t *testing.T) {
	for _, o := range renderExample(t) {
		if got := o.GetNamespace(); got != "" && got != "windows" {
			t.Errorf("%s %s is in namespace %s, want windows", o.GetKind(), o.GetName(), got)
		}
	}
}

func TestKustomizationReplacesImageAndNodeSelector(t *testing.T) {
	for _, o := range renderExample(t) {
		if o.GetKind() != "Deployment" {
			continue
		}
		pod, _, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
		nodes, _, _ := unstructured.NestedStringMap(pod, "nodeSelector")
		if want := map[string]string{"kubernetes.io/os": "linux"}; !maps.Equal(nodes, want) {
			t.Errorf("got node selector %v, want %v", nodes, want)
		}
		containers, _, _ := unstructured.NestedSlice(pod, "containers")
		image, _, _ := unstructured.NestedString(containers[0].(map[string]any), "image")
		if !strings.HasPrefix(image, "registry.example.com/wmco:v") {
			t.Errorf("got image %s, want registry.example.com/wmco with the version", image)
		}
		return
	}
	t.Error("found no Deployment")
}

func TestManifestsAreListedAndDocumented(t *testing.T) {
	files, err := filepath.Glob("../../../deploy/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := filepath.Glob("../../../deploy/crds/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile("../../../deploy/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../../deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Concat(files, definitions) {
		name := strings.TrimPrefix(filepath.ToSlash(file), "../../../deploy/")
		if name != "kustomization.yaml" && !strings.Contains(string(list), "- "+name+"\n") {
			t.Errorf("kustomization.yaml does not list %s", name)
		}
		if !strings.HasPrefix(name, "crds/") && !strings.Contains(string(readme), "`"+name+"`") {
			t.Errorf("README.md does not describe %s", name)
		}
	}
}

func TestRenderErrorNamesFolder(t *testing.T) {
	dir := t.TempDir()
	if _, err := Render(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("got error %v, want one that names %s", err, dir)
	}
}
