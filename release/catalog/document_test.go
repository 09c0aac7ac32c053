package catalog_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/internal/testing/documents"
	"github.com/windows-machine-config/wmco/release/bundle"
	"github.com/windows-machine-config/wmco/release/catalog"
	"github.com/windows-machine-config/wmco/release/image"
)

// documented returns the manifests of docs/install-olm.md by kind.
func documented(t *testing.T) map[string][]*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile("../../docs/install-olm.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := documents.Blocks("docs/install-olm.md", string(text))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]*unstructured.Unstructured{}
	for _, b := range blocks {
		if b.Language != "yaml" {
			continue
		}
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(b.Text), &o.Object); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		found[o.GetKind()] = append(found[o.GetKind()], o)
	}
	return found
}

// singleObject returns the only manifest of a kind.
func singleObject(t *testing.T, all map[string][]*unstructured.Unstructured, kind string) *unstructured.Unstructured {
	t.Helper()
	if n := len(all[kind]); n != 1 {
		t.Fatalf("the document has %d manifests of kind %s, want 1", n, kind)
	}
	return all[kind][0]
}

func textOf(t *testing.T, o *unstructured.Unstructured, path ...string) string {
	t.Helper()
	value, _, err := unstructured.NestedString(o.Object, path...)
	if err != nil {
		t.Fatalf("%s: %v", o.GetKind(), err)
	}
	return value
}

// TestDocumentedCatalogSourceMatchesImage applies the CatalogSource to the image that it names, as OLM does: OLM copies the folders in
// extractContent out of the image, and a missing folder ends the pod. A cache is one of them, and must be of this catalog.
func TestDocumentedCatalogSourceMatchesImage(t *testing.T) {
	source := singleObject(t, documented(t), "CatalogSource")
	index, err := releases(t).Image(image.Source{Version: "1.2.0"})
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	extract, _, err := unstructured.NestedStringMap(source.Object, "spec", "grpcPodConfig", "extractContent")
	if err != nil || extract["catalogDir"] == "" {
		t.Fatalf("extractContent is %v (%v)", extract, err)
	}
	for _, d := range manifest.Manifests {
		img, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		folders := foldersOf(t, mutate.Extract(img))
		for field, folder := range extract {
			if !folders[strings.Trim(folder, "/")] {
				t.Errorf("%s is %s, which the image for %s does not have; it has %v", field, folder, d.Platform, folders)
			}
		}
		config, err := img.ConfigFile()
		if err != nil || config.Config.Labels["operators.operatorframework.io.index.configs.v1"] != extract["catalogDir"] {
			t.Errorf("catalogDir is %s, but the labels are %v (%v)", extract["catalogDir"], config.Config.Labels, err)
		}
	}
}

// TestDocumentedCatalogsFollowReleases: a catalog referenced by the tag of a version never has another version, and is not
// pulled again.
func TestDocumentedCatalogsFollowReleases(t *testing.T) {
	all := documented(t)
	source, cluster := singleObject(t, all, "CatalogSource"), singleObject(t, all, "ClusterCatalog")
	const want = "ghcr.io/windows-machine-config/wmco-catalog:" + bundle.Channel
	for kind, ref := range map[string]string{"CatalogSource": textOf(t, source, "spec", "image"), "ClusterCatalog": textOf(t, cluster, "spec", "source", "image", "ref")} {
		if ref != want {
			t.Errorf("the image of %s is %s, want %s, whose tag follows the channel", kind, ref, want)
		}
	}
	if every, err := time.ParseDuration(textOf(t, source, "spec", "updateStrategy", "registryPoll", "interval")); err != nil || every < 10*time.Minute {
		t.Errorf("spec.updateStrategy.registryPoll.interval of the CatalogSource is %s (%v), want some minutes", every, err)
	}
	if minutes, found, err := unstructured.NestedFieldNoCopy(cluster.Object, "spec", "source", "image", "pollIntervalMinutes"); !found || err != nil || minutes == float64(0) {
		t.Errorf("spec.source.image.pollIntervalMinutes of the ClusterCatalog is %v (%v)", minutes, err)
	}
}

