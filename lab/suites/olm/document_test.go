//go:build linux

package olm_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/testing/documents"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
	"github.com/windows-machine-config/wmco/lab/windows/winbuild"
)

// TestDocumentHasValidObjects creates each object of docs/install-olm.md as a dry run with strict field validation, on an API
// server with OLM's kinds.
func TestDocumentHasValidObjects(t *testing.T) {
	cp, err := lab.StartControlPlane(t.Context(), lab.ControlPlaneOptions{})
	must(t, err)
	t.Cleanup(cp.Stop)
	must(t, manifest.ApplyObjects(t.Context(), cp.RESTConfig(), readKinds(t)))
	c, err := client.New(cp.RESTConfig(), client.Options{})
	must(t, err)
	for _, name := range []string{catalogNamespace, api.DefaultNamespace} {
		must(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	kinds := map[string]int{}
	for heading, objects := range readExamples(t) {
		for _, o := range objects {
			kinds[o.GetKind()]++
			err := c.Create(t.Context(), o, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
			if err != nil && !apierrors.IsAlreadyExists(err) {
				t.Errorf("%s, under %q: %v", o.GetKind(), heading, err)
			}
		}
	}
	for _, kind := range []string{"CatalogSource", "Namespace", "OperatorGroup", "Subscription", "ClusterCatalog"} {
		if kinds[kind] == 0 {
			t.Errorf("found no %s in docs/install-olm.md", kind)
		}
	}
}

// readKinds reads the CustomResourceDefinitions of OLM v0 from its chart, and that of OLM v1 for catalogs.
func readKinds(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	chart, err := lab.OLMChart(t.Context())
	must(t, err)
	v1, err := winbuild.ModuleFolder(t.Context(), "kinds", "github.com/operator-framework/operator-controller")
	must(t, err)
	files, err := filepath.Glob(filepath.Join(chart, "crds", "*.yaml"))
	must(t, err)
	var all []*unstructured.Unstructured
	for _, file := range append(files, filepath.Join(v1, "helm/olmv1/base/catalogd/crd/standard/olm.operatorframework.io_clustercatalogs.yaml")) {
		text, err := os.ReadFile(file)
		must(t, err)
		o := &unstructured.Unstructured{}
		must(t, yaml.Unmarshal(text, &o.Object))
		all = append(all, o)
	}
	return all
}

// examples are the objects of a document by their heading.
type examples map[string][]*unstructured.Unstructured

func readExamples(t *testing.T) examples {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "install-olm.md"))
	must(t, err)
	blocks, err := documents.Blocks("docs/install-olm.md", string(text))
	must(t, err)
	all := examples{}
	for _, b := range blocks {
		if b.Language != "yaml" {
			continue
		}
		for document := range strings.SplitSeq(b.Text, "---\n") {
			o := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict([]byte(document), &o.Object); err != nil {
				t.Fatalf("%s: %v", b, err)
			}
			all[b.Heading] = append(all[b.Heading], o)
		}
	}
	return all
}

// under returns copies of the objects under a heading.
func (e examples) under(heading string) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, o := range e[heading] {
		all = append(all, o.DeepCopy())
	}
	return all
}
