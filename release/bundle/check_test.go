package bundle_test

import (
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windows-machine-config/wmco/release/bundle"
)

// TestInvalidBundlesAreRejected breaks this package's rules, and one rule of each validator of operator-framework/api.
func TestInvalidBundlesAreRejected(t *testing.T) {
	annotation := func(key, value string) func(*bundle.Bundle) {
		return func(b *bundle.Bundle) { b.CSV.Annotations[key] = value }
	}
	object := func(kind, name string) func(*bundle.Bundle) {
		return func(b *bundle.Bundle) {
			b.Objects = append(b.Objects, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name}}})
		}
	}
	built := mustBuild(t)
	for name, tc := range map[string]struct {
		breaks func(*bundle.Bundle)
		want   string
	}{
		"no mail address":            {func(b *bundle.Bundle) { b.CSV.Spec.Maintainers[0].Email = "someone" }, "csv.Spec.Maintainers email someone is invalid"},
		"capability":                 {annotation("capabilities", "Magic"), `"Magic" is not a valid capabilities level`},
		"category":                   {annotation("categories", "Networking, Windows"), `Windows" is not in the set of standard categories`},
		"annotation with wrong case": {annotation("olm.skiprange", "x"), "should be olm.skipRange"},
		"image not related":          {func(b *bundle.Bundle) { b.CSV.Spec.RelatedImages = nil }, "spec.relatedImages does not list its image"},
		"no requests": {func(b *bundle.Bundle) {
			b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0].Resources.Requests = nil
		}, "unable to find the resource requests"},
		"changes SCCs": {func(b *bundle.Bundle) {
			p := &b.CSV.Spec.InstallStrategy.StrategySpec.Permissions[0]
			p.Rules = append(p.Rules, rbacv1.PolicyRule{APIGroups: []string{"security.openshift.io"}, Resources: []string{"securitycontextconstraints"}, Verbs: []string{"update"}})
		}, "update securitycontextconstraints"},
		"admission policies": {object("ValidatingAdmissionPolicy", "x"), "OLM does not install this kind"},
		"network policies":   {object("NetworkPolicy", "x"), "OLM does not install this kind"},
		"object in a namespace": {func(b *bundle.Bundle) { b.Objects[len(b.Objects)-1].SetNamespace("openshift-machine-api") },
			"it has namespace openshift-machine-api"},
		"owned without CRD": {func(b *bundle.Bundle) { b.CSV.Spec.CustomResourceDefinitions.Owned[0].Version = "v2" }, `v2, Kind=WindowsConfig" not found in bundle`},
		"path that does not exist": {func(b *bundle.Bundle) {
			b.CSV.Spec.CustomResourceDefinitions.Owned[0].SpecDescriptors[0].Path = "network.providers"
		}, "descriptor network.providers"},
		"too large": {func(b *bundle.Bundle) { b.CSV.Spec.Icon[0].Data = base64.StdEncoding.EncodeToString(noise(1 << 20)) }, "compressed size"},
		"two names": {func(b *bundle.Bundle) { b.Objects = append(b.Objects, b.Objects[0]) }, "two objects have this name"},
	} {
		t.Run(name, func(t *testing.T) {
			b := copyOf(t, built)
			tc.breaks(b)
			if err := b.Check(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want %s", err, tc.want)
			}
		})
	}
}

// copyOf returns a copy that can be changed, which is faster than a build.
func copyOf(t *testing.T, b *bundle.Bundle) *bundle.Bundle {
	t.Helper()
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	again := &bundle.Bundle{}
	if err := json.Unmarshal(text, again); err != nil {
		t.Fatal(err)
	}
	return again
}

// noise returns bytes that do not compress.
func noise(n int) []byte {
	all := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(all) // never fails
	return all
}