// TestDocumentedManifestsAreConsistent compares the names that users copy from one manifest to the next.
func TestDocumentedManifestsAreConsistent(t *testing.T) {
	all := documented(t)
	source, namespace, group := singleObject(t, all, "CatalogSource"), singleObject(t, all, "Namespace"), singleObject(t, all, "OperatorGroup")
	for _, s := range all["Subscription"] {
		for field, want := range map[string]string{
			"channel": bundle.Channel, "name": bundle.Package, "source": source.GetName(), "sourceNamespace": source.GetNamespace(),
		} {
			if got := textOf(t, s, "spec", field); got != want {
				t.Errorf("spec.%s of the Subscription is %q, want %q", field, got, want)
			}
		}
		if s.GetNamespace() != namespace.GetName() {
			t.Errorf("the Subscription is in namespace %s, want %s", s.GetNamespace(), namespace.GetName())
		}
	}
	targets, _, err := unstructured.NestedStringSlice(group.Object, "spec", "targetNamespaces")
	if err != nil || group.GetNamespace() != namespace.GetName() || !slices.Equal(targets, []string{namespace.GetName()}) {
		t.Errorf("the OperatorGroup of namespace %s has targets %v (%v)", group.GetNamespace(), targets, err)
	}
	labels := suggestedNamespace(t).GetLabels()
	for key, value := range namespace.GetLabels() {
		if labels[key] != value {
			t.Errorf("label %s of the Namespace is %q; the console gives it %q", key, value, labels[key])
		}
	}
}

// suggestedNamespace returns the Namespace that the console creates.
func suggestedNamespace(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	files, err := newBundle(t, "1.0.0", "").Files()
	if err != nil {
		t.Fatal(err)
	}
	var csv, namespace unstructured.Unstructured
	if err := yaml.Unmarshal(files["manifests/"+bundle.Package+".clusterserviceversion.yaml"], &csv.Object); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(csv.GetAnnotations()["operatorframework.io/suggested-namespace-template"]), &namespace.Object); err != nil {
		t.Fatal(err)
	}
	return &namespace
}

// TestCatalogKeepsPublishedBundles: a cluster with a version that a new catalog lacks could no longer be upgraded.
func TestCatalogKeepsPublishedBundles(t *testing.T) {
	index, err := releases(t).Image(image.Source{Version: "1.2.0"})
	if err != nil {
		t.Fatal(err)
	}
	published, err := catalog.OfImage(index)
	if err != nil {
		t.Fatal(err)
	}
	if head, err := published.Head(); err != nil || head != "1.2.0" || len(published.Bundles) != 3 {
		t.Errorf("the image has head %s (%v) of %d bundles", head, err, len(published.Bundles))
	}
	next := releases(t)
	if err := next.Add(newBundle(t, "1.3.0", "1.2.0"), "quay.io/team/wmco-bundle"+digestOf("3")); err != nil {
		t.Fatal(err)
	}
	if err := next.Keeps(published, ""); err != nil {
		t.Errorf("the next catalog is rejected: %v", err)
	}
	if err := published.Keeps(next, ""); err == nil || !strings.Contains(err.Error(), bundle.Name("1.3.0")) {
		t.Errorf("a catalog without the last version: %v", err)
	}
	if err := published.Keeps(next, "1.3.0"); err != nil {
		t.Errorf("a catalog without a version that was withdrawn: %v", err)
	}
	next.Bundles[0].Image = "quay.io/team/wmco-bundle" + digestOf("9")
	if err := next.Keeps(published, ""); err == nil || !strings.Contains(err.Error(), bundle.Name("1.0.0")) {
		t.Errorf("a catalog with another image for a version: %v", err)
	}
}
